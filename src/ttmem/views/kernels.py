"""Kernel code, which is part of no total: its ring lies below the allocatable memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from ttmem.sizes import human, several
from ttmem.snapshots import Device, Kernel, Kernels, Snapshot
from ttmem.text import clean, clip
from ttmem.text import columns as columns_of
from ttmem.views.figures import Pairs, Units, amount, counted, fact, known
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, flow, indent, ink
from ttmem.views.names import DeviceNames
from ttmem.views.table import Column, Table, table_of

TYPES = ("application", "fabric", "dispatch")
LEAST_AMOUNT = len("32.0 MiB")
PARTIAL = "partial"
COUNTERS = {  # by the titles of their columns
    "LOADS": "loads",
    "DISPATCHES": "dispatches",
    "CACHED": "cache_entries",
    "HITS": "cache_hits",
    "MISSES": "cache_misses",
    "DISTINCT": "distinct_binaries",
}


def kernel_lines(devices: Sequence[Device], names: DeviceNames, width: int) -> list[Line]:
    """The kernel code of each device that has reported any; neighbours with the same figures share a line."""
    groups = _grouped(devices)
    if not groups:
        return []
    rows = [(names.some(one.unique_id for one in group), group[0].kernels) for group in groups]
    grid = _line_grid(rows).fitting(width - 1)
    if grid is None:
        return _flowing(rows, width)
    return indent([_over(grid), *grid.lines()], 1)


def partial_sentence(device: Device) -> str | None:
    """Why the kernel figures of a device are incomplete; None if they are complete."""
    if not device.kernels.partial:
        return None
    origin = device.provenance.get("kernels")
    return f"kernel figures are partial; they miss {(origin and origin.misses) or 'some'}"


def _grouped(devices: Iterable[Device]) -> list[list[Device]]:
    def has_kernels(device: Device) -> bool:
        kernels = device.kernels
        footprint = kernels.footprint.total or kernels.counted
        return bool(kernels.loads or footprint or kernels.dispatches or kernels.ring.occupied)

    known = filter(has_kernels, devices)
    return [list(same) for _, same in groupby(known, lambda device: device.kernels)]


Named = tuple[str, Kernels]  # the kernel code of one or more devices, and their names


def _line_grid(rows: Sequence[Named]) -> Table:
    def footprint(kind: str, width: int = 0) -> Column[Named]:
        def cell(row: Named) -> str:
            return human(getattr(row[1].footprint, kind))

        return Column(kind.upper(), cell, right=True, width=width)

    columns: list[Column[Named]] = [
        Column("ID", lambda row: row[0], right=True),
        Column("RING occupied", lambda row: _ring(row[1])),
        footprint("application"),
        footprint("fabric", LEAST_AMOUNT),
        footprint("dispatch", LEAST_AMOUNT),
        Column("BINARIES", lambda row: _size(row[1].dram_binaries), right=True, width=LEAST_AMOUNT),
        Column("LOADS", lambda row: counted(row[1].loads), right=True),
        Column("DISPATCHES", lambda row: counted(row[1].dispatches), right=True),
    ]
    if any(one.counted is not None for _, one in rows):
        columns.append(
            Column("COUNTED", lambda row: _size(row[1].counted), right=True, width=LEAST_AMOUNT)
        )
    if any(one.partial for _, one in rows):
        columns.append(Column("", lambda row: ink(PARTIAL if row[1].partial else "", Style.WARN)))
    return table_of(columns, rows)


def _size(bytes_: int | None) -> str | None:
    return None if bytes_ is None else human(bytes_)


def _over(grid: Table) -> Line:
    """What the three columns of footprints mean, and where the binaries are."""
    widths, gap = grid.widths, grid.gap
    before = sum(widths[:2]) + 2 * gap
    three = sum(widths[2:5]) + 2 * gap
    text = f"{' if resident everywhere ':─^{three}}{'in DRAM':>{gap + widths[5]}}"
    return (Span(" " * before), *faint(text))


def _flowing(rows: Sequence[Named], width: int) -> list[Line]:
    by = 1 + max(len(title) for title, _ in rows) + 2
    out: list[Line] = []
    for title, one in rows:
        facts = [
            *([ink(PARTIAL, Style.WARN)] if one.partial else []),
            (*faint("ring "), *_ring(one)),
            (*faint("binaries in DRAM "), *amount(Units.BINARY, one.dram_binaries)),
            (*faint("loads "), *counted(one.loads)),
            (*faint("dispatches "), *counted(one.dispatches)),
            *([fact("counted", human(one.counted))] if one.counted is not None else []),
        ]
        parts = [fact(kind, human(getattr(one.footprint, kind))) for kind in TYPES]
        space = width - by
        lines = [*flow(facts, space), *flow([faint("if resident everywhere:"), *parts], space)]
        out += indent(lines, by, ink(" " + title))
    return out


def _ring(kernels: Kernels) -> Line:
    ring = kernels.ring
    if ring.occupied is None and ring.capacity is None:
        return faint("N/A")
    return Pairs(Units.BINARY, LEAST_AMOUNT).line(ring.occupied, ring.capacity)


def kernel_type_table(snapshot: Snapshot, width: int) -> list[Line]:
    """Application, Fabric and Dispatch kernels of each device; counters are of the whole device."""
    names = DeviceNames.of(snapshot)
    known = snapshot.kernels is not None  # else the snapshot came without its kernels
    counts = Counter((kernel.device, kernel.type) for kernel in snapshot.kernels or ())
    rows: list[list[Line]] = []
    for device, *same in _grouped(snapshot.devices):
        name = ink(names.some(one.unique_id for one in (device, *same)))
        kernels = device.kernels
        for kind in TYPES:
            count = counted(counts[device.unique_id, kind] if known else None)
            footprint = ink(human(getattr(kernels.footprint, kind)))
            rows.append([name, ink(kind.title()), count, footprint, *[EMPTY] * len(COUNTERS)])
            name = EMPTY
        counters = (getattr(kernels, name) for name in COUNTERS.values())
        total = ink(human(kernels.footprint.total))
        every = (*ink("all", Style.TITLE), *ink(f" ({PARTIAL})" * kernels.partial, Style.WARN))
        rows.append([EMPTY, every, counted(kernels.count), total, *map(counted, counters)])
    titles = ("ID", "TYPE", "COUNT", "FOOTPRINT*", *COUNTERS)
    columns: list[Column[list[Line]]] = [
        Column(title, itemgetter(at), right=title != "TYPE") for at, title in enumerate(titles)
    ]
    return table_of(columns, rows).fitted_lines(width) if rows else []


LARGEST = 10  # kernels


def kernel_list(snapshot: Snapshot, names: DeviceNames, width: int) -> list[Line]:
    """The kernels with the largest footprints; those of one name, type and size share a row."""
    found: dict[tuple[str | None, str, int | None], list[Kernel]] = {}
    for kernel in snapshot.kernels or ():
        found.setdefault((kernel.name, kernel.type, kernel.binary), []).append(kernel)
    rows = sorted(found.values(), key=lambda same: -_footprint(same))
    if not rows:
        return []

    def devices(same: Sequence[Kernel]) -> str:
        return names.some(dict.fromkeys(one.device for one in same if one.device))

    columns: list[Column[list[Kernel]]] = [
        Column("FOOTPRINT*", lambda same: human(_footprint(same)), right=True),
        Column("BINARY", lambda same: _size(same[0].binary), right=True),
        Column("COUNT", lambda same: counted(len(same)), right=True),
        Column("DEVICES", devices),
        Column("TYPE", lambda same: same[0].type.title(), rank=1),
        Column("KERNEL", lambda same: partial(kernel_name, same[0].name), width=16, grow=1),
    ]
    lines = table_of(columns, rows[:LARGEST]).fitted_lines(width)
    if hidden := rows[LARGEST:]:
        rest = human(sum(map(_footprint, hidden)))
        more = f" and {several(len(hidden), 'more row')}, {rest}; page 4 of `ttmem top` lists all"
        lines.append(clip_line(faint(more), width))
    return lines


def kernel_name(name: str | None, width: int) -> Line:
    """'reader_bmm_tile_layo…/brisc': kernels of one source differ only in the processor, so it is kept."""
    source, slash, processor = clean(name or "").rpartition("/")
    rest = width - columns_of(slash + processor)
    return known((clip(source, rest) if rest > 1 else "") + slash + processor)


def _footprint(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.footprint for kernel in kernels)
