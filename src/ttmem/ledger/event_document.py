"""One event as JSON has it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ttmem.events import BinaryStatus, Event, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.ledger.process_record import ProcessRecord

_OPS = {int(op): op.name for op in (*Op, *Notice)}
_OF_NO_DEVICE = {int(notice) for notice in Notice if not notice.of_device}
_BUFFERS = (Op.ALLOC, Op.FREE)  # their `cores` is a phase
_FLAGS = [(int(flag), flag.name) for flag in Flag]
_KINDS: dict[int, type[IntEnum]] = {
    Op.ALLOC: MemoryKind,
    Op.FREE: MemoryKind,
    Op.KERNEL_LOAD: KernelType,
    Op.BINARY_STATUS: BinaryStatus,
    Notice.PROGRAM_CREATED: KernelType,
    Notice.ALLOCATION_FAILED: MemoryKind,
}


def event_document(process: ProcessRecord, event: Event, arrived: int) -> dict[str, Any]:
    """The event with the names of its process; `arrived` stands in for a time that is none, or is to come."""
    return {
        "time_ns": event.time if 0 < event.time <= arrived else arrived,
        "pid": process.pid,
        "device": event_device(process, event),
        "op": _OPS.get(event.op, event.op),
        "kind": _kind(event),
        "flags": [name for flag, name in _FLAGS if event.flags & flag],
        "id": event.id,
        "size": _size(event),
        "extra": event.extra,
        "address": event.address,
        "number": event.number,
        "cores": 0 if event.op in _BUFFERS else event.cores,
        "phase": process.strings.get(event.cores) if event.op in _BUFFERS else None,
        "text": _text(process, event),
        "name": process.strings.get(event.name),
        "site": process.strings.get(event.site),
    }


def event_device(process: ProcessRecord, event: Event) -> str | None:
    """The unique id of the device on which it happened."""
    return None if event.op in _OF_NO_DEVICE else process.devices.get(event.device)


def _size(event: Event) -> int | None:
    """A program whose circular buffers found no room asked for no sum."""
    return event.size or None if event.op == Notice.ALLOCATION_FAILED else event.size


def _text(process: ProcessRecord, event: Event) -> str | None:
    """What the runtime said."""
    failed = event.op == Notice.ALLOCATION_FAILED
    return process.messages.get(event.time) if failed else None


def _kind(event: Event) -> str | None:
    """What `kind` means depends on the sort of event; None where it means nothing."""
    if event.op == Op.FREE and not event.flags & Flag.KIND_KNOWN:
        return None
    try:
        return _KINDS[event.op](event.kind).name
    except (KeyError, ValueError):
        return None
