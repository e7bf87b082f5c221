"""Programs of a run: circular buffers with addresses and cores, dispatches, and how close they came to L1 buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from typing import Any, NamedTuple

from ttmem.events import EVENT_SIZE, Event, Flag, Notice, Op
from ttmem.events.record import Control
from ttmem.recording import RecordedProcess, Recording
from ttmem.recording.format import runs
from ttmem.web.lives import KINDS, Interval, Lives, Progress, is_within
from ttmem.web.payload import UNKNOWN, Table, table

MOST_CIRCULAR = 30_000
MOST_FRONTIER = 20_000
MOST_LISTED = 400  # groups of programs
_WANTED = frozenset(
    int(op)
    for op in (
        Op.CB_ALLOC,
        Op.CB_FREE,
        Op.KERNEL_LOAD,
        Op.PROGRAM_DISPATCH,
        Op.PROGRAM_DESTROY,
        Op.PROGRAM_NAME,
        Notice.PROGRAM_CREATED,
    )
)


class Placed(NamedTuple):
    """A circular buffer of a live program."""

    row: int  # row in the table
    address: int
    size: int  # on all its cores
    end: int  # the address after it on each core; UNKNOWN if its cores are not known
    counted: bool  # False: it is inside an L1 buffer


_SUMS = ("dispatches", "hits", "misses", "kernels", "binaries")


@dataclass(slots=True)
class ReportedProgram:
    """One program of one process, on all its devices."""

    name: str | None = None
    site: str | None = None
    dispatches: int = 0
    hits: int = 0
    misses: int = 0
    kernels: int = 0
    binaries: int = 0  # bytes: one copy of each binary
    per_core: int | None = None  # the highest sum of its circular buffers on one core
    placed: dict[int, list[Placed]] = field(default_factory=dict)  # by device

    @property
    def is_used(self) -> bool:
        """The runtime also creates a program that it only moves from, with nothing in it."""
        return bool(self.kernels or self.dispatches or self.placed)


class Programs:
    """Collects what a recording's events tell about programs, in one pass."""

    def __init__(
        self, recording: Recording, lives: Lives, devices: Sequence[str], progress: Progress
    ) -> None:
        self._lives = lives
        self._numbers = {unique_id: number for number, unique_id in enumerate(devices)}
        self._masks: dict[tuple[int, int], int] = {}  # (account, id) -> cores, a bit for each
        self._live: dict[tuple[int, int], ReportedProgram] = {}  # by serial number and id
        self._highest: dict[int, int] = {}  # by device: end of the program dispatched last
        self._reached: list[tuple[int, int, int]] = []  # device, time, that end
        self.masks: dict[int, int] = {}  # cores -> number of the mask
        self.circular: list[list[int]] = []
        self.ended: list[ReportedProgram] = []
        processes = {process.serial: process for process in recording.processes}
        for position, data in recording.records():
            progress(position)
            self._read(position, data, processes)

    def _read(self, position: int, data: bytes, processes: dict[int, RecordedProcess]) -> None:
        ops = data[::EVENT_SIZE]
        for run in runs(data):
            control = run.control
            if control.op == Control.BATCH and control.extra in processes:
                for at in range(run.first, run.end):
                    if ops[at] in _WANTED:
                        event = Event.unpack(data, at * EVENT_SIZE)
                        when = event.time_by(control.time)
                        self._take(
                            processes[control.extra], control.device, position + at, when, event
                        )
            elif control.op == Control.DEFINE_CORES and run.end - run.first == 2:
                mask = data[run.first * EVENT_SIZE : run.end * EVENT_SIZE]
                self._masks[control.device, control.number] = int.from_bytes(mask, "little")
            elif control.op in (Control.RELEASE_PROCESS, Control.BEGIN_RESYNC):
                time = self._lives.at(position + run.first - 1)
                for key in [key for key in self._live if key[0] == control.extra]:
                    self._destroy(key, time)

    def _take(
        self, process: RecordedProcess, account: int, position: int, when: int, event: Event
    ) -> None:
        device = self._numbers.get(process.devices.get(event.device, ""), UNKNOWN)
        owned = event.op in (Op.CB_ALLOC, Op.CB_FREE, Op.KERNEL_LOAD)
        key = (process.serial, event.extra if owned else event.id)
        if event.op == Op.PROGRAM_DESTROY:
            self._leave(key, device, self._lives.at(position))
            return
        program = self._live.get(key)
        if program is None:
            program = self._live[key] = ReportedProgram()
        if not owned:
            program.name = process.strings.get(event.name, program.name)
            program.site = program.site or process.strings.get(event.site)
        if event.op == Op.CB_ALLOC:
            self._place(program, device, self._lives.at(position), account, event)
        elif event.op == Op.CB_FREE:
            self._remove(program, device, self._lives.at(position), event)
        elif event.op == Op.KERNEL_LOAD and event.kind == 0:
            program.kernels += 1
            program.binaries += event.size
        elif event.op == Op.PROGRAM_DISPATCH:
            program.dispatches += 1
            program.hits += bool(event.flags & Flag.CACHE_HIT)
            program.misses += bool(event.flags & Flag.CACHE_MISS)
            self._dispatch(program, device, position, when)

    def _place(
        self, program: ReportedProgram, device: int, time: int, account: int, event: Event
    ) -> None:
        bits = self._masks.get((account, event.cores), 0)
        cores = bits.bit_count()
        per_core = event.size // cores if cores else UNKNOWN
        address = event.address or event.id
        mask = self.masks.setdefault(bits, len(self.masks)) if bits else UNKNOWN
        counted = not event.flags & Flag.GLOBAL
        end = address + per_core if cores else UNKNOWN
        buffer = Placed(len(self.circular), address, event.size, end, counted)
        name = self._lives.origins.string(program.name)
        self.circular.append([device, time, UNKNOWN, address, per_core, mask, name, int(counted)])
        placed = program.placed.setdefault(device, [])
        placed.append(buffer)
        if all(other.end >= 0 for other in placed):
            held = sum(other.end - other.address for other in placed if other.counted)
            program.per_core = max(program.per_core or 0, held)

    def _remove(self, program: ReportedProgram, device: int, time: int, event: Event) -> None:
        placed, address = program.placed.get(device, []), event.address or event.id
        for buffer in placed:
            if buffer.address == address and buffer.size == event.size:
                self.circular[buffer.row][2] = time
                placed.remove(buffer)
                return

    def _leave(self, key: tuple[int, int], device: int, time: int) -> None:
        """A program was destroyed on one device; it is gone when that has happened on all."""
        program = self._live.get(key)
        if program is None:
            return
        for buffer in program.placed.pop(device, ()):
            self.circular[buffer.row][2] = time
        if not any(program.placed.values()):
            self.ended.append(self._live.pop(key))

    def _destroy(self, key: tuple[int, int], time: int) -> None:
        program = self._live.pop(key)
        for buffer in (buffer for placed in program.placed.values() for buffer in placed):
            self.circular[buffer.row][2] = time
        self.ended.append(program)

    def _dispatch(self, program: ReportedProgram, device: int, position: int, when: int) -> None:
        placed = program.placed.get(device, ())
        end = max((buffer.end for buffer in placed if buffer.counted), default=UNKNOWN)
        if end != self._highest.get(device):
            self._highest[device] = end
            self._reached.append((device, self._lives.marked(position, when), end))

    # -- for the page --------------------------------------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        """Programs made by the same op at the same line share a row; the most dispatched come first."""
        groups: dict[tuple[str | None, str | None], list[ReportedProgram]] = {}
        for program in (*self.ended, *self._live.values()):
            if program.is_used:
                groups.setdefault((program.name, program.site), []).append(program)
        rows = [
            {
                "op": name,
                "site": site,
                "programs": len(members),
                **{of: sum(getattr(program, of) for program in members) for of in _SUMS},
                "per_core": max(
                    (program.per_core for program in members if program.per_core is not None),
                    default=None,
                ),
            }
            for (name, site), members in groups.items()
        ]
        return nlargest(MOST_LISTED, rows, key=lambda row: (row["dispatches"], row["programs"]))

    def circular_table(self) -> tuple[Table, int]:
        """The longest-lived circular buffers, and how many are left out."""
        names = ("device", "start", "end", "address", "per_core", "mask", "name", "counted")
        length = self._lives.length
        kept = nlargest(
            MOST_CIRCULAR,
            (row for row in self.circular if row[0] >= 0),
            key=lambda row: (length if row[2] < 0 else row[2]) - row[1],
        )
        return table(names, sorted(kept)), len(self.circular) - len(kept)

    def frontier_table(self, complete: Sequence[Interval]) -> Table:
        """How far up circular buffers reached, and where the lowest L1 buffer was; the closest of each part is kept."""
        rows = _thin(_meetings(self._lives, self._reached), complete)
        return table(("device", "time", "reached", "lowest"), rows)


