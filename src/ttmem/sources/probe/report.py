"""The report of one watched process, read from its region.

A program that catches an exception, or dies of it, frees most of what it held on the way. What was alive when an
allocation failed is the live table with the events since then undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property

from ttmem.events import EVENT_SIZE, Event, MemoryKind, Notice, Op, runtime_messages
from ttmem.events.amounts import USER_SIZED
from ttmem.events.device import DeviceDeclaration
from ttmem.events.record import places
from ttmem.probe.layout import SIDE, Counted, LiveType, Option
from ttmem.probe.report import (
    DeviceReport,
    FailedAllocation,
    HighWater,
    Holding,
    Origin,
    ProcessReport,
    Refusal,
    WantedBuffer,
    wanted_buffers,
)
from ttmem.sizes import several
from ttmem.sources.probe.reader import as_event
from ttmem.sources.probe.region import ProbeRegion, RingLosses
from ttmem.sources.probe.ring import RingBatch, closed_with_device
from ttmem.sources.probe.tables import Activity, Counter, Failure, LiveEntry

MOST_OF_OWN, MOST_OF_OTHERS = 128 << 20, 8 << 20  # bytes of events that are searched
_COUNTED = (*MemoryKind, *Counted)  # in the order of the counters


class ReportReader:
    """Reads the whole ring, so no events of `region` may have been read before."""

    def __init__(self, region: ProbeRegion) -> None:
        self._region = region
        most = MOST_OF_OWN if region.uid == os.geteuid() else MOST_OF_OTHERS
        before = region.latest_events(most)
        live = region.live()
        self._history = RingHistory(before, live, region.new_events())
        self._texts = region.new_strings()
        self._sought = bool(region.header().options & Option.CALL_SITES)

    def report(self) -> ProcessReport:
        region = self._region
        return ProcessReport(
            pid=region.pid,
            running=region.process_alive(),
            in_order=region.in_order(),
            devices=tuple(self._devices()),
            never_freed=self._holdings(self._history.never_freed(region.gone_with_device())),
            failures=region.failure_count(),
            losses=tuple(_in_words(region.losses())),
        )

    def failures(self, since_ns: int) -> list[FailedAllocation]:
        """Those after that time, oldest first."""
        found = self._region.failures()
        return [self._failed(failure) for failure in found if failure.time_ns > since_ns]

    def _declaration(self, chip: int) -> DeviceDeclaration | None:
        declared = (device for device in self._region.devices() if device is not None)
        return next((device for device in declared if device.logical_id == chip), None)

    def _devices(self) -> Iterator[DeviceReport]:
        region = self._region
        for declared, counters, activity in zip(
            region.devices(), region.counters(), region.activity(), strict=False
        ):
            if declared is not None:
                marks = (
                    HighWater(
                        kind,
                        counter.peak,
                        self._origin(counter.peak_name, counter.peak_site),
                        _size_at_peak(counter, activity),
                    )
                    for kind, counter in zip(_COUNTED, counters, strict=True)
                    if counter.peak or kind in USER_SIZED
                )
                refusals = tuple(self._refusals(declared.logical_id))
                yield DeviceReport(declared, tuple(marks), refusals)

    def _refusals(self, chip: int) -> Iterator[Refusal]:
        failures = self._region.failures()
        for failure in failures:
            if failure.what == "buffer" and chip in failure.chips and failure.kind in USER_SIZED:
                yield from _refusal(failure)
        if self._region.failure_count() > len(failures):  # of the first ones nobody knows the kind
            yield from map(Refusal, USER_SIZED)

    def _failed(self, failure: Failure) -> FailedAllocation:
        then = self._history.at_failure(failure.time_ns)
        alive, phase = then or (self._history.now(), 0)
        return FailedAllocation(
            failure.what,
            failure.kind,
            failure.chips,
            failure.requested,
            failure.message,
            self._origin(failure.name, failure.site, phase),
            self._holdings(alive),
            of_that_moment=then is not None,
            device=self._declaration(failure.chips[0]) if failure.chips else None,
            time_ns=failure.time_ns,
            pid=self._region.pid,
            wanted=self._wanted(failure),
        )

    def _wanted(self, failure: Failure) -> tuple[WantedBuffer, ...]:
        chip = failure.chips[0] if failure.chips else None
        events = self._history.refused(failure.time_ns, failure.program)
        return wanted_buffers(event for event in events if event.device == chip)

    def _holdings(self, buffers: Iterable[Event]) -> tuple[Holding, ...]:
        """One holding for all chips of a buffer."""
        chips: dict[Event, list[int]] = {}
        for buffer in buffers:
            chips.setdefault(buffer._replace(device=0), []).append(buffer.device)
        return tuple(
            Holding(
                buffer.kind,
                tuple(sorted(where)),
                buffer.extra,
                buffer.address,
                self._origin(buffer.name, buffer.site, buffer.cores),
                buffer.size,
            )
            for buffer, where in chips.items()
        )

    def _origin(self, name: int, site: int, phase: int = 0) -> Origin:
        texts = self._texts
        return Origin(texts.get(name), texts.get(site), texts.get(phase), self._sought)


def _size_at_peak(counter: Counter, activity: Activity) -> int | None:
    """A device that was opened once has one size; else only the probe knows which it was."""
    if not counter.peak:
        return None
    return counter.peak_capacity or (0 if activity.opened > 1 else None)


def _refusal(failure: Failure) -> Iterator[Refusal]:
    said = runtime_messages.bank_figures(failure.message)
    if said and said.least_bank_size is not None:
        yield Refusal(failure.kind, said.least_bank_size, said.bank_size)
    elif runtime_messages.is_out_of_memory(failure.message):
        yield Refusal(failure.kind)


def _in_words(losses: RingLosses) -> Iterator[str]:
    if losses.live_not_listed:
        yield (
            f"no space in the list of live entries for {losses.live_not_listed:,} of the buffers, circular buffers, "
            "programs and kernels: sums are right, lists are not (--live enlarges them)"
        )
    if losses.given_up:
        were = several(losses.given_up, "event was", "events were")
        yield f"{were} lost: sums are right, lists may miss something"
    if losses.strings_dropped:
        yield f"no space for the text of {several(losses.strings_dropped, 'op or line', 'ops or lines')}"
    if losses.tables_dropped:
        some = several(losses.tables_dropped, "device or core set", "devices or core sets")
        yield f"no space for {some}"
    if losses.forgotten:
        yield (
            f"{several(losses.forgotten, 'buffer')} never freed had to be dropped from the list of live entries: "
            "not listed here (--live enlarges it)"
        )
    buffers = several(losses.unseen or losses.unpaired_frees, "buffer was", "buffers were")
    if losses.unseen:
        yield f"{buffers} allocated while tracking was off, not counted"
    elif losses.unpaired_frees:
        yield f"{buffers} freed whose allocation was not seen: it was before a fork"


class RingHistory:
    """The events that the ring still has, and the state after them."""

    def __init__(self, before: RingBatch, live: Iterable[LiveEntry], after: RingBatch) -> None:
        """`live` was read between the two batches, so the table may lack some changes of the second one."""
        # If events between them were lost, what came before cannot be reached from here.
        first = RingBatch(b"", b"", 0) if after.lost else before
        self._events, self._sides = first.events + after.events, first.sides + after.sides
        self._ops = self._events[::EVENT_SIZE]  # most events need not be decoded
        self._now = {_key(buffer): buffer for buffer in _buffers(live)}
        for at in range(len(first.events) // EVENT_SIZE, len(self._ops)):
            if self._ops[at] == Op.ALLOC:
                event = self._event(at)
                self._now.setdefault(_key(event), self._buffer(event))
            elif self._ops[at] == Op.FREE:
                self._now.pop(_key(self._event(at)), None)

    def now(self) -> list[Event]:
        """What is alive."""
        return list(self._now.values())

    def at_failure(self, time_ns: int) -> tuple[list[Event], int] | None:
        """What was alive when an allocation failed, and the phase of the thread that asked for it.

        None: the ring has lost that moment.
        """
        failed = [
            at
            for at in places(self._events, Notice.ALLOCATION_FAILED)
            if self._event(at).time == time_ns
        ]
        if not failed:
            return None
        alive = dict(self._now)
        for at in range(len(self._ops) - 1, failed[-1], -1):
            if self._ops[at] in (Op.ALLOC, Op.FREE):
                event = self._event(at)
                if event.op == Op.FREE:
                    alive[_key(event)] = self._buffer(event)
                else:
                    alive.pop(_key(event), None)
        return list(alive.values()), self._phase(failed[-1])

    def refused(self, time_ns: int, program: int | None) -> list[Event]:
        """The circular buffers that a program wanted when it failed."""
        found = map(self._event, places(self._events, Notice.CB_REFUSED))
        return [event for event in found if event.time == time_ns and event.extra == program]

    def never_freed(self, gone: Iterable[LiveEntry]) -> list[Event]:
        """What is alive or went with its device: `gone` of the table, and what the ring has beside it."""
        closed = closed_with_device(self._events)  # some did not fit into the table
        known = {key: self._buffer(event) for key, event in closed.items()}
        known |= {_key(buffer): buffer for buffer in _buffers(gone)}
        return [*known.values(), *self.now()]

    def _event(self, at: int) -> Event:
        return Event.unpack(self._events, at * EVENT_SIZE)

    def _phase(self, at: int) -> int:
        return int(SIDE.unpack_from(self._sides, at * SIDE.size)[0])

    @cached_property
    def _phases(self) -> dict[tuple[int, int], int]:
        """In which phase buffers were made; ids are not used again."""
        made = ((self._event(at), at) for at in places(self._events, Op.ALLOC))
        return {_key(event): self._phase(at) for event, at in made}

    def _buffer(self, event: Event) -> Event:
        """A FREE also names who allocated; only the phase is that of the thread which freed it."""
        return _plain(event, self._phases.get(_key(event), 0))


def _key(event: Event) -> tuple[int, int]:
    return event.id, event.device


def _plain(event: Event, phase: int) -> Event:
    """As an ALLOC, without what differs between the chips of a mesh. `extra` is what it holds."""
    held = event.extra or event.size
    return event._replace(op=Op.ALLOC, flags=0, time=0, number=0, extra=held, cores=phase)


def _buffers(live: Iterable[LiveEntry]) -> Iterator[Event]:
    for entry in live:
        if entry.type is LiveType.BUFFER:
            found = _plain(as_event(entry), entry.phase)
            yield from (found._replace(device=chip) for chip in entry.chips)
