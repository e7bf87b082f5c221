"""Two runs side by side: peaks, what made them up, programs and counts, matched by name and not by address."""

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


class Change(NamedTuple):
    """One name in both runs. Bytes, or a number of things."""

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
    """The peak of one memory, on the device where it was highest, and what made it up."""

    memory: str
    peak: Change
    capacity: tuple[int | None, int | None]
    holders: Mapping[
        str, tuple[Change, ...]
    ]  # by site, op, phase and size; the largest change first

    @property
    def explained(self) -> float | None:
        """The part of the change that lines of code with a name account for; None if nothing changed."""
        if not self.peak.by:
            return None
        named = sum(one.by for one in self.holders["site"] if not one.name.endswith(NO_NAME))
        return named / self.peak.by


@dataclass(frozen=True, slots=True)
class Diff:
    names: tuple[str, str]
    boards: tuple[str, str]
    memories: tuple[MemoryDiff, ...]
    programs: tuple[Change, ...]  # circular buffers of each, on all its cores
    counts: tuple[Change, ...]

    def figure(self, name: str) -> Change | None:
        """'l1.peak', 'dram.peak', 'allocations', ..."""
        for one in self.memories:
            if name == f"{one.memory}.peak":
                return one.peak
        return next((one for one in self.counts if one.name == name), None)


def compare(before: History, after: History) -> Diff:
    """Loss if one of them is not complete; BadInput if they have nothing in common."""
    for history in (before, after):
        history.need_everything("comparison")
    old, new = _highest(before), _highest(after)
    _check_common(before, after, old, new)
    memories = [
        _memory(name, old.get(name), new.get(name))
        for name in MEMORIES
        if name in old or name in new
    ]
    return Diff(
        (before.info.name, after.info.name),
        (_boards(before), _boards(after)),
        tuple(memories),
        _changes(_programs(old), _programs(new)),
        tuple(
            Change(name, _counts(before)[name], number) for name, number in _counts(after).items()
        ),
    )


def _highest(history: History) -> dict[str, Composition]:
    """Of each memory, on the device that held most of it."""
    found: dict[str, Composition] = {}
    for one in compositions(history):
        if one.memory not in found or one.bytes > found[one.memory].bytes:
            found[one.memory] = one
    return found


def _check_common(
    before: History, after: History, old: Mapping[str, Composition], new: Mapping[str, Composition]
) -> None:
    def names(found: Mapping[str, Composition]) -> set[str]:
        places = {
            _place(one) for each in found.values() for one in each.holders if one.kind != "CB"
        }
        return {one for one in places if not one.endswith((NO_NAME, BINARIES))}

    old_names, new_names = names(old), names(new)
    if old_names and new_names and old_names.isdisjoint(new_names):
        raise BadInput(
            f"{before.info.name} and {after.info.name} have nothing in common: no line of code holds memory at a"
            " peak of both. Compare two runs of the same program"
        )


def _memory(name: str, old: Composition | None, new: Composition | None) -> MemoryDiff:
    held = [one.holders if one else () for one in (old, new)]
    bytes_ = [one.bytes if one else 0 for one in (old, new)]
    return MemoryDiff(
        name,
        Change(name, *bytes_),
        (old.capacity if old else None, new.capacity if new else None),
        {by: _changes(*(_sums(one, _KEYS[by]) for one in held)) for by in BY},
    )


def _place(one: Holder) -> str:
    """'L1  ttnn.matmul  model.py:42 forward': without folders, which differ between machines."""
    if one.kind == "CB":
        return "CB  circular buffers of cached programs"
    site = (one.site or NO_NAME).split("\n", 1)[0]
    return "  ".join([one.kind, *([one.op] if one.op else []), re.sub(r"^\S*/", "", site)])