def _meetings(
    lives: Lives, reached: Iterable[tuple[int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """(device, time, end of circular buffers, lowest address of an L1 buffer) whenever one of them changes."""
    buffers, l1 = lives.buffers, KINDS.index("L1")
    events: list[tuple[int, int, int, int]] = []  # device, time, what, value
    for row, kind in enumerate(buffers.kind):
        if kind == l1 and buffers.address[row] >= 0:
            events.append((buffers.device[row], buffers.start[row], 1, row))
            if buffers.end[row] >= 0:
                events.append((buffers.device[row], buffers.end[row], 0, row))
    events += [(device, time, 2, end) for device, time, end in reached]
    events.sort()
    found: list[tuple[int, int, int, int]] = []
    heap: list[tuple[int, int]] = []
    gone: set[int] = set()
    device, end = UNKNOWN, UNKNOWN
    for where, time, what, value in events:
        if where != device:
            device, end, heap, gone = where, UNKNOWN, [], set()
        if what == 2:
            end = value
        elif what == 1:
            heappush(heap, (buffers.address[value], value))
        else:
            gone.add(value)
        while heap and heap[0][1] in gone:
            gone.discard(heappop(heap)[1])
        row_ = (where, time, end, heap[0][0] if heap else UNKNOWN)
        if found and found[-1][:2] == row_[:2]:
            found[-1] = row_
        elif not found or found[-1][0] != where or found[-1][2:] != row_[2:]:
            found.append(row_)
    return found


def _thin(
    rows: list[tuple[int, int, int, int]], complete: Sequence[Interval]
) -> list[tuple[int, int, int, int]]:
    if len(rows) <= MOST_FRONTIER:
        return rows
    kept = {row for row in rows if is_within(complete, row[1])}
    size = -(-len(rows) // (MOST_FRONTIER // 3))

    def distance(row: tuple[int, int, int, int]) -> float:
        return row[3] - row[2] if row[2] >= 0 and row[3] >= 0 else float("inf")

    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        kept.update((part[0], part[-1], min(part, key=distance)))
    return sorted(kept)
