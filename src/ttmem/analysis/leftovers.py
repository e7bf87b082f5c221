"""Leak checks of a dump: the strict rule, and the comparison with an earlier dump."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ttmem.errors import BadInput
from ttmem.events import LABELS, Amounts
from ttmem.sizes import human, several
from ttmem.snapshots import Snapshot
from ttmem.text import clean

SCHEMA = "ttmem.dump/1"
WRITE = "`ttmem dump --json --top 0 > FILE` writes one"


CUT_SHORT = "ended without closing the device (killed, or ended by _exit)"


class Ignored(NamedTuple):
    """What a check ignores."""

    min_bytes: int = 0  # for one line of code
    phases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of a leak check; it fails if anything leaks, or holds memory and cannot be judged."""

    rule: str  # growth, baseline or strict
    reasons: tuple[str, ...] = ()  # a clause each
    not_judged: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()  # what would make the outcome more certain

    def __add__(self, other: Check) -> Check:
        return Check(
            self.rule,
            self.reasons + other.reasons,
            self.not_judged + other.not_judged,
            tuple(dict.fromkeys(self.hints + other.hints)),
        )

    @property
    def failed(self) -> bool:
        return bool(self.reasons or self.not_judged)


class CodeLine(NamedTuple):
    """The line of code that holds memory, comparable between runs."""

    kind: str
    site: str | None
    op: str | None

    def __str__(self) -> str:
        where = clean((self.site or "").split("\n", 1)[0]) or "no call site"
        return f"{self.kind} at {where}{f' ({clean(self.op)})' if self.op else ''}"


def held_at(snapshots: Iterable[Snapshot], limits: Ignored) -> dict[CodeLine, int]:
    """Bytes by line of code; what is known only as a sum has no line."""
    held: dict[CodeLine, int] = defaultdict(int)
    for snapshot in snapshots:
        ids = {device.unique_id for device in snapshot.devices}
        rest = {
            (process.pid, device): amounts
            for process in snapshot.processes
            for device, amounts in process.devices.items()
            if device in ids
        }
        for buffer in snapshot.buffers or ():
            if buffer.kind in LABELS:
                owner = (buffer.pid or 0, buffer.device or "")
                if owner in rest:
                    rest[owner] = _without(rest[owner], buffer.kind, buffer.held)
                if buffer.phase not in limits.phases:
                    held[CodeLine(buffer.kind, buffer.site, buffer.name)] += buffer.held
        for amounts in rest.values():
            for label, bytes_ in amounts.by_label().items():
                held[CodeLine(label, None, None)] += max(0, bytes_)
    return {place: bytes_ for place, bytes_ in held.items() if bytes_ > 0}


def _without(amounts: Amounts, label: str, bytes_: int) -> Amounts:
    key = label.lower()
    return amounts._replace(**{key: getattr(amounts, key) - bytes_})


def strict_check(snapshots: Iterable[Snapshot], limits: Ignored) -> Check:
    """Fails for anything that is allocated, or was never freed."""
    states = list(snapshots)
    found = held_at(states, limits)
    reasons = [
        f"{human(bytes_)} of {place} is held, or was never freed"
        for place, bytes_ in sorted(found.items(), key=lambda item: -item[1])
        if bytes_ >= max(1, limits.min_bytes)
    ]
    unlisted = sum(process.overflow for snapshot in states for process in snapshot.processes)
    if unlisted:
        reasons.append(f"{several(unlisted, 'more buffer')} of which nothing else is known")
    return Check("strict", tuple(reasons))


@dataclass(frozen=True, slots=True)
class DumpBaseline:
    """What was allocated in an earlier dump."""

    name: str
    boards: frozenset[str]
    held: Mapping[CodeLine, int]


def baseline_check(snapshots: Iterable[Snapshot], limits: Ignored, baseline: DumpBaseline) -> Check:
    """Fails for anything that exceeds the baseline, by line of code."""
    states = list(snapshots)
    boards = {device.board for snapshot in states for device in snapshot.devices if device.board}
    if boards and baseline.boards and not boards <= baseline.boards:
        raise BadInput(
            f"{baseline.name} was written on {', '.join(sorted(baseline.boards))}, and this is"
            f" {', '.join(sorted(boards))}: sizes differ between boards; {WRITE} here"
        )
    reasons = []
    for place, bytes_ in sorted(held_at(states, limits).items(), key=lambda item: -item[1]):
        more = bytes_ - baseline.held.get(place, 0)
        if more >= max(1, limits.min_bytes):
            reasons.append(
                f"{human(more)} more of {place} than in {baseline.name}: {human(bytes_)}"
            )
    return Check("baseline", tuple(reasons))


def read_baseline(name: str) -> DumpBaseline:
    """BadInput if the file cannot be used."""
    try:
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as problem:
        raise BadInput(f"{name} cannot be read ({problem.strerror}); {WRITE}") from None
    except ValueError:
        raise BadInput(f"{name} is not JSON; {WRITE}") from None
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(document["schema"])
        return _baseline(name, document)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadInput(
            f"{name} is not a dump that this version of ttmem can read; {WRITE}"
        ) from None


def _baseline(name: str, document: Mapping[str, Any]) -> DumpBaseline:
    held: dict[CodeLine, int] = defaultdict(int)
    boards = set()
    for device in (*document["devices"], *document["never_freed"]):
        boards.add(device.get("board"))
        for group in device["memory"]:
            if group["rest"]:
                raise BadInput(
                    f"{name} does not list every buffer: it was written without --top 0; {WRITE}"
                )
            listed = 0
            for buffer in group["largest"] if group["kind"] != "CB" else ():
                bytes_ = buffer["reserved"] or buffer["requested"]
                held[CodeLine(group["kind"], buffer["site"], buffer["name"])] += bytes_
                listed += bytes_
            held[CodeLine(group["kind"], None, None)] += max(0, group["held"] - listed)
    return DumpBaseline(name, frozenset(board for board in boards if board), dict(held))
