"""`ttmem dump`: what is still allocated, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo

from ttmem.sizes import human
from ttmem.snapshots import Snapshot
from ttmem.views.ages import age
from ttmem.views.dump_groups import CB, DeviceDump, Entry, Group
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.names import logical, model, short_command, short_pci
from ttmem.views.note import note_lines
from ttmem.views.notes import loss_notes
from ttmem.views.process_table import left_behind_table
from ttmem.views.sections import page, section
from ttmem.views.title import title_lines

NOTHING = "nothing is allocated"


def render_dump(
    snapshot: Snapshot,
    dumps: Sequence[DeviceDump],
    *,
    never_freed: Sequence[DeviceDump] = (),
    width: int,
    color: bool,
    zone: tzinfo | None = None,
    chosen: bool = False,
) -> str:
    """Every device with its groups, what the dead left behind or never freed, and what was lost.

    `chosen`: the snapshot is a part of a picture.
    """
    sections = [
        title_lines(snapshot, width, zone),
        *(_device(snapshot, dump, width) for dump in dumps),
        [] if any(dump.memory for dump in dumps) else [ink(NOTHING)],
        section("LEFT BEHIND", "by dead processes, in no sum", left_behind_table(snapshot, width)),
        *_never_freed(snapshot, never_freed, width),
        note_lines(loss_notes(snapshot, chosen), width),
    ]
    return page(sections, width, color)


def _never_freed(
    snapshot: Snapshot, dumps: Sequence[DeviceDump], width: int
) -> Iterator[list[Line]]:
    remark = "by processes that have ended, in no sum"
    for number, dump in enumerate(dumps):
        lines = _device(snapshot, dump, width)
        yield lines if number else section("NEVER FREED", remark, lines)


def _device(snapshot: Snapshot, dump: DeviceDump, width: int) -> list[Line]:
    device = dump.device
    names = (short_pci(device), device.unique_id)
    lines = flow(
        [
            ink(f"DEVICE {logical(device)}", Style.TITLE),
            ink(model(device)),
            *(faint(name) for name in names if name),
        ],
        width,
    )
    if dump.memory:
        columns, rows = _titles("REQUESTED", "HELD", "SHARE"), map(_memory_cells, dump.memory)
        lines += _groups(snapshot, dump.memory, Grid(columns, list(rows)), width)
    if dump.kernels:
        remark = "kernel code, in no sum; footprint: if resident everywhere"
        lines += indent(paragraph(remark, width - 1, Style.FAINT), 1)
        columns, rows = _titles("FOOTPRINT"), map(_kernel_cells, dump.kernels)
        lines += _groups(snapshot, dump.kernels, Grid(columns, list(rows)), width)
    return lines


def _titles(*figures: str) -> list[Column]:
    numbers = [Column(title, right=True) for title in ("PID", "COUNT", *figures)]
    return [Column("KIND"), *numbers, Column("COMMAND")]


def _groups(snapshot: Snapshot, groups: Sequence[Group], grid: Grid, width: int) -> list[Line]:
    room = width - 1 - (grid.width - grid.widths[-1])
    if room < len("COMMAND"):
        rows = [replace(grid, rows=[cells]).facts(width) for cells in grid.rows]
    else:
        head, *single = indent(grid.lines(last=room), 1)
        rows = [[line] for line in single]
        rows[0].insert(0, head)
    out: list[Line] = []
    for lines, group in zip(rows, groups, strict=True):
        out += [*lines, *_entries(snapshot, group, width)]
    return out


def _memory_cells(group: Group) -> list[Line]:
    share = None if group.share is None else f"{100 * group.share:.0f}%"
    requested = None if group.requested is None else human(group.requested)
    return _cells(group, _known(requested), ink(human(group.held)), _known(share))


def _kernel_cells(group: Group) -> list[Line]:
    return _cells(group, ink(human(group.held)))


def _cells(group: Group, *figures: Line) -> list[Line]:
    return [
        ink(group.kind, Style.TITLE),
        _known(None if group.pid is None else str(group.pid)),
        _known(None if group.count is None else f"{group.count:,}"),
        *figures,
        _known(group.command and short_command(group.command)),
    ]


def _known(text: str | None) -> Line:
    return faint("N/A") if text is None else ink(text)


def _entries(snapshot: Snapshot, group: Group, width: int) -> list[Line]:
    if not group.largest:
        return []
    columns = _entry_columns(group)
    rows = [[cell(snapshot, entry) for _, cell in columns] for entry in group.largest]
    grid = Grid([column for column, _ in columns], rows)
    lines = [clip_line(line, width - 5) for line in grid.lines()]
    more = (group.count or 0) - len(group.largest)
    if more:
        lines.append(faint(f"… {more:,} more, {human(group.rest)}; --top 0 lists all"))
    return indent(lines, 5)


Cell = Callable[[Snapshot, Entry], Line]


def _entry_columns(group: Group) -> list[tuple[Column, Cell]]:
    """Ids and addresses have columns of their own; ids that are addresses are not repeated."""
    ids = any(entry.get("id") not in (None, entry.get("address")) for entry in group.largest)
    addresses = group.kind == CB or any(entry.get("address") for entry in group.largest)
    size = "FOOTPRINT" if "footprint" in group.largest[0] else "SIZE"
    return [
        (Column(size, right=True), _size),
        (Column("AGE", right=True), _age),
        *([(Column("ID", right=True), _id)] if ids else []),
        *([(Column("ADDRESS", right=True), _address)] if addresses else []),
        *([(Column("ORIGIN"), _origin_cell)] if any(map(_origin, group.largest)) else []),
    ]


def _size(_: Snapshot, entry: Entry) -> Line:
    return ink(human(int(entry.get("footprint", entry.get("requested", entry.get("size", 0))))))


def _age(snapshot: Snapshot, entry: Entry) -> Line:
    time_ns = int(entry.get("time_ns") or 0)
    return faint(age(snapshot.time_ns - time_ns) if time_ns else "N/A")


def _id(_: Snapshot, entry: Entry) -> Line:
    return _known(None if entry.get("id") is None else f"{int(entry['id']):#x}")


def _address(_: Snapshot, entry: Entry) -> Line:
    return _known(None if entry.get("address") is None else f"{int(entry['address']):#x}")


def _origin_cell(_: Snapshot, entry: Entry) -> Line:
    return faint(_origin(entry))


def _origin(entry: Entry) -> str:
    """References, name and call site, as far as they are known."""
    program, references = entry.get("program"), int(entry.get("references") or 1)
    texts = [
        f"{references:,} references" if references > 1 else None,
        entry.get("name"),
        f"program {program}" if program else None,
        f"{entry['cores']} cores" if entry.get("cores") else None,
        "on an L1 buffer" if entry.get("global") else None,
        entry.get("site"),
    ]
    return "  ".join(str(text) for text in texts if text)
