"""One region, followed: every look tells what is new, and reads the live table where something was missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.events.probe_news import KindCounter, ProbeCounters, ProbeNews
from ttmem.probe.layout import Counted, LiveType, Option, State
from ttmem.procfs import ProcessFacts, process_facts, user_name
from ttmem.sources.probe.live_events import live_events
from ttmem.sources.probe.region import Losses, ProbeRegion
from ttmem.sources.probe.ring import Batch
from ttmem.sources.probe.tables import Activity, Counter, LiveEntry
from ttmem.wire.frames import GRID_LIMIT

BINARIES, CACHE = "kernel binaries", "program cache"  # as the library names the features
ATTEMPTS = 3  # at reading the live table while the ring overtakes the reader


class _Read(NamedTuple):
    """The live table, if it had to be read; events from before, and since then."""

    table: list[LiveEntry] | None
    earlier: bytes
    since: Batch
    lost: int = 0
    missed: bool = False  # some were lost, or left out


class RegionReader:
    """Reads a region from its first event on, or from what is alive, if the first ones are gone."""

    def __init__(self, path: str) -> None:
        self._region = ProbeRegion(path)
        self.path = path
        self.created_ns = self._region.created_ns
        self.uid, self.key = self._region.uid, self._region.key
        self.user = user_name(self.uid)
        # Whoever has the pid of a dead process is somebody else.
        self.facts: ProcessFacts = (
            process_facts(self._region.pid)
            if self.alive()
            else ProcessFacts(self._region.pid, None, self.user, None)
        )
        self._declared: dict[int, DeviceDeclaration] = {}
        self._told: set[int] = set()  # of those that the region still has
        self._failures = 0  # whose messages were told
        self._rebuild = False
        self._looked = False

    def close(self) -> None:
        """Done with it."""
        self._region.close()

    def alive(self) -> bool:
        """Is its process?"""
        return self._region.process_alive()

    @property
    def launcher(self) -> int | None:
        """The pid of the `ttmem run` that started its process."""
        return self._region.header().launcher

    @property
    def ended_ns(self) -> int | None:
        """When its process ended; None if it did not yet, or if nobody saw it."""
        return self._region.header().ended_ns

    @property
    def in_order(self) -> bool:
        """Has its process said itself that it ends?"""
        return self._region.header().state is State.ENDED

    def note_death(self, time_ns: int) -> None:
        """Its process is gone since that time."""
        self._region.note_death(time_ns)

    def gone_with_device(self) -> bytes:
        """Buffers that nobody freed before their device was closed, as events."""
        return live_events(self._region.gone_with_device())

    def losses(self) -> Losses:
        """What the probe could not keep."""
        return self._region.losses()

    def rebuild(self) -> None:
        """The next look reads the live table, whatever the ring says."""
        self._rebuild = True

    def look(self, ended: bool = False) -> ProbeNews:
        """What is new, as much as one look takes (`more`: there is more of it); BadRegion if the file is none any more.

        `ended`: its process is gone, so these are its last words, unless there are more.
        """
        first, self._looked = not self._looked, True
        header = self._region.header()
        # Before the ring: whatever is in these figures has its event before the end of the ring.
        activity = self._region.activity()
        read = self._read_events()
        table, more = read.table, read.since.more
        counters = self._region.counters()
        devices = self._region.devices()
        losses = self._region.losses()
        features = self._region.features()
        return ProbeNews(
            facts=self.facts,
            path=self.path,
            devices=self._new_devices(devices),
            strings=self._region.new_strings(),
            cores=self._new_cores(),
            messages=self._messages(),
            earlier=read.earlier,
            live=None if table is None else live_events(table),
            live_programs=frozenset(_programs(table or ())),
            table_full=table is not None and losses.live_without_room > 0,
            events=read.since.events,
            missed=read.missed,
            lost=read.lost,
            unlisted=losses.live_uncounted,
            tracking=header.tracking,
            call_sites=bool(header.options & Option.CALL_SITES),
            unseen=losses.unseen,
            missing=tuple(name for name, found in features.items() if not found),
            # They are of now, and the events are not yet.
            counters={}
            if more
            else {
                device.logical_id: _figures(row, done, features)
                for device, row, done in zip(devices, counters, activity, strict=False)
                if device is not None
            },
            ended=ended and not more,
            first=first,
            container_pid=self._region.container_pid,
            more=more,
            most_live=self._region.most_entries,
        )

    def _read_events(self) -> _Read:
        earlier, lost, missed = b"", 0, False
        if not self._rebuild:
            batch = self._region.new_events()
            if not batch.lost:
                return _Read(None, b"", batch)
            earlier, lost, missed = batch.events, batch.lost, True
        # All that happened until now is in the table; what happens while it is read is told by events.
        batch = self._region.latest_events()
        earlier, lost = earlier + batch.events, lost + batch.lost
        missed = missed or batch.lost + batch.skipped > 0
        for _ in range(ATTEMPTS):
            table = self._region.live()
            batch = self._region.new_events()
            lost += batch.lost
            if not batch.lost:
                break
            earlier, missed = batch.events, True
        self._rebuild = batch.lost > 0
        return _Read(table, earlier, batch, lost, missed)

    def _new_devices(
        self, devices: list[DeviceDeclaration | None]
    ) -> tuple[DeviceDeclaration, ...]:
        """A device that is opened again may have other sizes: then it is declared again."""
        found = {
            one.logical_id: one
            for one in devices
            if one is not None and self._declared.get(one.logical_id) != one and is_plausible(one)
        }
        self._declared |= found
        return tuple(found.values())

    def _new_cores(self) -> dict[int, int]:
        masks = {number: core_mask(found) for number, found in self._region.new_cores().items()}
        return {number: mask for number, mask in masks.items() if mask is not None}

    def _messages(self) -> dict[int, str]:
        if self._region.failure_count() <= self._failures:
            return {}
        found = {one.time_ns: one.message for one in self._region.failures()}
        new = {time: text for time, text in found.items() if time not in self._told}
        self._told = set(found)
        self._failures += len(new)
        return new


def _programs(table: Iterable[LiveEntry]) -> Iterator[int]:
    """Their parts name them too: one may have found room where the other did not."""
    for thing in table:
        if thing.type is LiveType.PROGRAM:
            yield thing.id
        elif thing.program:
            yield thing.program


def _figures(
    counters: list[Counter], activity: Activity, features: dict[str, bool]
) -> ProbeCounters:
    kinds = [counters[kind] for kind in MemoryKind]
    demand = counters[Counted.CB_DEMAND].reserved + counters[Counted.DATAFLOW_DEMAND].reserved
    return ProbeCounters(
        kinds=tuple(
            KindCounter(one.requested, one.reserved, one.count, one.peak, one.peak_ns or 0)
            for one in kinds
        ),
        cb_demand=demand,
        cb_peak=counters[Counted.CB_DEMAND].peak + counters[Counted.DATAFLOW_DEMAND].peak,
        binaries=counters[Counted.KERNEL_BINARIES].reserved
        if features.get(BINARIES, True)
        else None,
        loads=activity.kernels_loaded,
        unloads=activity.kernels_unloaded,
        dispatches=activity.dispatches,
        cache_hits=activity.hits,
        cache_misses=activity.misses,
        cache_entries=activity.cache_entries if features.get(CACHE) else None,
    )


Rectangle = tuple[int, int, int, int]
# The first core of each of so many rows, and one more: times a row of cores it is a rectangle.
_ROWS = [sum(1 << (y * GRID_LIMIT) for y in range(rows + 1)) for rows in range(GRID_LIMIT)]


def core_mask(rectangles: Iterable[Rectangle]) -> int | None:
    """None if there is no such set of cores."""
    mask = 0
    for x0, y0, x1, y1 in rectangles:
        if not (x0 <= x1 < GRID_LIMIT and y0 <= y1 < GRID_LIMIT):
            return None
        row = (1 << (x1 - x0 + 1)) - 1
        mask |= row * _ROWS[y1 - y0] << (y0 * GRID_LIMIT + x0)
    return mask or None


def is_plausible(declaration: DeviceDeclaration) -> bool:
    """Would it be taken from a client?"""
    try:
        DeviceDeclaration.from_json(declaration.to_json())
    except ValueError:
        return False
    return True
