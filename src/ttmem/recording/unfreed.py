"""What programs never freed: buffers that went away with their device or their process."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.events import EVENT_SIZE, Event, Flag, Op
from ttmem.events.record import places
from ttmem.recording.recording import Recording
from ttmem.recording.stretch import BufferChange

_FLAGS = 2  # offset of the lower byte of the flags


def never_freed(recording: Recording, end: int | None = None) -> Iterator[BufferChange]:
    """The end of each such buffer, of the processes that had ended before the position `end`.

    Only the part of the recording in which there are any is replayed.
    """
    last = recording.info().end if end is None else end
    ends = [one for one in recording.markers if one.kind == "end" and one.position < last]
    if not ends:
        return
    ended = {one.pid: one.position for one in ends}
    with_process = {(one.pid, one.position) for one in ends}
    with_device = {
        position
        for pid, position in freed_with_device(recording, last)
        if position < ended.get(pid, -1)
    }
    first = min([*with_device, *(position for _, position in with_process)])
    for stretch in recording.stretches(first, last):
        for change in stretch.buffers():
            if change.begins:
                continue
            by_process = (change.origin.process.pid, change.position) in with_process
            if by_process or change.position in with_device:
                yield change


def freed_with_device(recording: Recording, last: int) -> Iterator[tuple[int, int]]:
    """(pid, position) of the frees that closing a device did."""
    for batch in recording.batches(last=last):
        events = bytes(batch.events)
        if max(events[_FLAGS::EVENT_SIZE], default=0) < Flag.WITH_DEVICE:
            continue
        for number in places(events, Op.FREE):
            if Event.unpack(events, number * EVENT_SIZE).is_freed_with_device:
                yield batch.process.pid, batch.position + number
