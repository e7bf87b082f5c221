"""One region, followed: every look tells what is new, and reads the live table where something was missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.events.probe_news import KindCounter, ProbeCounters, ProbeNews
from ttmem.probe.layout import Counted, LiveType, State
from ttmem.process_identity import ProcessFacts, process_facts, user_name
from ttmem.sources.probe_region import Activity, Counter, LiveThing, ProbeRegion
from ttmem.sources.probes.core_masks import core_mask
from ttmem.sources.probes.live_events import live_events
from ttmem.sources.probes.plausible import is_plausible

BINARIES, CACHE = "kernel binaries", "program cache"  # as the library names the features
ATTEMPTS = 3  # at reading the live table while the ring overtakes the reader


class Follower:
    """Reads a region from its first event on, or from what is alive, if the first ones are gone."""

    def __init__(self, path: str) -> None:
        self._region = ProbeRegion(path)
        self.path = path
        self.created_ns = self._region.created_ns
        self.user = user_name(self._region.uid)
        # Whoever has the pid of a dead process is somebody else.
        self.facts: ProcessFacts = (
            process_facts(self._region.pid)
            if self.alive()
            else ProcessFacts(self._region.pid, None, self.user, None)
        )
        self._declared: dict[int, DeviceDeclaration] = {}
        self._told: set[int] = set()
        self._rebuild = False

    def close(self) -> None:
        """Done with it."""
        self._region.close()

    def alive(self) -> bool:
        """Is its process?"""
        return self._region.process_alive()

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

    def forgotten(self) -> int:
        """Of those the ones that had to give their place in the table to others."""
        return self._region.losses().forgotten

    def rebuild(self) -> None:
        """The next look reads the live table, whatever the ring says."""
        self._rebuild = True

    def look(self, ended: bool = False) -> ProbeNews:
        """What is new; BadRegion if the file is none any more. `ended`: its process is gone."""
        header = self._region.header()
        # Before the ring: whatever is in these figures has its event before the end of the ring.
        activity = self._region.activity()
        batch = self._region.new_events()
        table, earlier, events, lost = None, b"", batch.events, batch.lost
        if lost or self._rebuild:
            table, earlier, events, more = self._read_live(batch.events)
            lost += more
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
            earlier=earlier,
            live=None if table is None else live_events(table),
            live_programs=frozenset(_programs(table or ())),
            table_full=table is not None and losses.live_without_room > 0,
            events=events,
            missed=lost > 0,
            lost=lost,
            unlisted=losses.live_uncounted,
            tracking=header.tracking,
            unseen=losses.unseen,
            missing=tuple(name for name, found in features.items() if not found),
            counters={
                device.logical_id: _figures(row, done, features)
                for device, row, done in zip(devices, counters, activity, strict=False)
                if device is not None
            },
            ended=ended,
        )

    def _read_live(self, earlier: bytes) -> tuple[list[LiveThing], bytes, bytes, int]:
        """(the table, events from before, events since, lost): what happens meanwhile is told by events."""
        lost = 0
        for _ in range(ATTEMPTS):
            table = self._region.live()
            batch = self._region.new_events()
            lost += batch.lost
            if not batch.lost:
                break
            earlier = batch.events
        self._rebuild = batch.lost > 0
        return table, earlier, batch.events, lost

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
        if not self._region.failure_count() > len(self._told):
            return {}
        found = {one.time_ns: one.message for one in self._region.failures()}
        new = {time: text for time, text in found.items() if time not in self._told}
        self._told.update(new)
        return new


def _programs(table: Iterable[LiveThing]) -> Iterator[int]:
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
