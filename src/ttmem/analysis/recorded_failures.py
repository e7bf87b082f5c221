"""The failed allocations of a recording, each with what was alive at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ttmem.events import EVENT_SIZE, Event, Flag, MemoryKind, Notice, runtime_messages
from ttmem.probe.report import FailedAllocation, Holding, Origin, wanted_buffers
from ttmem.recording import Batch, RecordedProcess, Recording
from ttmem.snapshots import Buffer

_KINDS = {kind.name: int(kind) for kind in MemoryKind}


class _Failed(NamedTuple):
    process: RecordedProcess
    position: int  # of the event
    event: Event
    refused: list[Event]  # the circular buffers that it wanted
    chips: list[int]  # on a mesh the same failure is an event on each


def recorded_failures(recording: Recording) -> Iterator[FailedAllocation]:
    """In the order in which they happened."""
    messages = recording.messages()
    for failed in _failures(recording):
        yield _explained(recording, failed, messages.get(failed.event.time, ""))


def _failures(recording: Recording) -> list[_Failed]:
    """A recording with a million events is searched only around its markers."""
    found: dict[tuple[int, int, int], _Failed] = {}
    for marker in recording.markers:
        if marker.kind != "failure":
            continue
        start = recording.batch_start(marker.position)
        for batch in recording.batches(start, marker.position + 1):
            failed = _last(batch, marker.position)
            if failed is not None:
                known = found.setdefault(_key(failed), failed)
                known.chips.append(failed.event.device)
    return list(found.values())


def _key(failed: _Failed) -> tuple[int, int, int]:
    return failed.process.serial, failed.event.time, failed.event.id


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
    refused = [one for one in events if (one.time, one.extra) == (event.time, program)]
    return _Failed(batch.process, position, event, refused, [])


def _explained(recording: Recording, failed: _Failed, message: str) -> FailedAllocation:
    process, event = failed.process, failed.event
    chips = tuple(sorted({*failed.chips}))
    then = recording.snapshot(recording.instant(f"#{failed.position}"), ("buffers",))
    mine = [one for one in then.buffers or () if one.pid == process.pid]
    sought = next((one.call_sites for one in then.processes if one.pid == process.pid), None)
    known = recording.declaration(process.devices.get(chips[0], "")) if chips else None
    return FailedAllocation(
        _what(event, failed.refused, message),
        event.kind,
        chips,
        event.size or None,
        message,
        _origin(process.strings.get(event.name), process.strings.get(event.site), None, sought),
        tuple(_holdings(mine, {name: chip for chip, name in process.devices.items()}, sought)),
        device=known,
        time_ns=event.time,
        pid=process.pid,
        wanted=wanted_buffers(one for one in failed.refused if one.device == event.device),
    )


def _what(event: Event, refused: list[Event], message: str) -> str:
    """A program has a number; a buffer asks for bytes."""
    if event.size and not event.extra:
        return "buffer"
    if runtime_messages.bank_figures(message):
        return "buffer"
    if any(one.flags & Flag.DATAFLOW for one in refused):
        return "dataflow buffers"
    return "circular buffers"


def _origin(op: str | None, site: str | None, phase: str | None, sought: bool | None) -> Origin:
    return Origin(op, site, phase, sought is not False)


def _holdings(
    buffers: Iterable[Buffer], chips: dict[str, int], sought: bool | None
) -> Iterator[Holding]:
    """One holding for all chips of a buffer."""
    places: dict[tuple[object, ...], tuple[Buffer, list[int]]] = {}
    for one in buffers:
        key = (one.id, one.kind, one.address, one.held, one.site)
        places.setdefault(key, (one, []))[1].append(chips.get(one.device or "", -1))
    for one, where in places.values():
        if one.kind in _KINDS:
            yield Holding(
                _KINDS[one.kind],
                tuple(sorted(where)),
                one.held,
                one.address or 0,
                _origin(one.name, one.site, one.phase, sought),
                one.requested,
            )
