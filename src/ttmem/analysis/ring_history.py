"""What was alive at an earlier moment: the live table of now, with the events since then undone.

A program that catches an exception, or dies of it, frees most of what it held on the way: the table of now says little
about the moment at which an allocation failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.events.kinds import Op
from ttmem.events.record import EVENT, Event, Flag
from ttmem.probe.layout import SIDE, LiveType, Notice
from ttmem.sources.probe_region import Batch, LiveThing


class Block(NamedTuple):
    """A buffer on one chip, with the region's numbers for texts."""

    id: int
    chip: int
    kind: int
    held: int
    address: int
    name: int
    site: int
    phase: int


class RingHistory:
    """The events that the ring still has, and the state after them."""

    def __init__(self, live: Iterable[LiveThing], batch: Batch) -> None:
        """`live` is read first: what changes between the two readings is in the ring, and is undone with the rest."""
        self._now = {(block.id, block.chip): block for block in _blocks(live)}
        self._events = [Event._make(values) for values in EVENT.iter_unpack(batch.events)]
        self._phases = {
            (event.id, event.device): phase
            for event, (phase, _, _) in zip(
                self._events, SIDE.iter_unpack(batch.sides), strict=True
            )
            if event.op == Op.ALLOC
        }
        self._sides = batch.sides

    def now(self) -> list[Block]:
        """What is alive."""
        return list(self._now.values())

    def at_failure(self, time_ns: int) -> tuple[list[Block], int]:
        """What was alive when an allocation failed, and the phase of the thread that asked for it."""
        place = next(
            (
                at
                for at in range(len(self._events) - 1, -1, -1)
                if self._events[at].op == Notice.ALLOCATION_FAILED
                and self._events[at].time == time_ns
            ),
            None,
        )
        if place is None:  # overwritten long ago
            return self.now(), 0
        alive = dict(self._now)
        for event in reversed(self._events[place + 1 :]):
            if event.op == Op.ALLOC:
                alive.pop((event.id, event.device), None)
            elif event.op == Op.FREE:
                alive[event.id, event.device] = self._freed(event)
        return list(alive.values()), SIDE.unpack_from(self._sides, place * SIDE.size)[0]

    def freed_with_device(self) -> list[Block]:
        """What nobody freed: it went when its device was closed."""
        return [
            self._freed(event)
            for event in self._events
            if event.op == Op.FREE and event.flags & Flag.WITH_DEVICE
        ]

    def _freed(self, event: Event) -> Block:
        """A FREE names who allocated; only the phase is that of the thread which freed it."""
        return Block(
            event.id,
            event.device,
            event.kind,
            event.extra or event.size,
            event.address,
            event.name,
            event.site,
            self._phases.get((event.id, event.device), 0),
        )


def _blocks(live: Iterable[LiveThing]) -> Iterable[Block]:
    for thing in live:
        if thing.type is LiveType.BUFFER:
            held = thing.reserved or thing.requested
            for chip in thing.chips:
                yield Block(
                    thing.id,
                    chip,
                    thing.kind,
                    held,
                    thing.address,
                    thing.name,
                    thing.site,
                    thing.phase,
                )
