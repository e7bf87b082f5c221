"""The events of a recording as rows with names instead of numbers: what all tables are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ttmem.events import EVENT, Event, Flag, MemoryKind, Notice, Op
from ttmem.recording import Batch, RecordedProcess, Recording

Progress = Callable[[int], None]  # the position reached


class Span(NamedTuple):
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


_NAMES = {int(op): op.name.lower() for op in (*Op, *Notice)}
_MEMORY = {int(kind): kind.name for kind in MemoryKind}
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
    recording: Recording, span: Span, progress: Progress = lambda position: None
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
