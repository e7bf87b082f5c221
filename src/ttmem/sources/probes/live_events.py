"""The live table as events: what a reader that missed something needs to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ttmem.events import Event, Flag, Op
from ttmem.probe.layout import LiveType
from ttmem.sources.probe_region import LiveThing

_ON_L1 = Flag.GLOBAL | Flag.DATAFLOW


def live_events(things: Iterable[LiveThing]) -> bytes:
    """One event for each thing and chip; the names of programs after what they are made of."""
    known = list(things)
    made = [event.pack() for thing in known for event in _events(thing)]
    return b"".join([*made, *(event.pack() for event in _program_names(known))])


def _events(thing: LiveThing) -> Iterator[Event]:
    maker = _MAKERS.get(thing.type)
    if maker is not None:
        event = maker(thing)
        for chip in thing.chips:
            yield event._replace(device=chip)


def _buffer(thing: LiveThing) -> Event:
    return _blank(thing, Op.ALLOC)._replace(extra=thing.reserved or 0, cores=thing.phase)


def _circular_buffer(thing: LiveThing) -> Event:
    return _part(thing, Op.CB_ALLOC)._replace(flags=Flag.RESENT | thing.flags & _ON_L1)


def _kernel(thing: LiveThing) -> Event:
    return _part(thing, Op.KERNEL_LOAD)._replace(number=thing.number)


def _part(thing: LiveThing, op: Op) -> Event:
    return _blank(thing, op)._replace(extra=thing.program or 0, cores=thing.cores)


def _blank(thing: LiveThing, op: Op) -> Event:
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


_MAKERS: dict[LiveType, Callable[[LiveThing], Event]] = {
    LiveType.BUFFER: _buffer,
    LiveType.CIRCULAR_BUFFER: _circular_buffer,
    LiveType.KERNEL: _kernel,
}


def _program_names(things: list[LiveThing]) -> Iterator[Event]:
    """A program is on the chips of its parts; what made it stands in an entry of its own."""
    chips: dict[int, set[int]] = {}
    for thing in things:
        if thing.program and thing.type is not LiveType.PROGRAM:
            chips.setdefault(thing.program, set()).update(thing.chips)
    for thing in things:
        if thing.type is LiveType.PROGRAM and (thing.name or thing.site):
            for chip in sorted(chips.get(thing.id, ())):
                named = Event(Op.PROGRAM_NAME, flags=Flag.RESENT, device=chip, id=thing.id)
                yield named._replace(time=thing.time_ns, name=thing.name, site=thing.site)
