"""All devices of the host, and who holds their memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ttmem.snapshots import Device
from ttmem.text import ELLIPSIS
from ttmem.views.device_lines import device_cells, device_lines
from ttmem.views.devices import MANY, ClickArea, DeviceArea, Sheet, device_blocks, dram_use, l1_use
from ttmem.views.figures import DRAM, L1, Kind, Pair, Units, of_limit, stacked_meter
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    clip_line,
    faint,
    flow,
    ink,
    line_columns,
)
from ttmem.views.meter import PERCENT, is_over
from ttmem.views.monitor.chart import SECOND, TimeColumns, first_needed, sparkline
from ttmem.views.monitor.pages.rows import fact_lines, process_listing, process_totals, sentence
from ttmem.views.monitor.state import Drawn, Look, MonitorState, Page, Target, terms
from ttmem.views.names import age, used_devices
from ttmem.views.notes import anomaly_notes, missing_notes, note_lines, remark_notes
from ttmem.views.processes import ProcessRow, legend, process_rows
from ttmem.views.selection import is_empty, no_device, no_process

BARS = (16, 8, 0)


def totals_line(devices: Sequence[Device], units: Units, width: int, ascii: bool) -> Line:
    """'HOST 4 devices  DRAM 18.0 GiB / 48.0 GiB ███··  38%  L1 ...', with bars if they fit."""
    count = "1 device" if len(devices) == 1 else f"{len(devices):,} devices"
    title = (*ink("HOST ", Style.TITLE), *ink(count))
    over = sum(_is_over(one) for one in devices)
    alarm = [ink(f"{over:,} over capacity", Style.ALARM)] if over else []
    pairs = ((DRAM, _sum(map(dram_use, devices))), (L1, _sum(map(l1_use, devices))))
    for bar in BARS:
        sums = [_figure(kind, pair, units, bar, ascii) for kind, pair in pairs]
        for facts in ([title, *alarm, *sums], [*alarm, *sums])[: 1 if bar else 2]:
            lines = flow(facts, width)
            if len(lines) == 1:
                return lines[0]
    return clip_line(tuple(span for line in lines for span in (*line, Span("  "))), width)


def _figure(kind: Kind, pair: Pair, units: Units, bar: int, ascii: bool) -> Line:
    used, capacity = pair[0] or 0, pair[1]
    line = (*faint(f"{kind.title} "), *of_limit(units, used, capacity))
    if capacity is None:
        return line
    space = bar + 1 + PERCENT if bar else PERCENT
    part = (used, kind.bar_sign(ascii), kind.style)
    return (*line, Span(" "), *stacked_meter((part,), capacity, space, ascii))


def _sum(pairs: Iterable[Pair]) -> Pair:
    """Used, and the capacity if that of each device is known."""
    used, limits = zip(*pairs, strict=True)
    return sum(used), None if None in limits else sum(limits)


def _is_over(device: Device) -> bool:
    return is_over(*dram_use(device)) or is_over(*l1_use(device))


LOW = 10  # lines; below that only devices and processes fit
AIRY = 30  # lines; from that on, empty lines stand between the parts
LEAST_TABLE = 8  # lines that processes keep, if they need them, when devices have one line each
SHARE = 0.55  # of the height, that devices with two lines each may take


class OverviewLayout(NamedTuple):
    """The parts of the page from top to bottom; the table of processes has the rest."""

    top: list[Line]
    devices: DeviceArea
    between: list[Line]
    table: int  # lines for the table of processes
    below: list[Line]

    @classmethod
    def of(cls, look: Look, rows: Sequence[ProcessRow], chosen: int | None) -> OverviewLayout:
        """`chosen`: index of the device under the cursor, if it is on one."""
        layout = cls._with_alarm(look, rows, chosen, 1)
        spare = layout.table - len(rows) - 2
        return cls._with_alarm(look, rows, chosen, 1 + spare) if spare > 0 else layout

    @classmethod
    def _with_alarm(
        cls, look: Look, rows: Sequence[ProcessRow], chosen: int | None, alarm: int
    ) -> OverviewLayout:
        low = look.height < LOW
        gap = [EMPTY] if look.height >= AIRY else []
        devices, units = look.snapshot.devices, look.state.units
        several = len(devices) > 1 and not low
        top = [totals_line(devices, units, look.width, look.ascii)] if several else []
        top += _alarm_lines(look, alarm) if look.height > 5 else []
        top += gap if top else []
        between = [] if low else [*gap, process_totals(rows, look)]
        below = [] if low else fact_lines(legend(rows), look, 1)
        free = look.height - len(top) - len(between) - len(below)
        area = _devices(look, free, len(rows) + 1, chosen)
        table = max(free - len(area.lines), 0)
        return cls(top, area, between, table, below)


def _alarm_lines(look: Look, most: int) -> list[Line]:
    """The worst that is wrong in at most so many lines, and where to read the rest."""
    snapshot, width = look.snapshot, look.width
    notes = [
        *anomaly_notes(snapshot, look.names),
        *remark_notes(snapshot)[1:],  # the first one is above every page
        *missing_notes(snapshot, look.names),
    ]
    if not notes:
        return []
    lines = note_lines(notes, width)
    if len(lines) <= most:
        return lines
    left = len(notes) - 1
    more = faint(f"  and {left:,} more (6)" if left else "  (6 shows all)")
    whole = notes[0].lines(width - line_columns(more))[:most]
    if len(notes[0].lines(width - line_columns(more))) > most:
        whole[-1] = clip_line((*whole[-1], *ink(ELLIPSIS)), width - line_columns(more))
    return [*whole[:-1], clip_line((*whole[-1], *more), width)]


def _devices(look: Look, free: int, wanted: int, chosen: int | None) -> DeviceArea:
    """Two lines for each device, one line, or a cell: the largest form that leaves `wanted` lines for processes."""
    devices = look.snapshot.devices
    if not devices:
        lines = sentence(no_device(look.snapshot), look, Style.FAINT)
        return DeviceArea([clip_line(line, look.width) for line in lines[: max(free - 1, 1)]])
    span = look.span
    last = f"last {age(span * SECOND)}"
    units, trend = look.state.units, partial(_trend, look, span)
    sheet = Sheet(devices, look.width, look.names, units, look.ascii, chosen, trend, last)
    two, one = 2 * len(devices) + 1, len(devices) + 1
    crowded = one + wanted > free  # not even one line for each device leaves all the processes
    area = None
    if len(devices) > MANY and not used_devices(look.snapshot) and all(map(is_empty, devices)):
        return device_cells(sheet, max(min(len(devices) // 4 + 1, free - 2), 1))
    if two + wanted <= free or (crowded and two <= int(free * SHARE)):
        area = device_blocks(sheet)
    if area is None and one <= free - min(wanted, LEAST_TABLE):
        area = device_lines(sheet)
    least = min(wanted, max(free // 3, 2))
    return area or device_cells(sheet, max(free - least, 1))


def _trend(look: Look, span: int, device: Device, kind: Kind, space: int) -> Line:
    series = look.history.get(device.unique_id, {})
    times, values = series.get("time_ns", ()), series.get(kind.series, ())
    # There is one sample a second: within a second, the trend stays as it is.
    end_ns = look.snapshot.time_ns // SECOND * SECOND + SECOND - 1
    first = first_needed(times, end_ns, span)
    _, capacity = dram_use(device) if kind is DRAM else l1_use(device)
    place = device.unique_id, kind.title, space
    drawn_from = end_ns, span, capacity, look.ascii, first, len(times), times[-1:], values[-1:]
    before, text = _drawn.get(place, (None, ""))
    if drawn_from != before:
        columns = TimeColumns.of({"time_ns": times[first:]}, end_ns, span, space)
        highest = columns.highest(values[first:])
        top = max(filter(None, highest), default=0) if capacity is None else capacity
        text = sparkline(highest, top, look.ascii)
        if len(_drawn) >= MOST_DRAWN:
            _drawn.clear()
        _drawn[place] = drawn_from, text
    return (Span(text, kind.style),)


MOST_DRAWN = 1 << 10
_drawn: dict[tuple[str, str, int], tuple[object, str]] = {}  # trends, which change once a second


HELP = terms("""
HOST | sums over the devices shown; a capacity only if that of each device is known
ID | the number that applications use; it changes with TT_VISIBLE_DEVICES
DEVICE | board and PCI address (the domain is left out if it is 0000), and the chip's unique id
DRAM used / capacity | allocated DRAM buffers / what can be allocated
L1 used / capacity | L1 + L1_SMALL + CB of all cores / what can be allocated; kernel code is not included. The Cores
    page shows the addresses in use on each core, which is less where processes share addresses
