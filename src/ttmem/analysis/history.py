"""A recording as a history: what came and went, when the most was held, and whether anything is missing.

`History` is what all questions about a run start from. It reads the recording chunk by chunk, so that memory does not
grow with its length, and it takes states from the recording's own snapshots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ttmem.errors import TtmemError
from ttmem.events import KINDS, Amounts
from ttmem.recording import BufferChange, Info, Instant, Marker, Recording, Stretch, Totals
from ttmem.sizes import several
from ttmem.snapshots import Device, Snapshot

L1_USED = "l1_used"
MEMORIES = (*KINDS, L1_USED)  # whatever has a peak, by its key in JSON


class Loss(TtmemError):
    """Something is missing, so that no verdict can be given."""


def held(amounts: Amounts, memory: str) -> int:
    """`memory`: one of MEMORIES."""
    found: int = getattr(amounts, memory)
    return found


class PeakInstant(NamedTuple):
    """The first instant at which the most of one memory of one device was held."""

    device: str  # unique id
    memory: str  # one of MEMORIES
    bytes: int
    position: (
        int  # `Recording.snapshot(Instant(position, time_ns))` is the state in which it was held
    )
    time_ns: int

    @property
    def instant(self) -> Instant:
        return Instant(self.position, self.time_ns)


class Window(NamedTuple):
    """An iteration: the records from the first position to before the last."""

    first: int
    end: int
    name: str
    began_ns: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The iterations of a run. `by`: marks, phases or windows of equal length."""

    by: str
    windows: tuple[Window, ...]
    what: str  # 'phase decode', 'marks', 'equal parts of the run'

    @property
    def repeats(self) -> bool:
        """Whether they are iterations of the program, and not just parts of the run."""
        return self.by != "window" and len(self.windows) > 1


LEAST_WINDOWS = 4
EQUAL_WINDOWS = 12
_INNOCENT = {"status_backwards", "cb_map_full", "kernel_resized", "unknown_unload", "double_unload"}


class _Swept(NamedTuple):
    peaks: tuple[PeakInstant, ...]
    anomalies: Counter[str]
    reached: int  # the position up to which there is no gap
    began: int | None  # the position at which the first byte was held
    grown: int | None  # the position after the last allocation


