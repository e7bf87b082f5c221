"""What the Overview says of one device, in pieces that fit into lines, blocks and cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ttmem.snapshots import Device
from ttmem.views.ages import age
from ttmem.views.ink import Line, Span, faint, ink, pad
from ttmem.views.monitor import facts
from ttmem.views.monitor.amounts import Pair, Pairs, amount, of_limit
from ttmem.views.monitor.kinds import CB, DRAM, L1, L1_SMALL, L1_USED, Kind
from ttmem.views.monitor.page import Look
from ttmem.views.monitor.samples import SECOND, TimeColumns, first_needed
from ttmem.views.monitor.sparkline import sparkline
from ttmem.views.monitor.stacked_bar import stacked_meter


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """One device of a picture."""

    look: Look
    device: Device
    room: int = 0  # columns that each amount keeps, so that what follows stays where it is

    @property
    def dram(self) -> Pair:
        """DRAM used, capacity."""
        return self.device.memory.dram.held, self.device.memory.dram.capacity

    @property
    def l1(self) -> Pair:
        """L1 used, capacity."""
        return self.device.l1_used, self.device.l1_capacity

    def dram_meter(self, room: int, alone: bool = False) -> Line:
        """Bar and percentage; `alone`: no capacity stands beside it, so it says if there is none."""
        dram, ascii = self.device.memory.dram, self.look.ascii
        part = (dram.held, DRAM.bar_sign(ascii), DRAM.style)
        if alone and dram.capacity is None:
            return faint("N/A".rjust(room))
        return stacked_meter((part,), dram.capacity, room, ascii)

    def l1_meter(self, room: int, alone: bool = False) -> Line:
        """Bar in three parts, and percentage."""
        ascii = self.look.ascii
        if alone and self.device.l1_capacity is None:
            return faint("N/A".rjust(room))
        parts = tuple((held, kind.bar_sign(ascii), kind.style) for kind, held in self._l1_parts)
        return stacked_meter(parts, self.device.l1_capacity, room, ascii)

    def legend(self) -> list[Line]:
        """What the three parts of the bar are, with their amounts."""
        return [
            (
                *ink(kind.bar_sign(self.look.ascii), kind.style),
                Span(" "),
                *self._amount(kind.title, held),
            )
            for kind, held in self._l1_parts
        ]

    def circular(self) -> Line:
        """'N/A / 29.8 MiB / 158.0 MiB': resident, cached, demand."""
        cb, units = self.device.memory.cb, self.look.state.units
        three = (amount(units, one) for one in (cb.resident, cb.cached, cb.demand))
        return _slashed([pad(one, self.room, right=True) for one in three])

    def circular_facts(self) -> list[Line]:
        """The same, each with its name."""
        cb = self.device.memory.cb
        named = (("CB resident", cb.resident), ("cached", cb.cached), ("demand", cb.demand))
        return [self._amount(label, count) for label, count in named]

    def ring_fact(self) -> Line:
        """'ring 2.0 MiB / 4.3 MiB'."""
        return pad((*faint("ring "), *self.ring()), len("ring  / ") + 2 * self.room)

    def ring_lines(self) -> list[Line]:
        """The same in two short lines."""
        ring, units = self.device.kernels.ring, self.look.state.units
        occupied = pad(amount(units, ring.occupied), self.room, right=True)
        capacity = pad(amount(units, ring.capacity), self.room, right=True)
        return [(*faint("ring "), *occupied), (*faint("  of "), *capacity)]

    def ring(self) -> Line:
        """The kernel-config ring: occupied / capacity."""
        ring = self.device.kernels.ring
        return of_limit(self.look.state.units, ring.occupied, ring.capacity)

    def dram_room(self) -> list[Line]:
        """Free DRAM and its largest block."""
        dram = self.device.memory.dram
        return [self._amount("free", dram.free), self._amount("largest", dram.largest_free)]

    def l1_room(self) -> list[Line]:
        """The same of L1 for buffers, whose allocator does not know of circular buffers: no room beside them."""
        l1 = self.device.memory.l1
        free = self._amount("if no CBs: free", l1.free)
        return [free, self._amount("largest", l1.largest_free)]

    def trace(self) -> Line:
        """'TRACE 22.5 MiB / 64.0 MiB'."""
        trace = self.device.memory.trace
        pair = Pairs(self.look.state.units, limit=self.room).line(trace.held, trace.capacity)
        return pad((*faint("TRACE "), *pair), len("TRACE  / ") + 2 * self.room)

    @property
    def has_trace(self) -> bool:
        """Is there a trace, or a region for it?"""
        trace = self.device.memory.trace
        return bool(trace.held or trace.capacity)

    def dram_past(self, room: int) -> Line:
        """Sparkline of DRAM."""
        return self._past(DRAM, self.device.memory.dram.capacity, room)

    def l1_past(self, room: int) -> Line:
        """Sparkline of L1 used."""
        return self._past(L1_USED, self.device.l1_capacity, room)

    def _past(self, kind: Kind, capacity: int | None, room: int) -> Line:
        series = self.look.history.get(self.device.unique_id, {})
        times, values = series.get("time_ns", ()), series.get(kind.series, ())
        # There is one sample a second: within a second, the past stays as it is.
        end_ns = self.look.snapshot.time_ns // SECOND * SECOND + SECOND - 1
        first = first_needed(times, end_ns, self.look.state.span)
        text = _sparkline(
            tuple(times[first:]),
            tuple(values[first:]),
            end_ns,
            self.look.state.span,
            room,
            capacity,
            self.look.ascii,
        )
        return (Span(text, kind.style),)

    @property
    def _l1_parts(self) -> tuple[tuple[Kind, int], ...]:
        memory = self.device.memory
        return (L1, memory.l1.held), (L1_SMALL, memory.l1_small.held), (CB, memory.cb.used)

    def _amount(self, label: str, count: int | None) -> Line:
        return pad(facts.amount(label, count, self.look), len(label) + 1 + self.room)


@lru_cache(1 << 10)
def _sparkline(
    times: tuple[int, ...],
    values: tuple[int, ...],
    end_ns: int,
    seconds: int,
    room: int,
    capacity: int | None,
    ascii: bool,
) -> str:
    highest = TimeColumns.of({"time_ns": times}, end_ns, seconds, room).highest(values)
    top = max((value for value in highest if value), default=0) if capacity is None else capacity
    return sparkline(highest, top, ascii)


def span_text(look: Look) -> str:
    """'5 min': how much of the past is shown."""
    return age(look.state.span * SECOND)


def _slashed(lines: list[Line]) -> Line:
    out: list[Span] = []
    for line in lines:
        out += [*(faint(" / ") if out else ()), *line]
    return tuple(out)