█ L1 | L1 buffers: reserved bytes where they are known, else requested bytes
▓ L1_SMALL | buffers of the small region
▒ CB | circular buffers: 'cached' where addresses are known, else 'demand'; the Device page shows all three measures
largest free | the largest free block, where the source reports it; a larger buffer cannot be allocated
without CBs | the allocator of L1 buffers does not know of circular buffers: they may lie inside this block
last 5 min | the highest value in each column, against the capacity; at most the time chosen with [ and ]
percentages | green below 75 %, yellow from 75 %, red from 90 %; '!' is more than the capacity
<1%  >99% | more than nothing; not quite all
PROCESSES | how many are alive, and the sum of what they have allocated
DRAM ... CB | per process over all its devices, measured as in the sums of the devices
AGE | since the process started; of a dead one, since it died
x | left behind: what a process had allocated when it died; not included in any sum
! | its client lost events, or has more buffers than it can resend
* | its connection is closed; its memory counts until it exits or reconnects
Enter | on a device: everything about it; on a process: its buffers
""")


DEVICES = "Overview devices"  # its cursor: 0 on the chosen device, 1 in the table of processes
ON_DEVICE, IN_TABLE = 0, 1


class OverviewPage(Page):
    """Devices above, processes below; one cursor goes through both."""

    name = "Overview"
    keys = (("arrows", "choose"), ("enter", "deeper"), ("s", "sort"))
    help = HELP

    def draw(self, look: Look) -> Drawn:
        at = _device(look)
        rows = process_rows(look.snapshot, look.names)
        layout = OverviewLayout.of(look, rows, at)
        above = [*layout.top, *layout.devices.lines, *layout.between]
        listing = process_listing(self.name, rows, look, no_process(look.snapshot))
        table = listing.draw(look.width, layout.table, len(above), look.ascii, lit=at is None)
        chosen = listing.chosen if at is None else None
        targets = [
            *(_device_target(place, look, len(layout.top), at) for place in layout.devices.places),
            *(_table_target(target, chosen) for target in table.targets),
        ]
        return Drawn([*above, *table.lines, *layout.below][: look.height], targets)

    def key(self, key: str, look: Look) -> str | None:
        """Arrows move the cursor, Enter goes to the device, or to the buffers of the process."""
        at = _device(look)
        rows = process_rows(look.snapshot, look.names)
        table = process_listing(self.name, rows, look, no_process(look.snapshot))
        if key == "enter" and at is not None:
            return _show_device(look.snapshot.devices[at].unique_id, look.state)
        if key == "enter":
            return _show_buffers(table.chosen.pid, look.state) if table.chosen else None
        layout = OverviewLayout.of(look, rows, at)
        if at is None or key in ("s", "S"):
            if key == "up" and look.state.of(self.name).cursor <= 0 and look.snapshot.devices:
                _choose(look.snapshot.devices[-1].unique_id, look.state)
            else:
                table.key(key, layout.table)
        else:
            _move(key, at, layout.devices.across, bool(table.rows), look)
        return None


def _device(look: Look) -> int | None:
    """The device under the cursor, which is the one that all pages show; None: it is in the table."""
    if look.device is None or look.state.of(DEVICES).cursor == IN_TABLE:
        return None
    return look.snapshot.devices.index(look.device)


def _move(key: str, at: int, across: int, has_rows: bool, look: Look) -> None:
    last = len(look.snapshot.devices) - 1
    steps = {"up": -across, "down": across, "left": -1, "right": 1}
    ends = {"home": 0, "pageup": 0, "end": last, "pagedown": last}
    wanted = ends[key] if key in ends else at + steps.get(key, 0)
    leaves = key == "pagedown" or (key == "down" and at // across == last // across)
    if leaves and has_rows:
        look.state.of(DEVICES).cursor = IN_TABLE
        look.state.of(OverviewPage.name).cursor = 0
    else:
        chosen = look.snapshot.devices[max(0, min(wanted, last))]
        _choose(chosen.unique_id, look.state)


def _show_device(unique_id: str, state: MonitorState) -> str:
    _choose(unique_id, state)
    return "Device"


def _show_buffers(pid: int, state: MonitorState) -> str:
    state.filter = str(pid)
    return "Buffers"


def _device_target(place: ClickArea, look: Look, top: int, chosen: int | None) -> Target:
    """A click on a device chooses it; on the chosen one it goes deeper."""
    unique_id = look.snapshot.devices[place.device].unique_id
    act = partial(_show_device if place.device == chosen else _choose, unique_id)
    return Target(top + place.line, act, place.start, place.stop)


def _choose(unique_id: str, state: MonitorState) -> None:
    state.device = unique_id
    state.of(DEVICES).cursor = ON_DEVICE


def _table_target(target: Target, chosen: ProcessRow | None) -> Target:
    """A title sorts; a row takes the cursor, and the row that has it goes deeper."""
    if target.stop is not None:
        return target
    return target._replace(act=partial(_click_row, target, chosen))


def _click_row(target: Target, chosen: ProcessRow | None, state: MonitorState) -> str | None:
    before = state.of(OverviewPage.name).cursor
    target.act(state)
    state.of(DEVICES).cursor = IN_TABLE
    same = chosen is not None and state.of(OverviewPage.name).cursor == before
    return _show_buffers(chosen.pid, state) if chosen is not None and same else None