def _size_class(one: Holder) -> str:
    """Of one buffer: the power of two that it fits into."""
    each = max(1, one.bytes // max(1, one.number))
    return f"{one.kind}  up to {human(1 << (each - 1).bit_length())} each"


_KEYS: dict[str, Callable[[Holder], str]] = {
    "site": _place,
    "op": lambda one: f"{one.kind}  {one.op or NO_NAME}",
    "phase": lambda one: f"{one.kind}  {one.phase or '(outside any phase)'}",
    "size": _size_class,
}


def _sums(holders: tuple[Holder, ...], key: Callable[[Holder], str]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for one in holders:
        sums[key(one)] += one.bytes
    return sums


def _changes(old: Mapping[str, int], new: Mapping[str, int]) -> tuple[Change, ...]:
    found = [Change(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new}]
    return tuple(sorted(found, key=lambda one: (-abs(one.by), -one.after, one.name)))


def _programs(found: Mapping[str, Composition]) -> dict[str, int]:
    """Of programs with the same name, the largest."""
    sums: dict[str, int] = {}
    for one in found[L1_USED].programs if L1_USED in found else ():
        site = re.sub(r"^\S*/", "", (one.site or "").split("\n", 1)[0])
        name = "  ".join(part for part in (one.name, site) if part) or NO_NAME
        sums[name] = max(sums.get(name, 0), one.bytes)
    return sums


def _counts(history: History) -> dict[str, int]:
    kinds: Counter[str] = Counter(one.kind for one in history.markers)
    kernels = [device.kernels for device in history.end.devices]
    return {
        "allocations": sum(one.begins for one in history.buffers()),
        "failed": kinds["failure"],
        "kernel loads": sum(one.loads or 0 for one in kernels),
        "dispatches": sum(one.dispatches or 0 for one in kernels),
    }


def _boards(history: History) -> str:
    found = {device.board or device.arch or "unknown board" for device in history.end.devices}
    return ", ".join(sorted(found)) or "no device"


# -- limits ----------------------------------------------------------------------------------------------------

_LIMIT = re.compile(
    r"\s*([a-z0-9_. ]+?)\s*(>=|>)\s*(\+?)\s*([0-9.]+\s*(?:%|[KMGT]?i?B?))\s*", re.IGNORECASE
)
LIMIT_HELP = "write such as 'l1_used.peak > +2%', 'dram.peak > +64 MiB', 'dram.peak > 8 GiB' or 'allocations > +5%'"


@dataclass(frozen=True, slots=True)
class Limit:
    """What must not be exceeded."""

    text: str
    name: str
    inclusive: bool
    relative: bool  # to the first run
    percent: float | None
    amount: int | None

    def broken_by(self, diff: Diff) -> bool:
        """BadInput if there is no such figure."""
        found = diff.figure(self.name)
        if found is None:
            known = [
                *(f"{one.memory}.peak" for one in diff.memories),
                *(one.name for one in diff.counts),
            ]
            raise BadInput(
                f"--fail-if {self.text!r}: there is no {self.name!r} here; known are {', '.join(known)}"
            )
        value = found.by if self.relative else found.after
        limit = found.before * self.percent / 100 if self.percent is not None else self.amount or 0
        return value >= limit if self.inclusive else value > limit


def parse_limit(text: str) -> Limit:
    """BadInput shows how it is written."""
    match = _LIMIT.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r:.60} is no limit; {LIMIT_HELP}")
    name, operator, plus, number = match.groups()
    percent = number.rstrip("% ") if number.endswith("%") else None
    if percent is not None and not plus:
        raise BadInput(f"{text!r:.60}: a percentage is relative to the first run; {LIMIT_HELP}")
    try:
        value = None if percent is None else float(percent)
        amount = parse_size(number) if percent is None else None
    except ValueError:
        raise BadInput(f"{text!r:.60} is no limit; {LIMIT_HELP}") from None
    key = re.sub(r"^l1\.peak$", "l1_used.peak", name.lower())
    return Limit(text, key, operator == ">=", bool(plus), value, amount)
