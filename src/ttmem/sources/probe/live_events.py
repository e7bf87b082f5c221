"""The live table as events: what a reader that missed something needs to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ttmem.events import Event, Flag, Op
from ttmem.probe.layout import LiveType
from ttmem.sources.probe.tables import LiveEntry

DEVICE_AT = 4  # in an event
_ON_L1 = Flag.GLOBAL | Flag.DATAFLOW


def live_events(things: Iterable[LiveEntry]) -> bytes:
    """One event for each thing and chip; the names of programs after what they are made of."""
    known = list(things)
    packed = bytearray()
    for thing in known:
        maker = _MAKERS.get(thing.type)
        if maker is not None:
            packed += _on_chips(maker(thing), thing.chips)
    for name, chips in _program_names(known):
        packed += _on_chips(name, chips)
    return bytes(packed)


def _on_chips(event: Event, chips: Iterable[int]) -> bytes:
    """A mesh of 64 chips makes 64 events of one thing: only the device differs, and nothing else is packed anew."""
    data = event.pack()
    before, after = data[:DEVICE_AT], data[DEVICE_AT + 4 :]
    return b"".join([before + chip.to_bytes(4, "little") + after for chip in chips])


def _buffer(thing: LiveEntry) -> Event:
    return _blank(thing, Op.ALLOC)._replace(extra=thing.reserved or 0, cores=thing.phase)


def _circular_buffer(thing: LiveEntry) -> Event:
    return _part(thing, Op.CB_ALLOC)._replace(flags=Flag.RESENT | thing.flags & _ON_L1)


def _kernel(thing: LiveEntry) -> Event:
    return _part(thing, Op.KERNEL_LOAD)._replace(number=thing.number)


def _part(thing: LiveEntry, op: Op) -> Event:
    return _blank(thing, op)._replace(extra=thing.program or 0, cores=thing.cores)


def _blank(thing: LiveEntry, op: Op) -> Event:
    return Event(
        op,
        kind=thing.kind,
        flags=Flag.RESENT,
        time=thing.time_ns,
        id=thing.id,
        size=thing.requested,
        address=thing.address,
        name=thing.name,
        site=thing.site,
    )


_MAKERS: dict[LiveType, Callable[[LiveEntry], Event]] = {
    LiveType.BUFFER: _buffer,
    LiveType.CIRCULAR_BUFFER: _circular_buffer,
    LiveType.KERNEL: _kernel,
}


def _program_names(things: list[LiveEntry]) -> Iterator[tuple[Event, list[int]]]:
    """A program is on the chips of its parts; what made it stands in an entry of its own."""
    chips: dict[int, set[int]] = {}
    for thing in things:
        if thing.program and thing.type is not LiveType.PROGRAM:
            chips.setdefault(thing.program, set()).update(thing.chips)
    programs = {thing.id: thing for thing in things if thing.type is LiveType.PROGRAM}
    for thing in programs.values():
        if thing.name or thing.site:
            named = Event(Op.PROGRAM_NAME, flags=Flag.RESENT, id=thing.id)
            named = named._replace(time=thing.time_ns, name=thing.name, site=thing.site)
            yield named, sorted(chips.get(thing.id, ()))
