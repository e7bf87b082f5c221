"""The live table as events, for readers that have missed some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ttmem.events import Event, Flag, Op
from ttmem.probe.layout import LiveType
from ttmem.sources.probe.tables import LiveEntry

DEVICE_AT = 4  # in an event
_ON_L1 = Flag.GLOBAL | Flag.DATAFLOW


def live_events(entries: Iterable[LiveEntry]) -> bytes:
    """One for each entry and chip; the names of programs come after their parts."""
    known = list(entries)
    packed = bytearray()
    for entry in known:
        maker = _MAKERS.get(entry.type)
        if maker is not None:
            packed += _on_chips(maker(entry), entry.chips)
    for name, chips in _program_names(known):
        packed += _on_chips(name, chips)
    return bytes(packed)


def _on_chips(event: Event, chips: Iterable[int]) -> bytes:
    """An entry of a mesh of 64 chips becomes 64 events. Only the device differs, so the rest is packed once."""
    data = event.pack()
    before, after = data[:DEVICE_AT], data[DEVICE_AT + 4 :]
    return b"".join([before + chip.to_bytes(4, "little") + after for chip in chips])


def _buffer(entry: LiveEntry) -> Event:
    return _blank(entry, Op.ALLOC)._replace(extra=entry.reserved or 0, cores=entry.phase)


def _circular_buffer(entry: LiveEntry) -> Event:
    return _part(entry, Op.CB_ALLOC)._replace(flags=Flag.RESENT | entry.flags & _ON_L1)


def _kernel(entry: LiveEntry) -> Event:
    return _part(entry, Op.KERNEL_LOAD)._replace(number=entry.number)


def _part(entry: LiveEntry, op: Op) -> Event:
    return _blank(entry, op)._replace(extra=entry.program or 0, cores=entry.cores)


def _blank(entry: LiveEntry, op: Op) -> Event:
    return Event(
        op,
        kind=entry.kind,
        flags=Flag.RESENT,
        time=entry.time_ns,
        id=entry.id,
        size=entry.requested,
        address=entry.address,
        name=entry.name,
        site=entry.site,
    )


_MAKERS: dict[LiveType, Callable[[LiveEntry], Event]] = {
    LiveType.BUFFER: _buffer,
    LiveType.CIRCULAR_BUFFER: _circular_buffer,
    LiveType.KERNEL: _kernel,
}


def _program_names(entries: list[LiveEntry]) -> Iterator[tuple[Event, list[int]]]:
    """A program is on the chips of its parts; its name and site are in its own entry."""
    chips: dict[int, set[int]] = {}
    for entry in entries:
        if entry.program and entry.type is not LiveType.PROGRAM:
            chips.setdefault(entry.program, set()).update(entry.chips)
    programs = {entry.id: entry for entry in entries if entry.type is LiveType.PROGRAM}
    for entry in programs.values():
        if entry.name or entry.site:
            named = Event(Op.PROGRAM_NAME, flags=Flag.RESENT, id=entry.id)
            named = named._replace(time=entry.time_ns, name=entry.name, site=entry.site)
            yield named, sorted(chips.get(entry.id, ()))
