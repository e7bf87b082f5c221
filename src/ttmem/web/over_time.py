"""Bytes held by each device over a whole recording, in parts of equal time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ttmem.recording import Recording
from ttmem.recording.recording import SAMPLED

MOST_RECORDS = 1_000_000  # a longer journal takes seconds: then only samples are used
L1_USED = SAMPLED.index("l1_used")
Sample = tuple[int, tuple[int, ...]]  # a time, and bytes as in SAMPLED


class _Thinned:
    """The highest and the last states of each part: all of them existed, and no maximum is lost."""

    def __init__(self, start: int, length: int, parts: int) -> None:
        self._start, self._length, self._parts = start, max(1, length), parts
        self._kept: dict[int, list[Sample]] = {}  # by part: most DRAM, most L1, the last

    def add(self, sample: Sample) -> None:
        at = min(self._parts - 1, max(0, (sample[0] - self._start) * self._parts // self._length))
        kept = self._kept.get(at)
        if kept is None:
            self._kept[at] = [sample] * 3
            return
        for number, column in enumerate((0, L1_USED)):
            if sample[1][column] > kept[number][1][column]:
                kept[number] = sample
        kept[2] = sample

    def columns(self) -> dict[str, list[int]]:
        samples = sorted({*chain.from_iterable(self._kept.values())})
        found = {"time_ns": [time for time, _ in samples]}
        for number, name in enumerate(SAMPLED):
            found[name] = [amounts[number] for _, amounts in samples]
        return found


def over_time(recording: Recording, parts: int) -> dict[str, Any]:
    """Columns by device, exact from events; `sampled` names devices with one sample per second instead.

    Those are devices known only from counters, and all devices of a very long recording.
    """
    info = recording.info()
    length = info.ended_ns - info.started_ns
    found: dict[str, _Thinned] = {}

    def add(device: str, time: int, amounts: tuple[int, ...]) -> None:
        if device not in found:
            found[device] = _Thinned(info.started_ns, length, parts)
        found[device].add((time, amounts))

    if info.end - info.first <= MOST_RECORDS:
        for change in _changes(recording):
            add(*change)
    exact = set(found)
    for device, time, amounts in recording.samples():
        if device not in exact:
            add(device, time, amounts)
    return {
        "started_ns": info.started_ns,
        "ended_ns": info.ended_ns,
        "sampled": sorted(set(found) - exact),
        "devices": {device: thinned.columns() for device, thinned in sorted(found.items())},
    }


def _changes(recording: Recording) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Skips devices on which no event allocates: samples may have processes known only from counters."""
    first: dict[str, tuple[str, int, tuple[int, ...]]] = {}
    used: set[str] = set()
    for total in recording.totals(0, recording.info().end):
        held = total.amounts
        row = total.device, total.time_ns, (*held, held.l1_used)
        if total.device not in used:
            if not any(held):
                first.setdefault(total.device, row)
                continue
            used.add(total.device)
            if total.device in first:
                yield first[total.device]
        yield row
