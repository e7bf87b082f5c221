"""Low-water marks: the least that each line of code held on each device during each iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ttmem.analysis.history import History, Window

T = TypeVar("T")
LEAST_STEPS = 4  # from one window to the next; with fewer there is no verdict
LEAST_WINDOWS = LEAST_STEPS + 2  # the first one is not judged


class ProcessLine(NamedTuple):
    """A line of code in one process. None: unknown, or none."""

    serial: int  # serial number of the process in this recording; pids are reused
    pid: int | None
    kind: str  # DRAM, L1, L1_SMALL, TRACE; PROGRAMS for a program cache
    op: str | None
    site: str | None


class LowWater(NamedTuple):
    """What one line of code held on devices that did the same."""

    line: ProcessLine
    devices: tuple[str, ...]
    marks: tuple[int, ...]  # low-water marks of the windows in which its process was at work
    end: int  # held in the end: what went with its device or process was never freed


class LowWaterMarks:
    """The low-water mark of every line of code on every device in every window.

    `idle`: parts of the run, by number, in which no program was dispatched. If a process frees nothing in one either,
    it repeats nothing there: it loads weights.
    """

    def __init__(
        self,
        history: History,
        windows: Sequence[Window],
        ignored: frozenset[str],
        idle: frozenset[int],
    ) -> None:
        self._windows, self._idle = windows, idle
        self._marks: dict[tuple[ProcessLine, str], list[int]] = {}
        self._last: dict[int, int] = {}  # the last allocation of each process
        self._first: dict[int, int] = {}
        self._freeing: set[tuple[int, int]] = set()  # process and number of a window
        self._left: dict[tuple[ProcessLine, str], int] = defaultdict(int)
        self._end: dict[tuple[ProcessLine, str], int] = defaultdict(int)
        self._sweep(history, ignored)

    def _sweep(self, history: History, ignored: frozenset[str]) -> None:
        level: dict[tuple[ProcessLine, str], int] = defaultdict(int)
        lowest: dict[tuple[ProcessLine, str], int] = {}
        ends = {(marker.pid, marker.position) for marker in history.markers if marker.kind == "end"}
        with_device = {at for _, at in history.recording.freed_with_device(history.info.end)}
        probed = history.recording.probed()
        at = 0  # the current window
        for change in history.buffers():
            while at < len(self._windows) and change.position >= self._windows[at].end:
                self._close(at, level, lowest)
                at += 1
            origin = change.origin
            serial = origin.process.serial
            with_process = not change.begins and (origin.process.pid, change.position) in ends
            freed = not (change.begins or with_process or change.position in with_device)
            if at == len(self._windows) and origin.process.pid not in probed:
                freed = False  # only the probe tells what closing the device freed
            within = at < len(self._windows) and change.position >= self._windows[at].first
            if change.begins:
                self._last[serial] = change.position
                self._first.setdefault(serial, change.position)
            elif freed and within:
                self._freeing.add((serial, at))
            if origin.phase in ignored:
                continue
            made = (change.kind, origin.op, origin.site)
            key = (ProcessLine(serial, origin.process.pid, *made), change.device)
            before = level[key]
            if change.begins:
                level[key] = before + change.held
                self._end[key] += change.held
                if within:
                    lowest.setdefault(key, before)
                continue
            level[key] = before - change.held
            if within:
                lowest[key] = min(lowest.get(key, before), level[key])
            if freed:
                self._end[key] -= change.held
            elif with_process:
                self._left[key] += change.held
        while at < len(self._windows):
            self._close(at, level, lowest)
            at += 1

    def _close(
        self,
        at: int,
        level: Mapping[tuple[ProcessLine, str], int],
        lowest: dict[tuple[ProcessLine, str], int],
    ) -> None:
        for key, held in level.items():
            marks = self._marks.setdefault(key, [0] * at)
            marks.append(lowest.get(key, held))
        lowest.clear()

    def _at_work(self, serial: int) -> list[int]:
        """The windows in which a process was active."""
        first, last = self._first.get(serial), self._last.get(serial, -1)
        return [
            number
            for number, window in enumerate(self._windows)
            if window.end <= last + 1
            and (first is None or window.end > first)
            and (number not in self._idle or (serial, number) in self._freeing)
        ]

    def lines(self) -> Iterator[LowWater]:
        at_work = {line.serial: self._at_work(line.serial) for line, _ in self._marks}
        same = together(
            (
                (line, tuple(marks[at] for at in at_work[line.serial]), self._end[line, device]),
                device,
            )
            for (line, device), marks in self._marks.items()
        )
        for (line, marks, end), devices in same:
            yield LowWater(line, devices, marks, end)

    def left(self) -> Iterator[tuple[tuple[ProcessLine, int], tuple[str, ...]]]:
        """What processes held when they ended, by line of code, and on which devices."""
        return together(((line, held), device) for (line, device), held in self._left.items())

    def too_short(self, least: int) -> dict[int, int]:
        """Processes that hold so much in the end, with too few windows for a verdict: pids by serial number."""
        held: dict[ProcessLine, int] = defaultdict(int)
        for (line, _), end in self._end.items():
            held[line] += end
        return {
            line.serial: line.pid or 0
            for line, end in held.items()
            if end >= least and len(self._at_work(line.serial)) < LEAST_WINDOWS
        }


def together(found: Iterable[tuple[T, str]]) -> Iterator[tuple[T, tuple[str, ...]]]:
    """The devices for which the same was found."""
    same: dict[T, list[str]] = defaultdict(list)
    for what, device in found:
        same[what].append(device)
    return ((what, tuple(sorted(devices))) for what, devices in same.items())
