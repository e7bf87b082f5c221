"""The events of a recording as rows with names instead of numbers: the basis of all tables."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ttmem._native import event_columns as native_columns
from ttmem._native import looked_up
from ttmem.events import EVENT, Event, Flag, MemoryKind, Notice, Op
from ttmem.events.record import OF_NO_DEVICE, OP_NAMES
from ttmem.exporters.parquet import Numbers, Texts
from ttmem.recording import Batch, RecordedProcess


class EventRow(NamedTuple):
    """One event. None: unknown, or meaningless for this event."""

    position: int  # `ttmem ps FILE --at '#POSITION'` shows the state just before it
    time_ns: int
    pid: int
    device: str | None  # unique id
    event: str  # alloc, free, cb_alloc, kernel_load, program_dispatch, allocation_failed, ...
    memory: str | None  # DRAM, L1, L1_SMALL, TRACE, CB
    id: int | None
    requested: int | None
    reserved: int | None
    address: int | None
    program: int | None
    number: int | None  # references of a buffer, cores of a kernel
    op: str | None
    site: str | None
    phase: str | None


_NAMES = {op: name.lower() for op, name in OP_NAMES.items()}
_MEMORY: dict[int, str] = {int(kind): kind.name for kind in MemoryKind}
_BUFFER = {int(Op.ALLOC), int(Op.FREE)}
_CIRCULAR = {int(Op.CB_ALLOC), int(Op.CB_FREE)}
_KERNEL = {int(Op.KERNEL_LOAD), int(Op.KERNEL_UNLOAD)}
_PROGRAM = {
    int(op)
    for op in (
        Op.PROGRAM_DISPATCH,
        Op.PROGRAM_DESTROY,
        Op.PROGRAM_NAME,
        Op.BINARY_STATUS,
        Notice.PROGRAM_CREATED,
        Notice.PROGRAM_COMPILED,
        Notice.PROGRAM_FINALIZED,
    )
}
_FAILED = int(Notice.ALLOCATION_FAILED)


def event_rows(batch: Batch) -> Iterator[EventRow]:
    """The rows of one batch."""
    position, process, arrived = batch.position, batch.process, batch.arrived_ns
    for number, fields in enumerate(EVENT.iter_unpack(batch.events)):
        yield event_row(position + number, process, arrived, Event._make(fields))


def event_row(position: int, process: RecordedProcess, arrived: int, event: Event) -> EventRow:
    op, text = event.op, process.strings.get
    memory = requested = reserved = address = program = number = phase = None
    id_: int | None = event.id
    if op in _BUFFER or op == _FAILED:
        if op != Op.FREE or event.flags & Flag.KIND_KNOWN:
            memory = _MEMORY.get(event.kind)
        requested, address = event.size or None, event.address or None
        if op in _BUFFER:
            reserved, phase = event.extra or None, text(event.cores)
            number = event.number or 1 if op == Op.ALLOC else None
    elif op in _CIRCULAR:
        memory, requested, program = "CB", event.size or None, event.extra or None
        address, number = event.address or event.id, event.number or 1
    elif op in _KERNEL:
        requested, program, number = event.size or None, event.extra or None, event.number or None
    elif op in _PROGRAM:
        id_, program = None, event.id or None
    return EventRow(
        position,
        event.time_by(arrived),
        process.pid,
        None if op in OF_NO_DEVICE else process.devices.get(event.device),
        _NAMES.get(op, str(op)),
        memory,
        id_,
        requested,
        reserved,
        address,
        program,
        number,
        text(event.name),
        text(event.site),
        phase,
    )


def _class(op: int) -> int:
    """Numbered like `EventClass` in src/native/event_columns.hpp."""
    groups = ({int(Op.ALLOC)}, {int(Op.FREE)}, {_FAILED}, _CIRCULAR, _KERNEL, _PROGRAM)
    found = next((number for number, ops in enumerate(groups, 1) if op in ops), 0)
    return found | (128 if op in OF_NO_DEVICE else 0)


_CLASSES = bytes(map(_class, range(256)))
_CB = 255  # in the column `memory`
_NONE = 0xFFFFFFFF
TABLE = tuple("time" if name == "time_ns" else name for name in EventRow._fields)


def event_columns(found: Sequence[Batch]) -> dict[str, Numbers | Texts]:
    """The same as `event_rows`, as columns and sorted by time."""
    processes = list({batch.process.serial: batch.process for batch in found}.values())
    numbers = {process.serial: number for number, process in enumerate(processes)}
    runs = [
        (
            numbers[batch.process.serial],
            batch.process.pid if 0 <= batch.process.pid <= _NONE else 0,
            batch.arrived_ns,
            batch.position,
            batch.events.tobytes(),
        )
        for batch in found
    ]

    def text(name: str, key: int) -> str | None:
        number, low = key >> 32, key & _NONE
        if key == (1 << 64) - 1:
            return None
        if name == "event":
            return _NAMES.get(low, str(low))
        if name == "memory":
            return "CB" if low == _CB else _MEMORY.get(low)
        process = processes[number]
        known = process.devices if name == "device" else process.strings
        return known.get(low)

    columns: dict[str, Numbers | Texts] = {}
    for name, column in zip(TABLE, native_columns(runs, _CLASSES), strict=True):
        if len(column) == 4:
            columns[name] = Numbers(*column)
            continue
        indices, keys = column
        texts = [text(name, key) for key in memoryview(keys).cast("Q")]
        known = {one: at for at, one in enumerate(dict.fromkeys(t for t in texts if t is not None))}
        table = array("I", [_NONE if one is None else known[one] for one in texts])
        columns[name] = Texts(*looked_up(indices, table.tobytes()), [*known])
    return columns


_DISPATCHED, _FAILURE = _NAMES[Op.PROGRAM_DISPATCH], _NAMES[Notice.ALLOCATION_FAILED]
_TRACE = {name for name in _NAMES.values() if name.startswith("trace_")}
_OF_PROGRAM = {_NAMES[op] for op in (Op.CB_ALLOC, Notice.PROGRAM_CREATED, Notice.CB_REFUSED)}
_OF_PROGRAM |= {_DISPATCHED, *_TRACE}
_ENDING = {_DISPATCHED, _FAILURE, *_TRACE}
# Other events do not tell what is executed: a free has the op that allocated, a kernel has a name of its own.
_STARTING = {_NAMES[Op.ALLOC], *_OF_PROGRAM, *_ENDING}
MOST_ROWS = 65_536  # of one operation, so that memory stays bounded


@dataclass(slots=True)
class Operation:
    """A program that was dispatched, with what its op allocated before; or an allocation without a program.

    Events do not say where an op begins and ends: one that dispatches three programs is three operations. Events
    that follow, such as frees, are among the rows up to the next operation, but do not prolong it.
    """

    process: RecordedProcess
    name: str | None
    site: str | None
    rows: list[EventRow] = field(default_factory=list)

    @property
    def own(self) -> list[EventRow]:
        """The rows that the op caused; none: these are events that belong to no operation."""
        return [row for row in self.rows if self.owns(row)]

    def owns(self, row: EventRow) -> bool:
        """A source that does not know ops names at most call sites, of allocations."""
        known = (self.name, self.site), (None, None)
        return row.event in _STARTING and (row.op, row.site) in known

    @property
    def title(self) -> str:
        return self.name or (self.site or "").split("\n")[0] or "(no op)"


class _Open:
    """What a process is executing."""

    def __init__(self, process: RecordedProcess, first: EventRow) -> None:
        named = first.event in _STARTING
        self._now = Operation(process, *((first.op, first.site) if named else (None, None)))
        self._has_program = False
        self._ended_on: set[str | None] = set()  # devices
        self.add(first)

    @property
    def has_ended(self) -> bool:
        return bool(self._ended_on)

    def add(self, row: EventRow) -> None:
        self._now.rows.append(row)
        if self._now.owns(row):
            self._has_program |= row.event in _OF_PROGRAM
            if row.event in _ENDING:
                self._ended_on.add(row.device)

    def continues_with(self, row: EventRow) -> bool:
        if len(self._now.rows) >= MOST_ROWS:
            return False
        if row.event not in _STARTING:
            return True
        if not self._now.owns(row):
            return False
        # A mesh has one event for each of its devices.
        again = row.event == self._now.rows[-1].event and row.device not in self._ended_on
        return not self.has_ended or again

    def close(self) -> Iterator[Operation]:
        """Without a program, each allocation is an operation."""
        whole = self._now
        if self._has_program:
            yield whole
            return
        part, last = Operation(whole.process, whole.name, whole.site), whole.rows[0]
        devices: set[str | None] = set()
        for row in whole.rows:
            if whole.owns(row):
                same = (row.event, row.time_ns) == (last.event, last.time_ns)
                if part.rows and not (same and row.device not in devices):
                    yield part
                    part, devices = Operation(whole.process, whole.name, whole.site), set()
                devices.add(row.device)
                last = row
            part.rows.append(row)
        yield part


def operations(batches: Iterable[Batch]) -> Iterator[Operation]:
    """In the order in which they end; every event is in exactly one of them."""
    current: dict[int, _Open] = {}
    for batch in batches:
        serial = batch.process.serial
        for row in event_rows(batch):
            now = current.get(serial)
            if now is not None and now.continues_with(row):
                now.add(row)
                continue
            begins = row.event in _STARTING
            for each, other in list(current.items()):
                if each == serial or (begins and other.has_ended):
                    yield from current.pop(each).close()
            current[serial] = _Open(batch.process, row)
    for last in current.values():
        yield from last.close()
