"""One look at a region: its numbers become texts, and its tables a picture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ttmem.analysis.explanation import Explanation, explain
from ttmem.analysis.process_picture import (
    DeviceUse,
    FailedAllocation,
    HighWater,
    Holding,
    Origin,
    ProcessPicture,
    Refusal,
)
from ttmem.analysis.ring_history import Block, RingHistory
from ttmem.events import MemoryKind, runtime_messages
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.layout import Counted, Option, State
from ttmem.sizes import several
from ttmem.sources.probe.region import Losses, ProbeRegion
from ttmem.sources.probe.tables import Activity, Counter, Failure

USER_SIZED = (
    MemoryKind.L1_SMALL,
    MemoryKind.TRACE,
)  # unused, they are told too: a region may be too large
MOST_OF_OWN, MOST_OF_OTHERS = 128 << 20, 8 << 20  # bytes of events that are looked through
_COUNTED = (*MemoryKind, *Counted)  # in the order of the counters


class RegionReading:
    """Takes the whole ring, so the region must be one that nobody has read from."""

    def __init__(self, region: ProbeRegion) -> None:
        self._region = region
        most = MOST_OF_OWN if region.uid == os.geteuid() else MOST_OF_OTHERS
        self._history = RingHistory(region.live(), region.latest_events(most))
        self._texts = region.new_strings()
        self._sought = bool(region.header().options & Option.CALL_SITES)

    def picture(self) -> ProcessPicture:
        """What the process did so far."""
        region = self._region
        return ProcessPicture(
            pid=region.pid,
            running=region.process_alive(),
            in_order=region.header().state is State.ENDED,
            devices=tuple(self._devices()),
            never_freed=self._told(self._history.never_freed(region.gone_with_device())),
            failures=region.failure_count(),
            losses=tuple(_in_words(region.losses())),
        )

    def failures(self, since_ns: int) -> list[tuple[int, FailedAllocation]]:
        """Those after an instant, oldest first, each with its own instant."""
        return [
            (failure.time_ns, self._failed(failure))
            for failure in self._region.failures()
            if failure.time_ns > since_ns
        ]

    def explained(self, failure: FailedAllocation) -> Explanation:
        """Why it failed, by the first of its devices."""
        return explain(failure, self._declaration(failure.chips[0]) if failure.chips else None)

    def _declaration(self, chip: int) -> DeviceDeclaration | None:
        """What the runtime said of one of its devices."""
        declared = (one for one in self._region.devices() if one is not None)
        return next((one for one in declared if one.logical_id == chip), None)

    def _devices(self) -> Iterator[DeviceUse]:
        region = self._region
        for declared, counters, activity in zip(
            region.devices(), region.counters(), region.activity(), strict=False
        ):
            if declared is not None:
                marks = (
                    HighWater(
                        kind,
                        one.peak,
                        self._origin(one.peak_name, one.peak_site),
                        _size_at_peak(one, activity),
                    )
                    for kind, one in zip(_COUNTED, counters, strict=True)
                    if one.peak or kind in USER_SIZED
                )
                refusals = tuple(self._refusals(declared.logical_id))
                yield DeviceUse(declared, tuple(marks), refusals)

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
            self._told(alive),
            of_that_moment=then is not None,
        )

    def _told(self, blocks: Iterable[Block]) -> tuple[Holding, ...]:
        """One holding for all chips of a buffer."""
        chips: dict[Block, list[int]] = {}
        for block in blocks:
            chips.setdefault(block._replace(chip=0), []).append(block.chip)
        return tuple(
            Holding(
                one.kind,
                tuple(sorted(where)),
                one.held,
                one.address,
                self._origin(one.name, one.site, one.phase),
            )
            for one, where in chips.items()
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
    if said and said.bank_size is not None and said.free is not None:
        yield Refusal(failure.kind, said.bank_size - said.free + said.needed, said.bank_size)
    elif runtime_messages.is_out_of_memory(failure.message):
        yield Refusal(failure.kind)


def _in_words(losses: Losses) -> Iterator[str]:
    if losses.live_without_room:
        yield (
            f"no room in the list of what is alive for {losses.live_without_room:,} of the buffers, circular buffers, "
            "programs and kernels: sums are right, lists are not (--live makes more room)"
        )
    if losses.given_up:
        were = several(losses.given_up, "event was", "events were")
        yield f"{were} lost: sums are right, lists may miss something"
    if losses.strings_without_room:
        yield f"no room for the text of {several(losses.strings_without_room, 'op or line', 'ops or lines')}"
    if losses.tables_without_room:
        some = several(losses.tables_without_room, "device or core set", "devices or core sets")
        yield f"no room for {some}"
    if losses.forgotten:
        yield (
            f"{several(losses.forgotten, 'buffer')} never freed had to make room in the list of what is alive: "
            "not told here (--live makes more room)"
        )
    if losses.unseen:
        buffers = several(losses.unseen, "buffer was", "buffers were")
        yield f"{buffers} allocated while tracking was off, in no figure"
    elif losses.unpaired_frees:
        buffers = several(losses.unpaired_frees, "buffer was", "buffers were")
        yield f"{buffers} freed, but never seen being made: before a fork"
