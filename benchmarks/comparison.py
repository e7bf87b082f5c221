"""`python -m benchmarks --against COMMIT`: the same benchmarks here and at another commit, in turns.

The other commit gets a work tree and an environment of its own, and runs its own benchmarks. Rows are compared by name;
a row whose name has changed is listed, and not compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.ground import Failed, amount
from benchmarks.table import Row, read_rows

ROUNDS = amount(5, 1)
LIMIT = 1.05  # this many times slower is too slow
HERE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Compared:
    """Medians of one row at the other commit and here."""

    what: str
    unit: str
    there: float
    here: float
    at_least: bool

    @property
    def slowdown(self) -> float:
        """How many times slower or larger it is here; 1 is the same."""
        worse, better = (self.there, self.here) if self.at_least else (self.here, self.there)
        if better > 0:
            return worse / better
        return 1.0 if worse <= 0 else float("inf")


def compare(commit: str, names: Sequence[str]) -> bool:
    """Prints the rows; whether all are as fast as the limit demands."""
    there: list[list[Row]] = []
    here: list[list[Row]] = []
    with other_tree(commit) as tree:
        for number in range(1, ROUNDS + 1):
            for folder, rounds, title in ((tree, there, commit), (HERE, here, "here")):
                print(f"round {number} of {ROUNDS}, {title} ...", file=sys.stderr, flush=True)
                rounds.append(_measure(folder, names))
    rows = compared(there, here)
    print(table(rows, commit))
    for what in sorted(_names(there) ^ _names(here)):
        print(f"only {'here' if what in _names(here) else f'at {commit}'}: {what}")
    return all(row.slowdown <= LIMIT for row in rows)


def compared(there: Sequence[Sequence[Row]], here: Sequence[Sequence[Row]]) -> list[Compared]:
    """The rows that every round has on both sides, in the order of this side."""
    values = [_values(rounds) for rounds in (there, here)]
    return [
        Compared(row.what, row.unit, median(values[0][key]), median(values[1][key]), row.at_least)
        for row in here[0]
        if (key := (row.what, row.unit)) in values[0] and key in values[1]
    ]


def table(rows: Sequence[Compared], commit: str) -> str:
    lines = [f"{'what':<64} {commit[:14]:>14} {'here':>14} {'slowdown':>9}"]
    for row in rows:
        mark = "ok" if row.slowdown <= LIMIT else "SLOWER"
        figures = (f"{value:,.4g} {row.unit}" for value in (row.there, row.here))
        lines.append(
            f"{row.what:<64} {' '.join(f'{figure:>14}' for figure in figures)} {row.slowdown:>8.2f}  {mark}"
        )
    return "\n".join(lines)


@contextmanager
def other_tree(commit: str) -> Iterator[Path]:
    """A work tree of the commit, with ttmem installed in its .venv."""
    try:
        name = _run("git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()
    except Failed:
        raise Failed(f"git knows no commit {commit!r}") from None
    with tempfile.TemporaryDirectory(prefix="ttmem-against-") as folder:
        tree = Path(folder) / "tree"
        _run("git", "worktree", "add", "--quiet", "--detach", str(tree), name)
        try:
            print(f"installing {commit} ...", file=sys.stderr, flush=True)
            _run("make", "install", f"PYTHON={sys.executable}", folder=tree)
            yield tree
        finally:
            _run("git", "worktree", "remove", "--force", str(tree))


def _measure(folder: Path, names: Sequence[str]) -> list[Row]:
    done = subprocess.run(
        [f"{folder}/.venv/bin/python", "-m", "benchmarks", *names],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: a limit was missed, which is not the question here
        raise Failed(f"the benchmarks in {folder} failed: {_last_line(done.stderr)}")
    return read_rows(done.stdout)


def _environment() -> Mapping[str, str]:
    """Without this environment's paths: each side imports its own modules."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _values(rounds: Sequence[Sequence[Row]]) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for rows in rounds:
        for row in rows:
            found.setdefault((row.what, row.unit), []).append(row.value)
    return {key: values for key, values in found.items() if len(values) == len(rounds)}


def _names(rounds: Sequence[Sequence[Row]]) -> set[str]:
    return {what for what, _ in _values(rounds)}


def _run(*command: str, folder: Path = HERE) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
        )
    except OSError as problem:
        raise Failed(f"{command[0]}: {problem.strerror}") from problem
    if done.returncode:
        raise Failed(f"{' '.join(command[:3])} failed: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
