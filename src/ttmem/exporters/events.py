"""The events of a recording as rows with names instead of numbers: what all tables are made of."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ttmem._native import event_columns as native_columns
from ttmem._native import looked_up
from ttmem.events import EVENT, Event, Flag, MemoryKind, Notice, Op
from ttmem.exporters.parquet import Numbers, Texts
from ttmem.recording import Batch, RecordedProcess, Recording

Progress = Callable[[int], None]  # the position reached


class ExportRange(NamedTuple):
    """The part of a recording to export, as positions: from the first to before the last."""

    first: int
    last: int


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


_NAMES: dict[int, str] = {int(op): op.name.lower() for op in (*Op, *Notice)}
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
_NO_DEVICE = {int(notice) for notice in Notice if not notice.of_device}


def batches(
    recording: Recording, span: ExportRange, progress: Progress = lambda position: None
) -> Iterator[Batch]:
    """The batches of a span; `progress` hears where each begins."""
    for batch in recording.batches(span.first, span.last):
        progress(batch.position)
        yield batch


def event_rows(batch: Batch) -> Iterator[EventRow]:
    """The rows of one batch."""
    position, process, arrived = batch.position, batch.process, batch.arrived_ns
    for number, fields in enumerate(EVENT.iter_unpack(batch.events)):
        yield event_row(position + number, process, arrived, Event._make(fields))


def event_time(event: Event, arrived: int) -> int:
    """An event without a time, or with one in the future, happened when it arrived."""
    return event.time if 0 < event.time <= arrived else arrived


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
        event_time(event, arrived),
        process.pid,
        None if op in _NO_DEVICE else process.devices.get(event.device),
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
    """As `EventClass` in src/native/event_columns.hpp numbers them."""
    groups = ({int(Op.ALLOC)}, {int(Op.FREE)}, {_FAILED}, _CIRCULAR, _KERNEL, _PROGRAM)
    found = next((number for number, ops in enumerate(groups, 1) if op in ops), 0)
    return found | (128 if op in _NO_DEVICE else 0)


_CLASSES = bytes(map(_class, range(256)))
_CB = 255  # in the column `memory`
_NONE = 0xFFFFFFFF
TABLE = tuple("time" if name == "time_ns" else name for name in EventRow._fields)


def event_columns(found: Sequence[Batch]) -> dict[str, Numbers | Texts]:
    """What `event_rows` gives, as columns and sorted by time."""
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
