"""The failed allocations of a recording, each with what was alive at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ttmem.events import EVENT_SIZE, Event, Flag, MemoryKind, Notice, runtime_messages
from ttmem.probe.report import FailedAllocation, Holding, Origin, wanted_buffers
from ttmem.recording import Batch, RecordedProcess, Recording
from ttmem.snapshots import Buffer, Question

_KINDS = {kind.name: int(kind) for kind in MemoryKind}


class _Failed(NamedTuple):
    process: RecordedProcess
    position: int  # of the event
    event: Event
    refused: list[Event]  # the circular buffers that it wanted
    chips: list[int]  # on a mesh, the same failure is an event on each chip


def recorded_failures(recording: Recording) -> Iterator[FailedAllocation]:
    """In the order in which they happened."""
    messages = recording.messages()
    for failed in _failures(recording):
        yield _explained(recording, failed, messages.get(failed.event.time, ""))


def _failures(recording: Recording) -> list[_Failed]:
    """Only the surroundings of markers are searched, since a recording may have millions of events."""
    found: dict[tuple[int, int, int], _Failed] = {}
    for marker in recording.markers:
        if marker.kind != "failure":
            continue
        start = recording.batch_start(marker.position)
        for batch in recording.batches(start, marker.position + 1):
            failed = _last(batch, marker.position)
            if failed is not None:
                key = failed.process.serial, failed.event.time, failed.event.id
                known = found.setdefault(key, failed)
                known.chips.append(failed.event.device)
    return list(found.values())


def _last(batch: Batch, position: int) -> _Failed | None:
    """The failure at a position, if the batch ends with it."""
    at = position - batch.position
    if not 0 <= at < len(batch.events) // EVENT_SIZE:
        return None
    event = Event.unpack(batch.events, at * EVENT_SIZE)
    if event.op != Notice.ALLOCATION_FAILED:
        return None
    ops = bytes(batch.events[::EVENT_SIZE])
    places = (place for place in range(at) if ops[place] == Notice.CB_REFUSED)
    events = (Event.unpack(batch.events, place * EVENT_SIZE) for place in places)
    program = event.extra
    refused = [other for other in events if (other.time, other.extra) == (event.time, program)]
    return _Failed(batch.process, position, event, refused, [])


def _explained(recording: Recording, failed: _Failed, message: str) -> FailedAllocation:
    process, event = failed.process, failed.event
    chips = tuple(sorted({*failed.chips}))
    then = recording.snapshot(recording.after(failed.position), Question(("buffers",)))
    mine = [buffer for buffer in then.buffers or () if buffer.pid == process.pid]
    listed = (shown for shown in then.processes if shown.pid == process.pid)
    sought = next((shown.call_sites for shown in listed), None) is not False
    known = recording.declaration(process.devices.get(chips[0], "")) if chips else None
    return FailedAllocation(
        _what(event, failed.refused, message),
        event.kind,
        chips,
        event.size or None,
        message,
        Origin(process.strings.get(event.name), process.strings.get(event.site), None, sought),
        tuple(_holdings(mine, {name: chip for chip, name in process.devices.items()}, sought)),
        device=known,
        time_ns=event.time,
        pid=process.pid,
        wanted=wanted_buffers(
            refused for refused in failed.refused if refused.device == event.device
        ),
    )


def _what(event: Event, refused: list[Event], message: str) -> str:
    """For a program its number; for a buffer the bytes it asked for."""
    if event.size and not event.extra:
        return "buffer"
    if runtime_messages.bank_figures(message):
        return "buffer"
    if any(event.flags & Flag.DATAFLOW for event in refused):
        return "dataflow buffers"
    return "circular buffers"


def _holdings(buffers: Iterable[Buffer], chips: dict[str, int], sought: bool) -> Iterator[Holding]:
    """One holding for all chips of a buffer."""
    places: dict[tuple[object, ...], tuple[Buffer, list[int]]] = {}
    for buffer in buffers:
        key = (buffer.id, buffer.kind, buffer.address, buffer.held, buffer.site)
        places.setdefault(key, (buffer, []))[1].append(chips.get(buffer.device or "", -1))
    for buffer, where in places.values():
        if buffer.kind in _KINDS:
            yield Holding(
                _KINDS[buffer.kind],
                tuple(sorted(where)),
                buffer.held,
                buffer.address or 0,
                Origin(buffer.name, buffer.site, buffer.phase, sought),
                buffer.requested,
            )
