"""Compares two runs: peaks and what they consisted of, programs and counts, matched by name and not by address."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.analysis.composition import Composition, Holder, compositions
from ttmem.analysis.history import L1_USED, MEMORIES, History
from ttmem.analysis.leaks import BINARIES
from ttmem.errors import BadInput
from ttmem.sizes import human, parse_size

BY = ("site", "op", "phase", "size")
NO_NAME = "(unknown)"
_WHAT = {"site": "line of code", "op": "operation", "phase": "phase", "size": "buffer of that size"}
_RENAMED = "; if its file or functions were renamed, --by op compares by operation"
FAILED = "failed"  # the count of failed allocations


class Change(NamedTuple):
    """One name in both runs: bytes, or a count."""

    name: str
    before: int
    after: int

    @property
    def by(self) -> int:
        return self.after - self.before

    @property
    def what(self) -> str:
        """added, removed, grown, shrunk or same."""
        if not self.by:
            return "same"
        if not self.before:
            return "added"
        if not self.after:
            return "removed"
        return "grown" if self.by > 0 else "shrunk"


@dataclass(frozen=True, slots=True)
class MemoryDiff:
    """The peak of one memory, on the device where it was highest, and what it consisted of."""

    memory: str
    peak: Change
    capacity: tuple[int | None, int | None]
    # By site, op, phase and size; the largest change first.
    holders: Mapping[str, tuple[Change, ...]]

    @property
    def explained(self) -> float | None:
        """The part of the change that named lines of code account for; None if nothing changed."""
        if not self.peak.by:
            return None
        named = sum(
            change.by for change in self.holders["site"] if not change.name.endswith(NO_NAME)
        )
        return named / self.peak.by


@dataclass(frozen=True, slots=True)
class Diff:
    names: tuple[str, str]
    boards: tuple[str, str]
    memories: tuple[MemoryDiff, ...]
    programs: tuple[Change, ...]  # circular buffers of each, on all its cores
    counts: tuple[Change, ...]
    failed_unknown: tuple[str, ...] = ()  # why there is no count of failed allocations

    def figure(self, name: str) -> Change | None:
        """'l1.peak', 'dram.peak', 'allocations', ... What neither run used has a peak of 0."""
        unused = {f"{memory}.peak": Change(memory, 0, 0) for memory in MEMORIES}
        used = {f"{memory.memory}.peak": memory.peak for memory in self.memories}
        counts = {change.name: change for change in self.counts}
        return (unused | used | counts).get(name)


def compare(before: History, after: History, by: str = "site") -> Diff:
    """Loss if one of them is incomplete; BadInput if nothing in them has the same name (`by`: one of BY)."""
    for history in (before, after):
        history.need_everything("comparison")
    old, new = _highest(before), _highest(after)
    _check_common(before, after, old, new, by)
    memories = [
        _memory(name, old.get(name), new.get(name))
        for name in MEMORIES
        if name in old or name in new
    ]
    known = [(history.info.name, history.recording.failures_unknown) for history in (before, after)]
    unknown = tuple(f"{name}: {why}" for name, why in known if why)
    return Diff(
        (before.info.name, after.info.name),
        (_boards(before), _boards(after)),
        tuple(memories),
        _changes(_programs(old), _programs(new)),
        tuple(
            Change(name, _counts(before)[name], number)
            for name, number in _counts(after).items()
            if name != FAILED or not unknown
        ),
        unknown,
    )


def _highest(history: History) -> dict[str, Composition]:
    """The peak of each memory, on the device that held most of it."""
    found: dict[str, Composition] = {}
    for composition in compositions(history):
        if composition.memory not in found or composition.bytes > found[composition.memory].bytes:
            found[composition.memory] = composition
    return found


def _check_common(
    before: History,
    after: History,
    old: Mapping[str, Composition],
    new: Mapping[str, Composition],
    by: str,
) -> None:
    def names(found: Mapping[str, Composition]) -> set[str]:
        places = {
            _KEYS[by](holder)
            for each in found.values()
            for holder in each.holders
            if holder.kind != "CB"
        }
        return {place for place in places if not place.endswith((NO_NAME, BINARIES))}

    old_names, new_names = names(old), names(new)
    if old_names and new_names and old_names.isdisjoint(new_names):
        raise BadInput(
            f"{before.info.name} and {after.info.name} have nothing in common: no {_WHAT[by]} holds memory at a"
            f" peak of both. Compare two runs of the same program{_RENAMED * (by == 'site')}"
        )


def _memory(name: str, old: Composition | None, new: Composition | None) -> MemoryDiff:
    held = [composition.holders if composition else () for composition in (old, new)]
    bytes_ = [composition.bytes if composition else 0 for composition in (old, new)]
    return MemoryDiff(
        name,
        Change(name, *bytes_),
        (old.capacity if old else None, new.capacity if new else None),
        {by: _changes(*(_sums(holders, _KEYS[by]) for holders in held)) for by in BY},
    )


def _place(holder: Holder) -> str:
    """'L1  ttnn.matmul  model.py:42 forward': without directories, which differ between machines."""
    if holder.kind == "CB":
        return "CB  circular buffers of cached programs"
    site = (holder.site or NO_NAME).split("\n", 1)[0]
    return "  ".join([holder.kind, *([holder.op] if holder.op else []), re.sub(r"^\S*/", "", site)])


def _size_class(holder: Holder) -> str:
    """The power of two that one buffer fits into."""
    each = max(1, holder.bytes // max(1, holder.number))
    return f"{holder.kind}  up to {human(1 << (each - 1).bit_length())} each"


_KEYS: dict[str, Callable[[Holder], str]] = {
    "site": _place,
    "op": lambda holder: f"{holder.kind}  {holder.op or NO_NAME}",
    "phase": lambda holder: f"{holder.kind}  {holder.phase or '(outside any phase)'}",
    "size": _size_class,
}


def _sums(holders: tuple[Holder, ...], key: Callable[[Holder], str]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for holder in holders:
        sums[key(holder)] += holder.bytes
    return sums


def _changes(old: Mapping[str, int], new: Mapping[str, int]) -> tuple[Change, ...]:
    found = [Change(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new}]
    return tuple(sorted(found, key=lambda change: (-abs(change.by), -change.after, change.name)))


def _programs(found: Mapping[str, Composition]) -> dict[str, int]:
    """The largest of the programs with the same name."""
    sums: dict[str, int] = {}
    for program in found[L1_USED].programs if L1_USED in found else ():
        site = re.sub(r"^\S*/", "", (program.site or "").split("\n", 1)[0])
        name = "  ".join(part for part in (program.name, site) if part) or NO_NAME
        sums[name] = max(sums.get(name, 0), program.bytes)
    return sums


def _counts(history: History) -> dict[str, int]:
    kinds: Counter[str] = Counter(marker.kind for marker in history.markers)
    kernels = [device.kernels for device in history.end.devices]
    return {
        "allocations": sum(change.begins for change in history.buffers()),
        FAILED: kinds["failure"],
        "kernel loads": sum(counts.loads or 0 for counts in kernels),
        "dispatches": sum(counts.dispatches or 0 for counts in kernels),
    }


def _boards(history: History) -> str:
    found = {device.board or device.arch or "unknown board" for device in history.end.devices}
    return ", ".join(sorted(found)) or "no device"


# -- limits ----------------------------------------------------------------------------------------------------

_LIMIT = re.compile(
    r"\s*([a-z0-9_. ]+?)\s*(>=|>)\s*(\+?)\s*([0-9.]+\s*(?:%|[KMGT]?i?B?))\s*", re.IGNORECASE
)
LIMIT_HELP = "write it like 'l1_used.peak > +2%', 'dram.peak > +64 MiB', 'dram.peak > 8 GiB' or 'allocations > +5%'"


@dataclass(frozen=True, slots=True)
class Limit:
    """What must not be exceeded."""

    text: str
    name: str
    inclusive: bool
    relative: bool  # relative to the first run
    percent: float | None
    amount: int | None

    def broken_by(self, diff: Diff) -> bool:
        """BadInput if there is no such figure."""
        found = diff.figure(self.name)
        if found is None:
            known = [
                *(f"{memory}.peak" for memory in MEMORIES),
                *(change.name for change in diff.counts),
            ]
            raise BadInput(
                f"--fail-if {self.text!r}: there is no {self.name!r} here; known are {', '.join(known)}"
            )
        value = found.by if self.relative else found.after
        limit = found.before * self.percent / 100 if self.percent is not None else self.amount or 0
        return value >= limit if self.inclusive else value > limit


def parse_limit(text: str) -> Limit:
    """BadInput shows the syntax."""
    match = _LIMIT.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r:.60} is not a limit; {LIMIT_HELP}")
    name, operator, plus, number = match.groups()
    percent = number.rstrip("% ") if number.endswith("%") else None
    if percent is not None and not plus:
        raise BadInput(f"{text!r:.60}: a percentage is relative to the first run; {LIMIT_HELP}")
    try:
        value = None if percent is None else float(percent)
        amount = parse_size(number) if percent is None else None
    except ValueError:
        raise BadInput(f"{text!r:.60} is not a limit; {LIMIT_HELP}") from None
    return Limit(text, name.lower(), operator == ">=", bool(plus), value, amount)