class History:
    """One run, from a recording that stays open as long as this is used."""

    def __init__(self, recording: Recording, *, lost_before: int = 0) -> None:
        """`lost_before`: events that were lost before it began, which is known to begin with everything alive."""
        self.recording = recording
        self._lost_before = lost_before

    @cached_property
    def info(self) -> Info:
        return self.recording.info()

    @cached_property
    def markers(self) -> list[Marker]:
        return self.recording.markers

    @cached_property
    def end(self) -> Snapshot:
        """The last state; it names every device."""
        return self.recording.at("end")

    @property
    def devices(self) -> Mapping[str, Device]:
        return {device.unique_id: device for device in self.end.devices}

    def stretches(self) -> Iterator[Stretch]:
        return self.recording.stretches()

    def buffers(self) -> Iterator[BufferChange]:
        """Every buffer that came or went; those that were there at the start come first."""
        for stretch in self.stretches():
            yield from stretch.buffers()

    def totals(self) -> Iterator[Totals]:
        """What each device held after every change."""
        for stretch in self.stretches():
            yield from stretch.totals()

    def at(self, position: int, *detail: str) -> Snapshot:
        """The state before the record at a position: `peak.position`, or `change.position + 1` for after it."""
        return self.recording.snapshot(Instant(position, self.recording.time_at(position)), detail)

    # -- what it held --------------------------------------------------------------------------------------------

    @cached_property
    def _swept(self) -> _Swept:
        """Everything that takes a whole pass."""
        best: dict[tuple[str, str], tuple[int, int, int]] = {}
        found: Counter[str] = Counter()
        reached, began, grown = self.info.first, None, None
        before: dict[str, int] = {}
        for stretch in self.stretches():
            reached = stretch.end
            found.update(stretch.findings())
            for position, time, device, amounts in stretch.totals():
                began = position if began is None and amounts.all else began
                if amounts.all > before.get(device, 0):
                    grown = position + 1
                before[device] = amounts.all
                for memory, bytes_ in zip(MEMORIES, (*amounts, amounts.l1_used), strict=True):
                    known = best.get((device, memory))
                    if known is None or bytes_ > known[0]:
                        best[device, memory] = bytes_, position + 1, time
        start = self.info.first
        peaks = tuple(
            PeakInstant(device, memory, bytes_, max(position, start), time)
            for (device, memory), (bytes_, position, time) in best.items()
            if bytes_
        )
        return _Swept(peaks, found, reached, began, grown)

    @property
    def peaks(self) -> tuple[PeakInstant, ...]:
        """Of every device and memory that held anything. What only counters tell is not included."""
        return self._swept.peaks

    def peaks_of(self, pid: int) -> list[PeakInstant]:
        """Of what one process holds, by kind. Circular buffers have no peak of their own here."""
        level: dict[tuple[str, str], int] = {}
        best: dict[tuple[str, str], PeakInstant] = {}
        for change in self.buffers():
            if change.origin.process.pid == pid:
                key = (change.device, change.kind.lower())
                now = level.get(key, 0) + (change.held if change.begins else -change.held)
                level[key] = now
                if now > (best[key].bytes if key in best else 0):
                    best[key] = PeakInstant(*key, now, change.position + 1, change.time_ns)
        return list(best.values())

    # -- what is missing -----------------------------------------------------------------------------------------

    @cached_property
    def losses(self) -> tuple[str, ...]:
        """What is missing in this recording, a clause each; nothing: every allocation and free is in it."""
        info, end = self.info, self.end
        anomalies, reached = self._swept.anomalies, self._swept.reached
        found = []
        if info.lost:
            found.append(f"{several(info.lost, 'record')} could not be written")
        if info.damages:
            found.append(f"{several(len(info.damages), 'part')} of the file cannot be read")
        elif reached < info.end and not info.lost:
            found.append(f"records are missing after position {reached:,}")
        if dropped := end.losses.dropped_events - self._lost_before:
            found.append(f"{several(dropped, 'event')} were lost by their program or reader")
        elif end.losses.gaps:
            found.append(f"{several(end.losses.gaps, 'gap')} in what programs reported")
        if overflow := sum(process.overflow for process in end.processes):
            found.append(f"{several(overflow, 'live buffer')} could not be reported again")
        for name, times in sorted(anomalies.items()):
            if name not in _INNOCENT:
                found.append(f"{name.replace('_', ' ')} ({several(times, 'time')})")
        return tuple(found)

    @cached_property
    def sums_only(self) -> tuple[int, ...]:
        """Processes of which only counters are known, by pid: none of their buffers is in this history."""
        watched = {process.pid for process in self.recording.processes}
        return tuple(
            process.pid
            for process in self.end.processes
            if process.pid not in watched and Amounts.total(process.devices.values()).all
        )

    def need_everything(self, answer: str) -> None:
        """Raises Loss, which says what is missing, unless this recording is complete."""
        name = self.info.name
        if self.losses:
            raise Loss(
                f"{name} is not complete, so ttmem gives no {answer}: {'; '.join(self.losses)}."
                " Record again; docs/recording.md says how losses are avoided"
            )
        self.need_allocations(answer)

    def need_allocations(self, answer: str) -> None:
        """Raises Loss unless something was allocated."""
        if not self.peaks:
            raise Loss(
                f"{self.info.name} has no allocations, so ttmem gives no {answer};"
                " `ttmem run -o FILE -- COMMAND` records those of a program"
            )

    # -- iterations ----------------------------------------------------------------------------------------------

    def windows(self, by: str | None = None) -> Windows:
        """The iterations of the run.

        `by`: "mark", "phase" or "window"; None: marks if there are enough, else the phase that comes most often,
        else equal parts of the run.
        """
        marks = [one for one in self.markers if one.kind == "mark"]
        if by == "mark" or (by is None and len(marks) > LEAST_WINDOWS):
            return Windows("mark", self._between(marks), "the marks")
        names = Counter(one.text for one in self.markers if one.kind == "phase" and one.text)
        name, times = max(names.items(), key=lambda item: item[1], default=("", 0))
        if by == "phase" or (by is None and times > LEAST_WINDOWS):
            again = [one for one in self.markers if one.kind == "phase" and one.text == name]
            return Windows("phase", self._between(again), f"phase {name}")
        return Windows("window", self._equal(), "equal parts of the run")

    def _between(self, marks: list[Marker]) -> tuple[Window, ...]:
        """From each mark to the next. What comes before the first and after the last is no iteration."""
        return tuple(
            Window(one.position, after.position, one.text, one.time_ns)
            for one, after in pairwise(marks)
            if after.position > one.position
        )

    def _equal(self) -> tuple[Window, ...]:
        """Equal numbers of records, from the first allocation to the last: what follows is the end of the program.

        Not equal times: the first iterations compile their programs, and take much longer than all others.
        """
        first, last = self._swept.began or self.info.first, self._swept.grown or self.info.end
        at = [
            first + (last - first) * number // EQUAL_WINDOWS for number in range(EQUAL_WINDOWS + 1)
        ]
        return tuple(
            Window(start, end, f"{number} of {EQUAL_WINDOWS}", self.recording.time_at(start + 1))
            for number, (start, end) in enumerate(pairwise(at), 1)
            if end > start
        )
