"""Reads one region again and again: each time what is new, or the live table if events were missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ttmem.events import DeviceDeclaration, Event, Flag, MemoryKind, Op
from ttmem.events.probe_news import KindCounter, ProbeCounters, ProbeNews
from ttmem.probe.layout import Counted, LiveType, Option
from ttmem.procfs import ProcessFacts, process_facts, user_name
from ttmem.sources.containers import Container
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.ring import RingBatch
from ttmem.sources.probe.tables import Activity, Counter, LiveEntry
from ttmem.wire.frames import mask_of

DEVICE_AT = 4  # in an event
_ON_L1 = Flag.GLOBAL | Flag.DATAFLOW


_OPS = {
    LiveType.BUFFER: Op.ALLOC,
    LiveType.CIRCULAR_BUFFER: Op.CB_ALLOC,
    LiveType.KERNEL: Op.KERNEL_LOAD,
}


def live_events(entries: Iterable[LiveEntry]) -> bytes:
    """The live table, for readers that have missed events. The names of programs come after their parts."""
    known = list(entries)
    packed = bytearray()
    for entry in known:
        if entry.type in _OPS:
            packed += _on_chips(as_event(entry), entry.chips)
    for name, chips in _program_names(known):
        packed += _on_chips(name, chips)
    return bytes(packed)


def _on_chips(event: Event, chips: Iterable[int]) -> bytes:
    """An entry of a mesh of 64 chips becomes 64 events. Only the device differs, so the rest is packed once."""
    data = event.pack()
    before, after = data[:DEVICE_AT], data[DEVICE_AT + 4 :]
    return b"".join([before + chip.to_bytes(4, "little") + after for chip in chips])


def as_event(entry: LiveEntry) -> Event:
    """The one that made it, without its device."""
    buffer = entry.type is LiveType.BUFFER
    on_l1 = entry.flags & _ON_L1 if entry.type is LiveType.CIRCULAR_BUFFER else 0
    return Event(
        _OPS[entry.type],
        kind=entry.kind,
        flags=Flag.RESENT | on_l1,
        time=entry.time_ns,
        id=entry.id,
        size=entry.requested,
        extra=(entry.reserved if buffer else entry.program) or 0,
        address=entry.address,
        number=entry.number if entry.type is LiveType.KERNEL else 0,
        cores=entry.phase if buffer else entry.cores,
        name=entry.name,
        site=entry.site,
    )


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


BINARIES, CACHE = "kernel binaries", "program cache"  # as the library names the features
ATTEMPTS = 3  # to read the live table while the ring overtakes the reader


class _Events(NamedTuple):
    """The live table if it had to be read, and the events before and after it was."""

    table: list[LiveEntry] | None
    earlier: bytes
    since: RingBatch
    lost: int = 0
    missed: bool = False  # some were lost or left out


class RegionReader:
    """Starts with the first event, or with what is alive if the first ones are gone."""

    def __init__(
        self, path: str, container: Container | None = None, since_ns: int | None = None
    ) -> None:
        """`since_ns`: when the reader began to wait for regions; None: now. What happened before is not lost to it."""
        self.region = ProbeRegion(path, container=container)
        self.path = path
        self.inside = container is not None
        self.uid = self.region.uid
        self.user = user_name(self.uid)
        # If the process is dead, whoever has its pid now is another process.
        self.facts: ProcessFacts = (
            process_facts(self.region.pid)
            if self.alive()
            else ProcessFacts(self.region.pid, None, self.user, None)
        )
        self._declared: dict[int, DeviceDeclaration] = {}
        self._reported: set[int] = set()  # times of failures, of those still in the region
        self._failures = 0  # whose messages were reported
        self._rebuild = False
        self._has_read = False
        self._is_late = since_ns is None or self.region.created_ns < since_ns

    def close(self) -> None:
        self.region.close()

    def alive(self) -> bool:
        return self.region.process_alive()

    def rebuild(self) -> None:
        """Makes the next `read` take the live table, whatever the ring says."""
        self._rebuild = True

    def read(self, ended: bool = False) -> ProbeNews:
        """What is new, up to a limit (`more`: there is more). BadRegion if the file is no longer a region.

        `ended`: its process is gone, so this is the last of it, unless there is more.
        """
        first, self._has_read = not self._has_read, True
        region = self.region
        header = region.header()
        # Before the ring, so that whatever these figures include has its event before the end of the ring.
        activity = region.activity()
        read = self._read_events()
        # What a late reader has not seen is in the table, as far as it is alive.
        lost = 0 if first and self._is_late and not self._rebuild else read.lost
        table, more = read.table, read.since.more
        counters = region.counters()
        devices = region.devices()
        losses = region.losses()
        features = region.features()
        return ProbeNews(
            facts=self.facts,
            path=self.path,
            devices=self._new_devices(devices),
            strings=region.new_strings(),
            cores=self._new_cores(),
            messages=self._messages(),
            earlier=read.earlier,
            live=None if table is None else live_events(table),
            live_programs=frozenset(_programs(table or ())),
            table_full=table is not None and losses.live_not_listed > 0,
            events=read.since.events,
            position=self.region.position,
            missed=read.missed,
            lost=lost,
            unlisted=losses.live_uncounted,
            tracking=header.tracking,
            call_sites=bool(header.options & Option.CALL_SITES),
            unseen=losses.unseen,
            missing=tuple(name for name, found in features.items() if not found),
            # Counters are current. If there are more events, these are not.
            counters={}
            if more
            else {
                device.logical_id: _figures(row, done, features)
                for device, row, done in zip(devices, counters, activity, strict=False)
                if device is not None
            },
            ended=ended and not more,
            first=first,
            container_pid=region.container_pid,
            more=more,
            most_live=region.most_entries,
        )

    def _read_events(self) -> _Events:
        earlier, lost, missed = b"", 0, False
        if not self._rebuild:
            batch = self.region.new_events()
            if not batch.lost:
                return _Events(None, b"", batch)
            earlier, lost, missed = batch.events, batch.lost, True
        # Everything up to now is in the table; what happens while it is read follows as events.
        batch = self.region.latest_events()
        earlier, lost = earlier + batch.events, lost + batch.lost
        missed = missed or batch.lost + batch.skipped > 0
        for _ in range(ATTEMPTS):
            table = self.region.live()
            batch = self.region.new_events()
            lost += batch.lost
            if not batch.lost:
                break
            earlier, missed = batch.events, True
        self._rebuild = batch.lost > 0
        return _Events(table, earlier, batch, lost, missed)

    def _new_devices(
        self, devices: list[DeviceDeclaration | None]
    ) -> tuple[DeviceDeclaration, ...]:
        """A device that is opened again may have other sizes; then it is declared again."""
        found = {
            device.logical_id: device
            for device in devices
            if device is not None
            and self._declared.get(device.logical_id) != device
            and _is_plausible(device)
        }
        self._declared |= found
        return tuple(found.values())

    def _new_cores(self) -> dict[int, int]:
        """As masks; what no device can have is left out."""
        masks = {}
        for number, found in self.region.new_cores().items():
            with suppress(ValueError):
                masks[number] = mask_of(found)
        return {number: mask for number, mask in masks.items() if mask}

    def _messages(self) -> dict[int, str]:
        if self.region.failure_count() <= self._failures:
            return {}
        found = {failure.time_ns: failure.message for failure in self.region.failures()}
        new = {time: text for time, text in found.items() if time not in self._reported}
        self._reported = set(found)
        self._failures += len(new)
        return new


def _programs(table: Iterable[LiveEntry]) -> Iterator[int]:
    """Also those that only their parts name, because the table had no space for the program itself."""
    for entry in table:
        if entry.type is LiveType.PROGRAM:
            yield entry.id
        elif entry.program:
            yield entry.program


def _figures(
    counters: list[Counter], activity: Activity, features: dict[str, bool]
) -> ProbeCounters:
    cb, dataflow = counters[Counted.CB_DEMAND], counters[Counted.DATAFLOW_DEMAND]
    binaries = counters[Counted.KERNEL_BINARIES].reserved
    return ProbeCounters(
        kinds=tuple(
            KindCounter(
                counter.requested,
                counter.reserved,
                counter.count,
                counter.peak,
                counter.peak_ns or 0,
            )
            for counter in (counters[kind] for kind in MemoryKind)
        ),
        cb_demand=cb.reserved + dataflow.reserved,
        cb_peak=cb.peak + dataflow.peak,
        binaries=binaries if features.get(BINARIES, True) else None,
        loads=activity.kernels_loaded,
        unloads=activity.kernels_unloaded,
        dispatches=activity.dispatches,
        cache_hits=activity.hits,
        cache_misses=activity.misses,
        cache_entries=activity.cache_entries if features.get(CACHE) else None,
    )


def _is_plausible(declaration: DeviceDeclaration) -> bool:
    """Whether a client could have declared it: a region may contain anything."""
    try:
        DeviceDeclaration.from_json(declaration.to_json())
    except ValueError:
        return False
    return True
