"""Two runs are compared by names: what was added, removed, has grown or shrunk, and whether a limit is exceeded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.runs import Run
from ttmem.analysis.diff import compare, parse_limit
from ttmem.analysis.history import History
from ttmem.commands import main
from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.recording import Recording

MIB = 1 << 20


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """The second has more weights at another address, a new cache, and no scratch."""
    paths = tmp_path / "a.ttmem", tmp_path / "b.ttmem"
    with Run(paths[0]) as run:
        run.alloc(10 * MIB, "/home/a/model.py:3 load", address=0x1000)
        run.alloc(2 * MIB, "/home/a/model.py:7 scratch", kind=MemoryKind.L1)
    with Run(paths[1], pid=77) as run:
        run.alloc(12 * MIB, "/home/b/model.py:3 load", address=0x9000)
        run.alloc(4 * MIB, "/home/b/model.py:5 cache")
    return str(paths[0]), str(paths[1])


def test_changes_are_matched_by_name_and_add_up_to_that_of_the_peak(
    runs: tuple[str, str],
) -> None:
    with Recording(runs[0]) as before, Recording(runs[1]) as after:
        found = compare(History(before), History(after))

    dram, l1 = found.memories[0], found.memories[1]
    assert (dram.peak.before, dram.peak.after, dram.peak.what) == (10 * MIB, 16 * MIB, "grown")
    assert [(change.name, change.by, change.what) for change in dram.holders["site"]] == [
        ("DRAM  ttnn.empty  model.py:5 cache", 4 * MIB, "added"),
        ("DRAM  ttnn.empty  model.py:3 load", 2 * MIB, "grown"),
    ]
    assert dram.explained == 1.0
    assert [change.what for change in l1.holders["site"]] == ["removed"]
    for memory in found.memories:
        for rows in memory.holders.values():
            assert sum(change.by for change in rows) == memory.peak.by


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("dram.peak > +59%", 1),
        ("dram.peak > +60%", 0),
        ("dram.peak >= +60%", 1),
        ("dram.peak > +5 MiB", 1),
        ("dram.peak > 16 MiB", 0),
        ("l1.peak > +2%", 0),
        ("allocations > +0%", 0),
    ],
)
def test_a_limit_decides_the_exit_code(
    limit: str, code: int, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *runs, "--fail-if", limit, "--json"]) == code

    document = json.loads(capsys.readouterr().out)
    assert document["failed"] == [limit] * code


@pytest.mark.parametrize(
    "limit", ["", "l1.peak", "l1.peak > ", "peak > 2%", "l1.peak < +2%", "dram.peak > 2%"]
)
def test_a_limit_that_cannot_be_parsed_shows_how_it_is_written(limit: str) -> None:
    with pytest.raises(BadInput, match=r"write it like 'l1_used\.peak > \+2%'"):
        parse_limit(limit)


def test_a_limit_on_something_else_names_what_there_is(runs: tuple[str, str]) -> None:
    with Recording(runs[0]) as before, Recording(runs[1]) as after:
        found = compare(History(before), History(after))
    with pytest.raises(BadInput, match=r"known are dram\.peak, "):
        parse_limit("l2.peak > +2%").broken_by(found)


def test_l1_is_the_row_l1_and_not_all_of_l1(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Run(tmp_path / f"{name}.ttmem") as run:
            run.alloc(2 * MIB, kind=MemoryKind.L1)
            run.circular(1, 3 * MIB, 0x20000)
    with (
        Recording(str(tmp_path / "a.ttmem")) as before,
        Recording(str(tmp_path / "b.ttmem")) as after,
    ):
        found = compare(History(before), History(after))

    assert not parse_limit("l1.peak > 2 MiB").broken_by(found)
    assert parse_limit("l1.peak > 1 MiB").broken_by(found)
    assert parse_limit("l1_used.peak > 4 MiB").broken_by(found)
    assert parse_limit("cb.peak > 2 MiB").broken_by(found)


@pytest.mark.parametrize(
    "limit", ["l1_small.peak > 20 MiB", "trace.peak > +2%", "cb.peak > +1 KiB"]
)
def test_memory_that_neither_run_used_exceeds_no_limit(limit: str, runs: tuple[str, str]) -> None:
    assert main(["diff", *runs, "--fail-if", limit]) == 0


def test_an_exceeded_limit_says_by_which_figure(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", *runs, "--fail-if", "dram.peak > 12 MiB", "--fail-if", "allocations > 1"])

    said = capsys.readouterr().out
    assert "exceeded: dram.peak > 12 MiB: 16.0 MiB, before 10.0 MiB" in said
    assert "exceeded: allocations > 1: 2, before 2" in said


def test_runs_of_a_renamed_script_are_compared_by_operation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / "a.ttmem"), str(tmp_path / "b.ttmem")]
    for file, script in zip(files, ("old.py", "new.py"), strict=True):
        with Run(Path(file)) as run:
            run.alloc(MIB, f"{script}:1 main", op="ttnn.empty")

    assert main(["diff", *files]) == 2
    assert "--by op compares by operation" in capsys.readouterr().err
    assert main(["diff", *files, "--by", "op"]) == 0


def test_two_recordings_with_nothing_in_common_are_not_compared(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Run(tmp_path / f"{name}.ttmem") as run:
            run.alloc(MIB, f"{name}.py:1 main", op=name)
    with (
        Recording(str(tmp_path / "a.ttmem")) as before,
        Recording(str(tmp_path / "b.ttmem")) as after,
        pytest.raises(BadInput, match="nothing in common"),
    ):
        compare(History(before), History(after))


def test_markdown_escapes_what_programs_choose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, size in (("a", 1), ("b", 2)):
        with Run(tmp_path / f"{name}.ttmem") as run:
            run.alloc(size * MIB, "x.py:1 f|`<script>")
    main(["diff", str(tmp_path / "a.ttmem"), str(tmp_path / "b.ttmem"), "--markdown"])

    said = capsys.readouterr().out
    assert "| DRAM | 1.0 MiB | 2.0 MiB | +1.0 MiB | +100.0% |" in said
    assert "`DRAM  ttnn.empty  x.py:1 f\\|'<script>`" in said
