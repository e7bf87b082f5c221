"""A recording as a history: what was allocated and freed, when peaks were reached, and whether anything is missing.

`History` is the basis of all questions about a run. It reads the recording chunk by chunk, so that memory does not grow
with its length, and takes states from the recording's own snapshots.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ttmem.errors import TtmemError
from ttmem.events import KINDS, Amounts
from ttmem.recording import (
    BufferChange,
    Info,
    Instant,
    Marker,
    RecordedProcess,
    Recording,
)
from ttmem.recording.context import Lost
from ttmem.recording.recording import NO_SERIAL
from ttmem.sizes import several
from ttmem.snapshots import Device, Question, Snapshot

L1_USED = "l1_used"
MEMORIES = (*KINDS, L1_USED)  # everything that has a peak, by its key in JSON


class Loss(TtmemError):
    """Something is missing, so there is no verdict."""


def held(amounts: Amounts, memory: str) -> int:
    """`memory`: one of MEMORIES."""
    found: int = getattr(amounts, memory)
    return found


class PeakInstant(NamedTuple):
    """The first instant of the peak of one memory of one device."""

    device: str  # unique id
    memory: str  # one of MEMORIES
    bytes: int
    instant: Instant  # `Recording.snapshot(instant)` is the state at the peak
    counted: bool = False  # a reading of counters reached it, not an event

    @property
    def position(self) -> int:
        return self.instant.position

    @property
    def time_ns(self) -> int:
        return self.instant.time_ns


class Window(NamedTuple):
    """An iteration: the records from the first position up to the last."""

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
    anomalies: Counter[tuple[int, str]]  # by serial number of the process, and name
    reached: int  # there is no gap up to this position


class History:
    """One run, from a recording that stays open as long as this is used."""

    def __init__(
        self,
        recording: Recording,
        *,
        pid: int | None = None,
        without: frozenset[int] = frozenset(),
    ) -> None:
        """`pid`: buffers, marks and iterations are those of this process. `without`: see `complete_part`."""
        self.recording = recording
        self._pid = pid
        self._without = without

    @property
    def name(self) -> str:
        """What a sentence about this history is about."""
        return self.info.name if self._pid is None else f"pid {self._pid}"

    @cached_property
    def info(self) -> Info:
        return self.recording.info()

    @cached_property
    def markers(self) -> list[Marker]:
        markers = self.recording.markers
        if self._pid is None:
            return markers
        return [marker for marker in markers if marker.pid in (None, self._pid)]

    @cached_property
    def end(self) -> Snapshot:
        """The last state; it has every device."""
        return self.recording.at("end")

    @property
    def devices(self) -> Mapping[str, Device]:
        return {device.unique_id: device for device in self.end.devices}

    def buffers(self) -> Iterator[BufferChange]:
        """Every buffer that was allocated or freed; those that existed at the start come first."""
        for stretch in self.recording.stretches():
            for change in stretch.buffers():
                process = change.origin.process
                if self._pid in (None, process.pid) and process.serial not in self._without:
                    yield change

    def at(self, position: int, *detail: str) -> Snapshot:
        """The state before the record at a position: `peak.position`, or `change.position + 1` for the one after it."""
        return self.recording.snapshot(self.recording.after(position), Question(detail))

    # -- totals --------------------------------------------------------------------------------------------------

    @cached_property
    def _swept(self) -> _Swept:
        """Everything that takes a whole pass."""
        best: dict[tuple[str, str], tuple[int, int, int]] = {}
        found: Counter[tuple[int, str]] = Counter()
        end = self.info.first
        gap: int | None = None
        for stretch in self.recording.stretches():
            if stretch.first > end and gap is None:
                gap = end
            end = stretch.end
            found.update(stretch.findings())
            for position, time, device, amounts in stretch.totals():
                for memory, bytes_ in zip(MEMORIES, (*amounts, amounts.l1_used), strict=True):
                    known = best.get((device, memory))
                    if known is None or bytes_ > known[0]:
                        best[device, memory] = bytes_, position + 1, time
        ends = self._mesh_ends(position for bytes_, position, _ in best.values() if bytes_)
        peaks = tuple(
            PeakInstant(device, memory, bytes_, Instant(ends[position], time))
            for (device, memory), (bytes_, position, time) in best.items()
            if bytes_
        )
        return _Swept(peaks, found, end if gap is None else gap)

    def _mesh_ends(self, positions: Iterable[int]) -> dict[int, int]:
        """The same positions, after the whole event of a mesh: its devices reach their peaks together."""
        ends: dict[int, int] = {}
        end = self.info.first
        for position in sorted(positions):
            end = ends[position] = end if position <= end else self.recording.mesh_end(position)
        return ends

    @property
    def peaks(self) -> tuple[PeakInstant, ...]:
        """For every device and memory that held anything. What only counters report is not included."""
        return self._swept.peaks

    @cached_property
    def device_peaks(self) -> tuple[PeakInstant, ...]:
        """The same with what processes held of which only counters are known, as far as those were read."""
        if not self.recording.counted:
            return self.peaks
        best: dict[tuple[str, str], PeakInstant] = {}
        for instant, device, amounts, counted in self.recording.held():
            for memory in MEMORIES:
                bytes_ = held(amounts, memory)
                known = best.get((device, memory))
                if bytes_ > (known.bytes if known else 0):
                    best[device, memory] = PeakInstant(device, memory, bytes_, instant, counted)
        return tuple(best.values())

    def peaks_of(self, pid: int) -> list[PeakInstant]:
        """The peaks of one process, by kind. Circular buffers have no peak of their own here."""
        level: dict[tuple[str, str], int] = {}
        best: dict[tuple[str, str], PeakInstant] = {}
        for change in self.buffers():
            if change.origin.process.pid == pid:
                key = (change.device, change.kind.lower())
                now = level.get(key, 0) + (change.held if change.begins else -change.held)
                level[key] = now
                if now > (best[key].bytes if key in best else 0):
                    best[key] = PeakInstant(*key, now, Instant(change.position + 1, change.time_ns))
        ends = self._mesh_ends(peak.position for peak in best.values())
        return [
            peak._replace(instant=peak.instant._replace(position=ends[peak.position]))
            for peak in best.values()
        ]

    # -- what is missing -----------------------------------------------------------------------------------------

    @cached_property
    def losses(self) -> tuple[str, ...]:
        """What is missing in this recording, as clauses; empty: it has every allocation and free."""
        end, processes = self.end, self.recording.processes
        anomalies, reached = self._swept.anomalies, self._swept.reached
        info = (
            self.recording.info()
        )  # damage is found where something is read: names, records and states
        found = []
        if info.lost:
            found.append(f"{several(info.lost, 'record')} could not be written")
        if info.damages:
            found.append(f"{several(len(info.damages), 'part')} of the file cannot be read")
        elif reached < info.end and not info.lost:
            found.append(f"records are missing after position {reached:,}")
        lost = self._lost if self._without else {}
        aside = sum(one.events for serial, one in lost.items() if serial in self._without)
        if (dropped := self.recording.dropped_events() - aside) > 0:
            found.append(f"{several(dropped, 'event')} were lost by their program or reader")
        pids = {one.pid for one in processes if one.serial in self._without}
        if overflow := sum(one.overflow for one in end.processes if one.pid not in pids):
            found.append(f"{several(overflow, 'live buffer')} could not be reported again")
        by_name: Counter[str] = Counter()
        for (serial, name), times in anomalies.items():
            if name not in _INNOCENT and serial not in self._without:
                by_name[name] += times
        for name, times in sorted(by_name.items()):
            found.append(f"{name.replace('_', ' ')} ({several(times, 'time')})")
        return tuple(found)

    @cached_property
    def _lost(self) -> dict[int, Lost]:
        return self.recording.lost_by_process()

    @cached_property
    def incomplete(self) -> tuple[RecordedProcess, ...]:
        """Processes that lost something, or reported what cannot be."""
        serials = {serial for serial, name in self._swept.anomalies if name not in _INNOCENT}
        serials |= self._lost.keys()
        return tuple(one for one in self.recording.processes if one.serial in serials)

    def complete_part(self, answer: str) -> History:
        """This history without the processes in `incomplete`: nobody's loss is held against others.

        Raises Loss, as `need_everything`, if that is not enough, or nothing is left.
        """
        if self.losses and self._pid not in {process.pid for process in self.incomplete}:
            serials = frozenset((NO_SERIAL, *(process.serial for process in self.incomplete)))
            part = History(self.recording, pid=self._pid, without=serials)
            if not part.losses and next(part.buffers(), None) is not None:
                return part
        self.need_everything(answer)
        return self

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Sentences about the processes that `complete_part` has left out, of those that this history is about."""
        return tuple(
            f"pid {one.pid} (user {one.user or 'unknown'}) is left out: its events are not complete"
            for one in self.left_out
            if self._pid in (None, one.pid)
        )

    @property
    def left_out(self) -> tuple[RecordedProcess, ...]:
        """The processes that `complete_part` has left out."""
        if not self._without:
            return ()
        return tuple(one for one in self.incomplete if one.serial in self._without)

    @cached_property
    def sums_only(self) -> tuple[int, ...]:
        """Processes that were known only from counters, by pid: none of their buffers is in this history."""
        return tuple(sorted({pid for one in self.recording.counted for pid, _ in one.held}))

    def is_lower_bound(self, device: str) -> bool:
        """Whether more may have been held there than is known, between two readings or in lost events."""
        return bool(self.losses) or any(
            device == at for one in self.recording.counted for _, at in one.held
        )

    def need_everything(self, answer: str) -> None:
        """Raises Loss, which says what is missing, unless this recording is complete."""
        if self.losses:
            raise Loss(
                f"{self.name} is not complete, so ttmem gives no {answer}: {'; '.join(self.losses)}."
                " Record again; docs/recording.md says how losses are avoided"
            )
        self.need_allocations(answer)

    def need_allocations(self, answer: str) -> None:
        """Raises Loss unless something was allocated."""
        if not self.peaks:
            raise Loss(
                f"{self.name} has no allocations, so ttmem gives no {answer};"
                " `ttmem run -o FILE -- COMMAND` records those of a program"
            )

    # -- iterations ----------------------------------------------------------------------------------------------

    def windows(self, by: str | None = None) -> Windows:
        """The iterations of the run.

        `by`: "mark", "phase" or "window"; None: marks if there are enough, else the most frequent phase, else equal
        parts of the run.
        """
        marks = [marker for marker in self.markers if marker.kind == "mark"]
        if by == "mark" or (by is None and len(marks) > LEAST_WINDOWS):
            return Windows("mark", self._between(marks), "the marks")
        names = Counter(
            marker.text for marker in self.markers if marker.kind == "phase" and marker.text
        )
        name, times = max(names.items(), key=lambda item: item[1], default=("", 0))
        if by == "phase" or (by is None and times > LEAST_WINDOWS):
            again = [
                marker for marker in self.markers if marker.kind == "phase" and marker.text == name
            ]
            return Windows("phase", self._between(again), f"phase {name}")
        return Windows("window", self._equal(), "equal parts of the run")

    def _between(self, marks: list[Marker]) -> tuple[Window, ...]:
        """From each mark to the next. What precedes the first and follows the last is not an iteration."""
        return tuple(
            Window(mark.position, after.position, mark.text, mark.time_ns)
            for mark, after in pairwise(marks)
            if after.position > mark.position
        )

    def _equal(self) -> tuple[Window, ...]:
        """Equal numbers of allocations and frees, up to the last allocation: what follows is the end of the program.

        Not equal times: the first iterations compile their programs, and take much longer than the others. Nor equal
        numbers of records: some say how the recorder read, so that two recordings of a run differ in them.
        """
        changes, last = array("q"), 0
        for change in self.buffers():
            changes.append(change.position)
            last = len(changes) if change.begins else last
        at = [changes[last * number // EQUAL_WINDOWS] for number in range(EQUAL_WINDOWS) if last]
        at += [changes[last - 1] + 1] if last else []
        return tuple(
            Window(start, end, f"{number} of {EQUAL_WINDOWS}", self.recording.time_at(start + 1))
            for number, (start, end) in enumerate(pairwise(at), 1)
            if end > start
        )
