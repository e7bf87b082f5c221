"""One device in depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from ttmem.snapshots import Device, Kernels, MemoryUse, Provenance
from ttmem.views.devices import cb_measure
from ttmem.views.figures import CB, DRAM, L1, L1_SMALL, L1_USED, TRACE, amount, counted, fact, known
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, indent, ink, pad, paragraph
from ttmem.views.meter import level
from ttmem.views.monitor.chart import SENSORS, Subject, panel, sensor_panel
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.pages.kernels import counter_facts, partial_lines, ring_facts, type_facts
from ttmem.views.monitor.pages.rows import (
    amount_fact,
    counter_fact,
    device_title,
    fact_lines,
    process_listing,
    sentence,
)
from ttmem.views.monitor.state import Drawn, Look, Page, terms
from ttmem.views.names import time_of_day
from ttmem.views.notes import anomaly_notes, missing_notes, note_lines, quiet_notes
from ttmem.views.processes import ProcessRow, process_rows
from ttmem.views.selection import no_device
from ttmem.views.table import ListColumn, row_lines
from ttmem.views.telemetry import telemetry_facts


def provenance_lines(device: Device, width: int) -> list[Line]:
    """Source and method of the numbers; those with the same are listed together."""
    if not device.provenance:
        return []
    named: dict[Provenance, list[str]] = {}
    for name, one in device.provenance.items():
        named.setdefault(one, []).append(name)
    lines: list[Line] = [clip_line(ink(" SOURCES", Style.TITLE), width)]
    titles = [", ".join(names) for names in named.values()]
    space = max(map(len, titles))
    for title, one in zip(titles, named, strict=True):
        misses = f"; misses: {one.misses}" if one.misses else ""
        text = paragraph(f"{one.source}: {one.method}{misses}", max(width - space - 3, 1))
        lines += [clip_line(line, width) for line in indent(text, space + 3, faint(f" {title}"))]
    return lines


GIVE_WAY = (L1_SMALL, TRACE, CB, L1)


def subjects(device: Device) -> list[Subject]:
    """DRAM and its neighbour TRACE; the parts of L1, and their sum."""
    memory, cb = device.memory, device.memory.cb
    circular = MemoryUse(None, 0, None, cb.used, None, None, cb.count, 0, None)
    peak = device.l1_peak, device.l1_peak_time_ns
    used = MemoryUse(device.l1_capacity, 0, None, device.l1_used, None, None, None, *peak)
    return [
        Subject(DRAM, memory.dram),
        Subject(TRACE, memory.trace),
        Subject(L1, memory.l1),
        Subject(L1_SMALL, memory.l1_small),
        Subject(CB, circular, frozenset({"held", "count"})),
        Subject(L1_USED, used, frozenset({"held", "capacity", "peak", "peak_time_ns"})),
    ]


def breakdown(device: Device, look: Look, most: int) -> list[Line]:
    """A title line and one for each kind; where there is no space for all, DRAM and L1 used are the last to go."""
    rows = subjects(device)
    for kind in GIVE_WAY:
        if len(rows) >= most:
            rows = [row for row in rows if row.kind != kind]
    return row_lines(_columns(look), rows, look.width)


def _columns(look: Look) -> list[ListColumn[Subject]]:
    units = look.state.units

    def held(row: Subject) -> Line:
        held, capacity = row.use.held, row.use.capacity
        return amount(units, held, Style.PLAIN if capacity is None else level(held, capacity))

    def when(row: Subject) -> Line:
        at = row.use.peak_time_ns
        return known(None if at is None else time_of_day(at, look.zone))

    def figure(
        title: str, name: str, rank: int = 0, cell: Callable[[Subject], Line] | None = None
    ) -> ListColumn[Subject]:
        write = cell or (lambda row: amount(units, getattr(row.use, name)))
        return ListColumn(
            title, lambda row: write(row) if row.has(name) else ink(""), right=True, rank=rank
        )

    return [
        ListColumn("KIND", lambda row: ink(row.kind.title, row.kind.style), width=8),
        figure("HELD", "held", 0, held),
        figure("CAPACITY", "capacity", 1),
        figure("REQUESTED", "requested", 2),
        figure("RESERVED", "reserved", 3),
        figure("FREE", "free", 5),
        figure("LARGEST", "largest_free", 4),
        figure("COUNT", "count", 8, lambda row: counted(row.use.count)),
        figure("PEAK", "peak", 6),
        figure("AT", "peak_time_ns", 7, when),
    ]


ALL = 99  # lines


def code_lines(device: Device, look: Look) -> list[Line]:
    """Each subject from a new line."""
    kernels = device.kernels
    more = [counter_fact("unloads", kernels.unloads), _hit_rate(kernels)]
    sensors = [] if device.telemetry is None else telemetry_facts(device.telemetry)
    code = (
        ring_facts(kernels.ring, look),
        [*counter_facts(device, look), *more],
        type_facts(device, look),
    )
    return [
        *fact_lines(circular_facts(device, look), look, ALL),
        *fact_lines(sensors, look, ALL),
        *partial_lines(device, look),
        *(line for facts in code for line in fact_lines(facts, look, ALL)),
    ]


def circular_facts(device: Device, look: Look) -> list[Line]:
    """The three numbers, what of them is dataflow buffers, and which one is in the sum."""
    cb = device.memory.cb
    measure = cb_measure(cb)
    said = [(*faint("in L1 used: "), *ink(measure))] if measure else []
    named = (
        ("CB resident", cb.resident),
        ("cached", cb.cached),
        ("demand", cb.demand),
        ("dataflow", cb.dataflow),
        *([("in L1 buffers", cb.shared)] if cb.shared else []),
    )
    return [*(amount_fact(label, count, look) for label, count in named), *said]


def _hit_rate(kernels: Kernels) -> Line:
    hits, misses = kernels.cache_hits, kernels.cache_misses
    if hits is None or misses is None or hits + misses <= 0:
        return fact("hit rate", None)
    return fact("hit rate", _share(hits, hits + misses))


def _share(part: int, whole: int) -> str:
    """'99.6 %'; rounded to 0 or 100 % only if it is exact."""
    text = f"{100 * part / whole:.1f} %"
    if text == "100.0 %" and part < whole:
        return ">99.9 %"
    return "<0.1 %" if text == "0.0 %" and part > 0 else text


GAP = 2
TWO, THREE = 76, 150  # columns from which so many stand beside each other
LEAST, MOST = 4, 14  # lines of a chart
SCROLL = "Device charts"  # its cursor: how far the charts were turned


Panel = Callable[[int, int], list[Line]]  # from width and height


def _panels(device: Device, look: Look) -> list[Panel]:
    """The sums first, then what they are made of, then sensors; kinds that were never used are last."""
    series = look.history.get(device.unique_id, {})
    dram, trace, l1, small, cb, used = (
        (one, partial(panel, one, series, look)) for one in subjects(device)
    )
    was_used = [(one.use.held or one.use.peak, drawn) for one, drawn in (cb, l1, small, trace)]
    return [
        dram[1],
        used[1],
        *(drawn for some, drawn in was_used if some),
        *_sensor_panels(device, look),
        *(drawn for some, drawn in was_used if not some),
    ]


def _sensor_panels(device: Device, look: Look) -> list[Panel]:
    telemetry = device.telemetry
    if telemetry is None:
        return []
    return [
        partial(sensor_panel, sensor, telemetry, series, look)
        for sensor in SENSORS
        if (series := look.sensors.get(sensor.name, {}).get(device.unique_id))
    ]


def device_panels(device: Device, look: Look, height: int) -> list[Line]:
    """At most `height` lines; nothing if a chart does not fit."""
    every = _panels(device, look)
    across = 3 if look.width >= THREE else 2 if look.width >= TWO else 1
    down = min(max(height // (LEAST + 2), 1), -(-len(every) // across))
    each = min(height // down, MOST)
    if each < LEAST:
        return []
    turned = look.state.of(SCROLL).cursor % len(every)
    shown = (every[turned:] + every[:turned])[: across * down]
    space = (look.width - 1 - GAP * (across - 1)) // across
    panels = [draw(space, each) for draw in shown]
    lines: list[Line] = []
    for at in range(0, len(panels), across):
        for cells in zip_longest(*panels[at : at + across], fillvalue=EMPTY):
            lines.append(_row(cells, space))
    return lines


def _row(cells: tuple[Line, ...], space: int) -> Line:
    spans: list[Span] = []
    for cell in cells:
        spans += [Span(" " * (GAP if spans else 1)), *pad(cell, space)]
    return tuple(spans)


AIRY = 34  # lines; from that on, empty lines stand between the parts
CHARTS = 5  # lines that charts keep before code has any
SPACIOUS = 16  # lines that charts keep before provenance has any
TABLE = 3  # lines that the table of processes keeps
REMARKS = 2  # lines
NOTES = 4  # at most one line in so many is about what is wrong


class DeviceLayout(NamedTuple):
    """The lines above the table of processes, its height, and the lines below it."""

    above: list[Line]
    table: int
    below: list[Line]

    @classmethod
    def of(cls, device: Device, look: Look, rows: int) -> DeviceLayout:
        """`rows`: how many processes there are to show."""
        gap = [EMPTY] if look.height >= AIRY else []
        head = [device_title(device, look), *_notes(device, look)]
        remarks = _remarks(device, look) if look.height >= AIRY else []
        figures = breakdown(device, look, look.height - len(head) - 1)
        free = look.height - len(head) - len(figures) - len(remarks) - 3 * len(gap)
        code = code_lines(device, look)[: max(free - CHARTS - TABLE, 0)]
        free -= len(code)
        least = min(rows + 1, TABLE) if rows else 2
        table = min(rows + 1, least + max(free - CHARTS - least, 0) // 3) if rows else least
        free -= table
        origin = provenance_lines(device, look.width)
        if free - len(origin) - len(gap) < SPACIOUS:
            origin = []
        charts = device_panels(device, look, free - (len(origin) + len(gap) if origin else 0))
        above = [*head, *charts, *gap, *figures, *gap, *code, *gap]
        above = above[: max(look.height - 1, 1)]
        below = [*([*gap, *origin] if origin else ()), *remarks]
        return cls(above, max(min(table, look.height - len(above)), 0), below)


def _notes(device: Device, look: Look) -> list[Line]:
    """Anomalies in full, and why capacities are unknown, in a part of the page; above all else."""
    alone = replace(look.snapshot, devices=(device,))
    notes = [*anomaly_notes(alone, look.names), *missing_notes(alone, look.names)]
    lines = note_lines(notes, look.width)
    most = max(look.height // NOTES, 1)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], faint(f" and {len(lines) - most + 1:,} more lines")]


def _remarks(device: Device, look: Look) -> list[Line]:
    """Oddities that change no number, a line each, at the bottom."""
    alone = replace(look.snapshot, devices=(device,))
    return note_lines(quiet_notes(alone, look.names), look.width, whole=False)[:REMARKS]


HELP = terms("""
charts | the highest value of each column; a gap is a time without samples
scale | up to the capacity; less while less than a quarter of it was ever used
◆ | the peak with its time, also between two samples; 'in this chart': the highest was earlier
HELD | reserved bytes where they are known, else requested bytes; all totals use it
CAPACITY | what can be allocated; N/A if no client declared it
REQUESTED | the bytes that applications asked for
RESERVED | the block in one bank times all banks, because banks allocate in lock step
FREE, LARGEST | free memory and its largest block, where the source reports them; the allocator of L1
    does not know of circular buffers, which may be inside
