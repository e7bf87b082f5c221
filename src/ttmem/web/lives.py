"""The tables of a report: totals and buffers of a whole run, thinned out until they fit into a page.

A run of a million events does not fit into a page of three megabytes. So the page has every event around *key instants*
(peaks, failures, markers), and everywhere else the highest and lowest totals of each part of the run, the buffers that
take the most (bytes x time), and at *samples* (the highest totals of each part) the sums of all others by origin.
Whatever it shows is exact for an instant that existed, and no maximum is lost.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import NamedTuple

from ttmem.analysis.history import History
from ttmem.recording import AllocatedBy, BufferChange
from ttmem.sizes import several
from ttmem.web.payload import UNKNOWN, Table, table


class PageLimits(NamedTuple):
    """How much of a run fits into a page."""

    buffers: int = 80_000
    steps: int = 120_000
    samples: int = 4_000  # of all devices together

    def half(self) -> PageLimits:
        return PageLimits(*(-(-number // 2) for number in self))


PAGE_LIMITS = PageLimits()
LARGEST = (1 << 53) - 1  # that a browser holds exactly
KINDS = ("DRAM", "L1", "L1_SMALL", "TRACE")  # numbers in the column `kind`
Progress = Callable[[int], None]  # the position reached
_NUMBER = {name: number for number, name in enumerate(KINDS)}
AMOUNTS = ("dram", "l1", "l1_small", "trace", "cb")
SUMS = ("device", "time", "kind", "origin", "bytes", "count")  # of buffers that are left out


class Interval(NamedTuple):
    """Times of the page, both ends included."""

    start: int
    end: int


@dataclass
class Origins:
    """The code that allocated buffers: each combination of process, op, site and phase has a number."""

    strings: dict[str, int] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)  # by serial number
    numbers: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    _known: dict[tuple[int, str | None, str | None, str | None], int] = field(default_factory=dict)

    def number(self, origin: AllocatedBy) -> int:
        serial = origin.process.serial
        known = self._known.get((serial, *origin[1:]))
        if known is None:
            process = self.processes.setdefault(serial, len(self.processes))
            op, site, phase = (self.string(text) for text in origin[1:])
            key = (op, site, phase, process)
            known = self.numbers.setdefault(key, len(self.numbers))
            self._known[(serial, *origin[1:])] = known
        return known

    def string(self, text: str | None) -> int:
        return UNKNOWN if text is None else self.strings.setdefault(text, len(self.strings))

    def table(self) -> Table:
        return table(("op", "site", "phase", "process"), self.numbers)


class BufferLives:
    """Every buffer of a run, as columns."""

    def __init__(self) -> None:
        self.device, self.kind, self.origin = array("i"), array("b"), array("i")
        self.start, self.end, self.address = array("q"), array("q"), array("q")
        self.held, self.requested = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.start)

    def table(self, rows: Iterable[int]) -> Table:
        ordered = sorted(rows, key=lambda row: (self.device[row], self.start[row]))
        return {name: [column[row] for row in ordered] for name, column in vars(self).items()}

    def changes(self, rows: Iterable[int]) -> list[tuple[int, int, int]]:
        """(time, sign, row) of beginnings and ends, in order."""
        return sorted(
            (time, sign, row)
            for row in rows
            for time, sign in ((self.start[row], 1), (self.end[row], -1))
            if time >= 0
        )


class Steps:
    """The totals of each device after every change, as columns."""

    def __init__(self) -> None:
        self.device, self.position, self.time = array("i"), array("q"), array("q")
        self.amounts = [array("q") for _ in AMOUNTS]

    def __len__(self) -> int:
        return len(self.time)

    def add(self, device: int, position: int, time: int, amounts: Iterable[int]) -> None:
        self.device.append(device)
        self.position.append(position)
        self.time.append(time)
        for column, value in zip(self.amounts, amounts, strict=True):
            column.append(value)

    def table(self, rows: Iterable[int]) -> Table:
        ordered = sorted(rows, key=lambda row: (self.device[row], self.time[row]))
        columns = {"device": self.device, "position": self.position, "time": self.time}
        columns |= dict(zip(AMOUNTS, self.amounts, strict=True))
        return {name: [column[row] for row in ordered] for name, column in columns.items()}


class Lives:
    """A run in page time: nanoseconds since its start, with no two changes at the same time.

    Events that arrived together may have one time; each then gets its own nanosecond, so that the state after any of
    them can be shown. Positions do not change.
    """

    def __init__(self, history: History, devices: Sequence[str], progress: Progress) -> None:
        self.origins, self.buffers, self.steps = Origins(), BufferLives(), Steps()
        self._start = history.info.started_ns
        self._positions, self._times = array("q"), array("q")
        numbers = {unique_id: number for number, unique_id in enumerate(devices)}
        live: dict[tuple[int, int, int, int], int] = {}
        self.never_freed: set[int] = (
            set()
        )  # rows of buffers that ended with their device or process
        self._impossible = 0  # buffers whose address no memory has
        self._unfreed = {_ended(change) for change in history.recording.never_freed()}
        for stretch in history.recording.stretches():
            progress(stretch.first)
            totals, changes = list(stretch.totals()), list(stretch.buffers())
            moments = [(total.position, total.time_ns) for total in totals]
            moments += [(change.position, change.time_ns) for change in changes]
            for position, time_ns in sorted(moments):
                self._reach(position, time_ns)
            for total in totals:
                if total.device in numbers:
                    time = self.at(total.position)
                    self.steps.add(numbers[total.device], total.position, time, total.amounts)
            self._follow(changes, numbers, live)
        self.length = max(
            history.info.ended_ns - self._start, self._times[-1] if self._times else 0, 1
        )

    def _reach(self, position: int, time_ns: int) -> None:
        if not self._times:
            first = max(0, time_ns - self._start)
        elif position == self._positions[-1]:
            return
        else:
            first = max(time_ns - self._start, self._times[-1] + 1)
        self._positions.append(position)
        self._times.append(first)

    def _follow(
        self,
        changes: Iterable[BufferChange],
        numbers: Mapping[str, int],
        live: dict[tuple[int, int, int, int], int],
    ) -> None:
        columns = self.buffers
        for change in changes:
            device, kind = numbers.get(change.device), _NUMBER[change.kind]
            if device is None:
                continue
            key = (change.origin.process.serial, device, kind, change.id)
            time = self.at(change.position)
            row = live.pop(key, None)
            if row is not None:
                columns.end[row] = time
                if _ended(change) in self._unfreed:
                    self.never_freed.add(row)
            if change.begins:
                live[key] = len(columns)
                columns.device.append(device)
                columns.kind.append(kind)
                columns.start.append(time)
                columns.end.append(UNKNOWN)
                columns.address.append(self._address(change))
                columns.held.append(change.held)
                columns.requested.append(change.requested)
                columns.origin.append(self.origins.number(change.origin))

    def _address(self, change: BufferChange) -> int:
        if change.address is None:
            return UNKNOWN
        if change.address > LARGEST:
            self._impossible += 1
            return UNKNOWN
        return change.address

    def remarks(self) -> list[str]:
        if not self._impossible:
            return []
        return [
            f"{several(self._impossible, 'allocation')} reported an address that no memory has: it is shown as unknown"
        ]

    def is_left(self, row: int) -> bool:
        """Whether it was alive when the recording ended, or never freed by its program."""
        return self.buffers.end[row] < 0 or row in self.never_freed

    def at(self, position: int) -> int:
        """The page time at which a record has taken effect."""
        number = bisect_right(self._positions, position)
        return self._times[number - 1] if number else 0

    def position(self, time: int) -> int:
        """The position of the last change up to a page time."""
        number = bisect_right(self._times, time)
        return self._positions[number - 1] if number else UNKNOWN

    def marked(self, position: int, time_ns: int) -> int:
        """The time of something that changed nothing: between the changes before and after it."""
        number = bisect_right(self._positions, position)
        before = self._times[number - 1] if number else 0
        after = self._times[number] - 1 if number < len(self._times) else self.length
        return max(before, min(after, time_ns - self._start))

    def around(self, times: Iterable[int], events: int) -> list[Interval]:
        """Intervals with that many changes before and after each time, joined where they meet."""
        found: list[Interval] = []
        for time in sorted(times):
            number = bisect_right(self._times, time) - 1
            first, last = max(0, number - events), min(len(self._times) - 1, number + events)
            start = self._times[first] if first else 0
            end = self._times[last] if last + 1 < len(self._times) else self.length
            interval = Interval(min(start, time), max(end, time))
            if found and interval.start <= found[-1].end + 1:
                found[-1] = Interval(found[-1].start, max(found[-1].end, interval.end))
            else:
                found.append(interval)
        return found


def _ended(change: BufferChange) -> tuple[int, str, str, int]:
    return change.position, change.device, change.kind, change.id


@dataclass(frozen=True)
class Thinned:
    """The part of a run that is in the page."""

    complete: list[Interval]  # intervals in which every event is included
    steps: list[int]  # rows
    buffers: list[int]  # rows
    omitted: Table  # at samples: sums of the other buffers, by kind and origin


def thinned(lives: Lives, keys: Sequence[int], limits: PageLimits) -> Thinned:
    """`keys`: page times around which nothing is left out."""
    steps, buffers = lives.steps, lives.buffers
    if len(steps) <= limits.steps and len(buffers) <= limits.buffers:
        everything = [Interval(0, lives.length)]
        return Thinned(everything, [*range(len(steps))], [*range(len(buffers))], table(SUMS, ()))
    complete = _complete(lives, keys, limits)
    kept = _largest(buffers, _alive_in(buffers, complete), lives.length, limits)
    of_device = _rows_by_device(steps)
    parts = limits.steps // max(1, len(of_device)) // 6
    shown = {row for row, time in enumerate(steps.time) if is_within(complete, time)}
    samples: list[int] = []
    for rows in of_device.values():
        shown |= _extremes(steps, rows, max(1, parts))
        samples += _highest(steps, rows, max(1, limits.samples // len(of_device) // 2))
    samples = [row for row in samples if not is_within(complete, steps.time[row])]
    shown.update(samples)
    return Thinned(complete, sorted(shown), sorted(kept), _sums(lives, kept, samples))


def _complete(lives: Lives, keys: Sequence[int], limits: PageLimits) -> list[Interval]:
    """As many events around each key instant as fit."""
    events = max(1, min(limits.steps, limits.buffers) // (4 * max(1, len(keys))))
    while True:
        found = lives.around(keys, events)
        if len(_alive_in(lives.buffers, found)) <= limits.buffers or events == 0:
            return found
        events //= 4


def _alive_in(buffers: BufferLives, intervals: Sequence[Interval]) -> set[int]:
    starts = [interval.start for interval in intervals]
    ends = [interval.end for interval in intervals]
    found = set()
    for row, (start, end) in enumerate(zip(buffers.start, buffers.end, strict=True)):
        number = bisect_left(ends, start)  # the first interval that is not over when it begins
        if number < len(starts) and (end < 0 or end > starts[number]):
            found.add(row)
    return found


def _largest(buffers: BufferLives, kept: set[int], length: int, limits: PageLimits) -> set[int]:
    """Adds the buffers with the largest area in a chart."""

    def area(row: int) -> int:
        end = buffers.end[row]
        return buffers.held[row] * ((length if end < 0 else end) - buffers.start[row])

    more = limits.buffers - len(kept)
    others = (row for row in range(len(buffers)) if row not in kept)
    return kept | set(nlargest(more, others, key=area)) if more > 0 else kept


def _rows_by_device(steps: Steps) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, device in enumerate(steps.device):
        found.setdefault(device, []).append(row)
    return found


def _parts(rows: Sequence[int], number: int) -> Iterator[Sequence[int]]:
    size = -(-len(rows) // number)
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _l1_used(steps: Steps, row: int) -> int:
    return steps.amounts[1][row] + steps.amounts[2][row] + steps.amounts[4][row]


def _extremes(steps: Steps, rows: Sequence[int], parts: int) -> set[int]:
    """The first and last row of each part, and those with the least and the most of each memory."""
    found: set[int] = set()
    measures: list[Callable[[int], int]] = [column.__getitem__ for column in steps.amounts]
    measures.append(lambda row: _l1_used(steps, row))
    for part in _parts(rows, parts):
        found.update((part[0], part[-1]))
        for measure in measures:
            low, high = min(part, key=measure), max(part, key=measure)
            if measure(low) != measure(high):
                found.update((low, high))
    return found


def _highest(steps: Steps, rows: Sequence[int], parts: int) -> list[int]:
    """The rows of each part with the most DRAM and the most L1 used."""
    dram = steps.amounts[0].__getitem__
    found: list[int] = []
    for part in _parts(rows, parts):
        found += {max(part, key=dram), max(part, key=lambda row: _l1_used(steps, row))}
    return found


def is_within(intervals: Sequence[Interval], time: int) -> bool:
    number = bisect_left(intervals, time, key=lambda interval: interval.end)
    return number < len(intervals) and intervals[number].start <= time


def _sums(lives: Lives, kept: set[int], samples: Sequence[int]) -> Table:
    """The sums of the buffers that are not kept, at each sample."""
    buffers, steps = lives.buffers, lives.steps
    events = buffers.changes(row for row in range(len(buffers)) if row not in kept)
    sums: dict[int, dict[tuple[int, int], list[int]]] = {}
    found = []
    at = 0
    for sample in sorted(samples, key=steps.time.__getitem__):
        now = steps.time[sample]
        while at < len(events) and events[at][0] <= now:
            _, sign, row = events[at]
            of_device = sums.setdefault(buffers.device[row], {})
            sum_ = of_device.setdefault((buffers.kind[row], buffers.origin[row]), [0, 0])
            sum_[0] += sign * buffers.held[row]
            sum_[1] += sign
            at += 1
        here = sums.get(steps.device[sample], {})
        rows = [(*key, *sum_) for key, sum_ in sorted(here.items()) if sum_[1]]
        # A sample without such sums is still a sample: nothing is missing there.
        found += [(steps.device[sample], now, *row) for row in rows or [(0, 0, 0, 0)]]
    return table(SUMS, sorted(set(found)))
