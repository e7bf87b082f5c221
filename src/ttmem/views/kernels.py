"""Kernel code, which is part of no total: its ring lies below the allocatable memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby

from ttmem.sizes import human, several
from ttmem.snapshots import Device, Kernel, Kernels, Snapshot
from ttmem.text import clean, clip
from ttmem.text import columns as columns_of
from ttmem.views.figures import Pairs, Units, amount, counted, fact, known
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, flow, indent, ink
from ttmem.views.names import DeviceNames
from ttmem.views.table import Cell, Column, Table

TYPES = ("application", "fabric", "dispatch")
LEAST_AMOUNT = len("32.0 MiB")
PARTIAL = "partial"


def kernel_lines(devices: Sequence[Device], names: DeviceNames, width: int) -> list[Line]:
    """The kernel code of each device that has reported any; neighbours with the same figures share a line."""
    groups = _grouped(devices)
    if not groups:
        return []
    titles = [names.some(device.unique_id for device in group) for group in groups]
    kernels = [group[0].kernels for group in groups]
    grid = _line_grid(titles, kernels).fitting(width - 1)
    if grid is None:
        return _flowing(titles, kernels, width)
    return indent([_over(grid), *grid.lines()], 1)


def partial_sentence(device: Device) -> str | None:
    """Why the kernel figures of a device are incomplete; None if they are complete."""
    if not device.kernels.partial:
        return None
    origin = device.provenance.get("kernels")
    return f"kernel figures are partial; they miss {(origin and origin.misses) or 'some'}"


def _has_kernels(kernels: Kernels) -> bool:
    footprint = kernels.footprint.total or kernels.counted
    return bool(kernels.loads or footprint or kernels.dispatches or kernels.ring.occupied)


def _grouped(devices: Iterable[Device]) -> list[list[Device]]:
    known = (device for device in devices if _has_kernels(device.kernels))
    return [list(same) for _, same in groupby(known, lambda device: device.kernels)]


def _line_grid(titles: Sequence[str], kernels: Sequence[Kernels]) -> Table:
    marked = any(one.partial for one in kernels)
    prototype = any(one.counted is not None for one in kernels)
    columns = [
        Column("ID", right=True),
        Column("RING occupied"),
        Column("APPLICATION", right=True),
        *(
            Column(title, right=True, width=LEAST_AMOUNT)
            for title in ("FABRIC", "DISPATCH", "BINARIES")
        ),
        Column("LOADS", right=True),
        Column("DISPATCHES", right=True),
        *([Column("COUNTED", right=True, width=LEAST_AMOUNT)] if prototype else []),
        *([Column("")] if marked else []),
    ]
    rows = [
        [
            ink(title),
            _ring(one),
            *(ink(human(getattr(one.footprint, kind))) for kind in TYPES),
            amount(Units.BINARY, one.dram_binaries),
            counted(one.loads),
            counted(one.dispatches),
            *([amount(Units.BINARY, one.counted)] if prototype else []),
            *([ink(PARTIAL if one.partial else "", Style.WARN)] if marked else []),
        ]
        for title, one in zip(titles, kernels, strict=True)
    ]
    return Table(columns, rows)


def _over(grid: Table) -> Line:
    """What the three columns of footprints mean, and where the binaries are."""
    widths, gap = grid.widths, grid.gap
    before = sum(widths[:2]) + 2 * gap
    three = sum(widths[2:5]) + 2 * gap
    text = f"{' if resident everywhere ':─^{three}}{'in DRAM':>{gap + widths[5]}}"
    return (Span(" " * before), *faint(text))


def _flowing(titles: Sequence[str], kernels: Sequence[Kernels], width: int) -> list[Line]:
    by = 1 + max(map(len, titles)) + 2
    out: list[Line] = []
    for title, one in zip(titles, kernels, strict=True):
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
    grid = _type_grid(snapshot)
    if not grid.rows:
        return []
    return grid.fitted_lines(width)


def _type_grid(snapshot: Snapshot) -> Table:
    titles = (
        "ID",
        "TYPE",
        "COUNT",
        "FOOTPRINT*",
        "LOADS",
        "DISPATCHES",
        "CACHED",
        "HITS",
        "MISSES",
        "DISTINCT",
    )
    columns = [Column(title, right=title != "TYPE") for title in titles]
    names = DeviceNames.of(snapshot)
    counts = _counts(snapshot)
    rows: list[list[Line]] = []
    for group in _grouped(snapshot.devices):
        rows += _type_rows(names.some(device.unique_id for device in group), group[0], counts)
    return Table(columns, rows)


Counts = Counter[tuple[str | None, str]]  # kernels by device and type


def _counts(snapshot: Snapshot) -> Counts | None:
    """None if the snapshot came without its kernels."""
    if snapshot.kernels is None:
        return None
    return Counter((kernel.device, kernel.type) for kernel in snapshot.kernels)


def _type_rows(name: str, device: Device, counts: Counts | None) -> list[list[Line]]:
    kernels = device.kernels
    rows: list[list[Line]] = []
    for kind in TYPES:
        count = counted(None if counts is None else counts[device.unique_id, kind])
        footprint = ink(human(getattr(kernels.footprint, kind)))
        rows.append(
            [ink(name) if not rows else EMPTY, ink(kind.title()), count, footprint, *[EMPTY] * 6]
        )
    counters = (
        kernels.loads,
        kernels.dispatches,
        kernels.cache_entries,
        kernels.cache_hits,
        kernels.cache_misses,
        kernels.distinct_binaries,
    )
    total = ink(human(kernels.footprint.total))
    every = (*ink("all", Style.TITLE), *ink(f" ({PARTIAL})" * kernels.partial, Style.WARN))
    rows.append([EMPTY, every, counted(kernels.count), total, *map(counted, counters)])
    return rows


LARGEST = 10  # kernels


def kernel_list(snapshot: Snapshot, names: DeviceNames, width: int) -> list[Line]:
    """The kernels with the largest footprints; those of one name, type and size share a row."""
    found: dict[tuple[str | None, str, int | None], list[Kernel]] = {}
    for kernel in snapshot.kernels or ():
        found.setdefault((kernel.name, kernel.type, kernel.binary), []).append(kernel)
    groups = sorted(found.items(), key=lambda item: -_footprint(item[1]))
    columns = [
        Column("FOOTPRINT*", right=True),
        Column("BINARY", right=True),
        Column("COUNT", right=True),
        Column("DEVICES"),
        Column("TYPE", rank=1),
        Column("KERNEL", width=16, grow=1),
    ]
    rows: list[list[Cell]] = [
        [
            ink(human(_footprint(of))),
            amount(Units.BINARY, binary),
            counted(len(of)),
            ink(names.some(dict.fromkeys(one.device for one in of if one.device))),
            ink(kind.title()),
            partial(kernel_name, name),
        ]
        for (name, kind, binary), of in groups[:LARGEST]
    ]
    if not rows:
        return []
    hidden = [of for _, of in groups[LARGEST:]]
    rest = human(sum(map(_footprint, hidden)))
    more = faint(
        f" and {several(len(hidden), 'more row')}, {rest}; page 4 of `ttmem top` lists all"
    )
    return [
        *Table(columns, rows).fitted_lines(width),
        *([clip_line(more, width)] if hidden else []),
    ]


def kernel_name(name: str | None, width: int) -> Line:
    """'reader_bmm_tile_layo…/brisc': kernels of one source differ only in the processor, so it is kept."""
    source, slash, processor = clean(name or "").rpartition("/")
    rest = width - columns_of(slash + processor)
    return known((clip(source, rest) if rest > 1 else "") + slash + processor)


def _footprint(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.footprint for kernel in kernels)