COUNT | live buffers
PEAK, AT | the highest held value since the device was first seen, and when
TRACE | buffers of traces; DRAM that is set apart, not part of the DRAM row
CB | circular buffers as they stand in L1 used: cached, else demand
L1 used | L1 + L1_SMALL + CB; its peak is not the sum of the parts' peaks
CB resident | what lies there now: the last dispatched program on each core
cached | per core, the union of address ranges over a process's live programs
demand | the plain sum; it may exceed L1, because programs share addresses
dataflow | the part of cached that dataflow buffers and scratchpads take
in L1 buffers | the part of cached that L1 buffers occupy now: counted once, as L1 buffers
ring | where kernel code lies while it runs: occupied / capacity; not counted
binaries in DRAM | the part of the DRAM buffers that holds kernel code
distinct | how many different binaries there are
loads, dispatches | counters: they only grow
hits, misses, rate | of the program cache of the runtime
footprint | binary x cores by type, if resident everywhere; cached programs are not
counted | kernel code by the counter of a prototype of the runtime; not counted
processes | what each holds on this device; x, ! and * as on the Overview
temp, power, aiclk ... | with --telemetry, or recorded: sensors of the card, value / limit of the firmware; * is stale
SOURCES | source and method of each number, and what it is known to miss
""")


NOBODY = "no process has memory allocated here"


class DevicePage(Page):
    """History, each kind of memory, kernel code, and processes of a device."""

    name = "Device"
    keys = (("c", "other charts"), ("s", "sort"), ("enter", "buffers of the process"))
    help = HELP

    def draw(self, look: Look) -> Drawn:
        device = look.device
        if device is None:
            lines = sentence(no_device(look.snapshot), look, Style.FAINT)
            return Drawn([clip_line(line, look.width) for line in lines[: look.height]])
        table = _table(device, look)
        layout = DeviceLayout.of(device, look, len(table.rows))
        drawn = table.draw(look.width, layout.table, len(layout.above), look.ascii)
        lines = [*layout.above, *drawn.lines, *layout.below]
        return Drawn([clip_line(line, look.width) for line in lines[: look.height]], drawn.targets)

    def key(self, key: str, look: Look) -> str | None:
        """`c` turns the charts, Enter goes to the buffers of a process."""
        device = look.device
        if device is None:
            return None
        table = _table(device, look)
        if key == "c":
            look.state.of(SCROLL).cursor += 1
        elif key == "enter" and table.chosen is not None:
            look.state.filter = str(table.chosen.pid)
            return "Buffers"
        else:
            table.key(key, DeviceLayout.of(device, look, len(table.rows)).table)
        return None


def _table(device: Device, look: Look) -> Listing[ProcessRow]:
    rows = process_rows(look.snapshot, look.names, device.unique_id)
    return process_listing(DevicePage.name, rows, look, NOBODY)
