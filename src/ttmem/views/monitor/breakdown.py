"""One device kind by kind: capacity, requested, reserved, held, free, peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ttmem.snapshots import Device, MemoryUse
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.meter import level
from ttmem.views.moments import time_of_day
from ttmem.views.monitor.amounts import amount
from ttmem.views.monitor.kinds import CB, DRAM, L1, L1_SMALL, L1_USED, TRACE, Kind
from ttmem.views.monitor.list_columns import ListColumn, fit
from ttmem.views.monitor.list_lines import GUTTER, row_line
from ttmem.views.monitor.page import Look

GIVE_WAY = (L1_SMALL, TRACE, CB, L1)


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """A kind of memory. `only`: the figures that such a row has; the others stay blank."""

    kind: Kind
    use: MemoryUse
    only: frozenset[str] | None = None

    def has(self, name: str) -> bool:
        """Does the figure make sense for it?"""
        return self.only is None or name in self.only


def rows_of(device: Device) -> list[BreakdownRow]:
    """DRAM and its neighbour TRACE; the parts of L1, and their sum."""
    memory, cb = device.memory, device.memory.cb
    circular = MemoryUse(None, 0, None, cb.used, None, None, cb.count, 0, None)
    used = MemoryUse(
        device.l1_capacity,
        0,
        None,
        device.l1_used,
        None,
        None,
        None,
        device.l1_peak,
        device.l1_peak_time_ns,
    )
    return [
        BreakdownRow(DRAM, memory.dram),
        BreakdownRow(TRACE, memory.trace),
        BreakdownRow(L1, memory.l1),
        BreakdownRow(L1_SMALL, memory.l1_small),
        BreakdownRow(CB, circular, frozenset({"held", "count"})),
        BreakdownRow(L1_USED, used, frozenset({"held", "capacity", "peak", "peak_time_ns"})),
    ]


def breakdown(device: Device, look: Look, most: int) -> list[Line]:
    """A title line and one for each kind; where there is no room for all, DRAM and L1 used are the last to go."""
    rows = rows_of(device)
    for kind in GIVE_WAY:
        if len(rows) >= most:
            rows = [row for row in rows if row.kind != kind]
    fitted = fit(_columns(look), rows, look.width - GUTTER)
    columns = _columns(look)
    lines = [
        row_line(
            [(faint(columns[one.index].title), one.width, one.right) for one in fitted], look.width
        )
    ]
    for at in range(len(rows)):
        lines.append(
            row_line([(one.lines[at], one.width, one.right) for one in fitted], look.width)
        )
    return lines


def _columns(look: Look) -> list[ListColumn[BreakdownRow]]:
    return [
        ListColumn("KIND", _kind, width=8),
        _figure("HELD", "held", _held(look)),
        _figure("CAPACITY", "capacity", _amount(look, "capacity"), 1),
        _figure("REQUESTED", "requested", _amount(look, "requested"), 2),
        _figure("RESERVED", "reserved", _amount(look, "reserved"), 3),
        _figure("FREE", "free", _amount(look, "free"), 4),
        _figure("LARGEST", "largest_free", _amount(look, "largest_free"), 7),
        _figure("COUNT", "count", _count, 8),
        _figure("PEAK", "peak", _amount(look, "peak"), 5),
        _figure("AT", "peak_time_ns", _when(look), 6),
    ]


Cell = Callable[[BreakdownRow], Line]


def _figure(title: str, name: str, cell: Cell, rank: int = 0) -> ListColumn[BreakdownRow]:
    return ListColumn(
        title, lambda row: cell(row) if row.has(name) else ink(""), right=True, rank=rank
    )


def _kind(row: BreakdownRow) -> Line:
    return ink(row.kind.title, row.kind.style)


def _held(look: Look) -> Cell:
    def cell(row: BreakdownRow) -> Line:
        known = row.use.capacity is not None
        style = level(row.use.held, row.use.capacity) if known else Style.PLAIN
        return amount(look.state.units, row.use.held, style)

    return cell


def _amount(look: Look, name: str) -> Cell:
    return lambda row: amount(look.state.units, getattr(row.use, name))


def _count(row: BreakdownRow) -> Line:
    return faint("N/A") if row.use.count is None else ink(f"{row.use.count:,}")


def _when(look: Look) -> Cell:
    def cell(row: BreakdownRow) -> Line:
        when = row.use.peak_time_ns
        return faint("N/A" if when is None else time_of_day(when, look.zone))

    return cell
