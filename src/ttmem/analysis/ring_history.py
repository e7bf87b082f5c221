"""What was alive at an earlier moment: the live table of now, with the events since then undone.

A program that catches an exception, or dies of it, frees most of what it held on the way: the table of now says little
about the moment at which an allocation failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ttmem.events import Notice, Op
from ttmem.events.record import EVENT_SIZE, Event, Flag
from ttmem.probe.layout import SIDE, LiveType
from ttmem.sources.probe.ring import Batch
from ttmem.sources.probe.tables import LiveEntry


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

    def __init__(self, live: Iterable[LiveEntry], batch: Batch) -> None:
        """`live` is read first: what changes between the two readings is in the ring, and is undone with the rest."""
        self._now = {(block.id, block.chip): block for block in _blocks(live)}
        self._batch = batch
        self._ops = batch.events[
            ::EVENT_SIZE
        ]  # the first byte of each: most events need not be decoded

    def now(self) -> list[Block]:
        """What is alive."""
        return list(self._now.values())

    def at_failure(self, time_ns: int) -> tuple[list[Block], int] | None:
        """What was alive when an allocation failed, and the phase of the thread that asked for it.

        None: the ring has lost that moment.
        """
        failed = [
            at for at in self._places(Notice.ALLOCATION_FAILED) if self._event(at).time == time_ns
        ]
        if not failed:
            return None
        alive = dict(self._now)
        for at in range(len(self._ops) - 1, failed[-1], -1):
            if self._ops[at] in (Op.ALLOC, Op.FREE):
                event = self._event(at)
                if event.op == Op.FREE:
                    alive[event.id, event.device] = self._freed(event)
                else:
                    alive.pop((event.id, event.device), None)
        return list(alive.values()), self._phase(failed[-1])

    def never_freed(self, gone: Iterable[LiveEntry]) -> list[Block]:
        """What is alive or went with its device: `gone` of the table, and what the ring has beside it."""
        frees = map(self._event, self._places(Op.FREE))
        closed = [self._freed(event) for event in frees if event.flags & Flag.WITH_DEVICE]
        # Of some there was no room in the table.
        known = {(one.id, one.chip): one for one in closed}
        known |= {(one.id, one.chip): one for one in _blocks(gone)}
        return [*known.values(), *self.now()]

    def _places(self, op: int) -> Iterator[int]:
        at = self._ops.find(op)
        while at >= 0:
            yield at
            at = self._ops.find(op, at + 1)

    def _event(self, at: int) -> Event:
        return Event.unpack(self._batch.events, at * EVENT_SIZE)

    def _phase(self, at: int) -> int:
        return int(SIDE.unpack_from(self._batch.sides, at * SIDE.size)[0])

    @cached_property
    def _phases(self) -> dict[tuple[int, int], int]:
        """In which phase buffers were made; ids are not used again."""
        made = ((self._event(at), at) for at in self._places(Op.ALLOC))
        return {(event.id, event.device): self._phase(at) for event, at in made}

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


def _blocks(live: Iterable[LiveEntry]) -> Iterable[Block]:
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
