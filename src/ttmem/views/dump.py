"""`ttmem dump` as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial

from ttmem.events import CLOSED
from ttmem.sizes import human
from ttmem.snapshots import Buffer, CircularBuffer, Kernel, Snapshot
from ttmem.views.dump_groups import (
    CB,
    DeviceDump,
    DumpColumns,
    Entry,
    Group,
    columns_of_ended,
    columns_of_now,
    entry_id,
    entry_size,
    references,
)
from ttmem.views.ink import Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.meter import share_text
from ttmem.views.names import age, logical, model, short_pci
from ttmem.views.notes import (
    Note,
    blind_notes,
    loss_notes,
    note_lines,
    remark_notes,
    unlisted_notes,
)
from ttmem.views.processes import LEFT_REMARK, left_behind_table
from ttmem.views.selection import without_idle
from ttmem.views.table import Column, Table, page, section, title_lines

INDENT = 5


def entry_lines(group: Group, columns: DumpColumns, width: int) -> list[Line]:
    """The largest entries of a group, and how many more there are."""
    if not group.largest:
        return []
    titled = _columns(group, columns)
    rows = [[cell(entry) for _, cell in titled] for entry in group.largest]
    grid = Table([column for column, _ in titled], rows)
    lines = [
        clip_line(line, width - INDENT) for line in (grid.fitting(width - INDENT) or grid).lines()
    ]
    more = (group.count or 0) - len(group.largest)
    if more:
        lines.append(faint(f"… {more:,} more, {human(group.rest)}; --top 0 lists all"))
    return indent(lines, INDENT)


def known(text: str | None) -> Line:
    """The text, or N/A."""
    return faint("N/A") if text is None else ink(text)


Cell = Callable[[Entry], Line]


def _columns(group: Group, columns: DumpColumns) -> list[tuple[Column, Cell]]:
    """Ids and addresses have columns of their own; ids that are addresses are not repeated."""
    ids = any(entry_id(entry) not in (None, address_of(entry)) for entry in group.largest)
    addresses = group.kind == CB or any(map(address_of, group.largest))
    size = "FOOTPRINT" if isinstance(group.largest[0], Kernel) else "SIZE"
    return [
        (Column(size, right=True), _size),
        (Column(columns.age, right=True), partial(_age, columns.until_ns(group))),
        *([(Column("ID", right=True), _id)] if ids else []),
        *([(Column("ADDRESS", right=True), _address)] if addresses else []),
        *([(Column("ORIGIN", grow=1), _origin_cell)] if any(map(_origin, group.largest)) else []),
    ]


def address_of(entry: Entry) -> int | None:
    return None if isinstance(entry, Kernel) else entry.address


def _size(entry: Entry) -> Line:
    return ink(human(entry_size(entry)))


def _age(until_ns: int | None, entry: Entry) -> Line:
    return faint(age(until_ns - entry.time_ns) if entry.time_ns and until_ns else "N/A")


def _id(entry: Entry) -> Line:
    number = entry_id(entry)
    return known(None if number is None else f"{number:#x}")


def _address(entry: Entry) -> Line:
    address = address_of(entry)
    return known(None if address is None else f"{address:#x}")


def _origin_cell(entry: Entry) -> Line:
    return faint(_origin(entry))


def _origin(entry: Entry) -> str:
    """References, name and call site, as far as they are known."""
    times = references(entry)
    texts = [
        f"{times:,} references" if times > 1 else None,
        None if isinstance(entry, CircularBuffer) else entry.name,
        f"program {entry.program}" if not isinstance(entry, Buffer) and entry.program else None,
        f"{entry.cores} cores" if isinstance(entry, Kernel) and entry.cores else None,
        "on an L1 buffer" if isinstance(entry, CircularBuffer) and entry.is_global else None,
        None if isinstance(entry, CircularBuffer) else entry.site,
    ]
    return "  ".join(text for text in texts if text)


NOTHING = "nothing is allocated"
NOTHING_READ = "nothing is allocated, as far as you may read"
SHARED = (
    "CB: REQUESTED is the sum over all cached programs, HELD what they occupy together, since they share "
    "addresses (docs/circular-buffers.md)"
)


def render_dump(
    snapshot: Snapshot,
    dumps: Sequence[DeviceDump],
    *,
    never_freed: Sequence[DeviceDump] = (),
    user: str | None = None,
    unlisted: Mapping[int, int] | None = None,
    width: int,
    color: bool,
    zone: tzinfo | None = None,
    chosen: bool = False,
) -> str:
    """Every device with its groups, what the dead left behind or never freed, and what was lost.

    `user`: who asks; what others never freed is marked as theirs.
    `unlisted`: by pid, how many buffers were never freed and are in no list.
    `chosen`: the snapshot is a part of a picture.
    """
    shown = replace(snapshot, devices=tuple(dump.device for dump in dumps))
    sections = [
        title_lines(snapshot if chosen else without_idle(snapshot)[0], width, zone),
        *(_device(dump, columns_of_now(snapshot.time_ns), width) for dump in dumps),
        [] if any(dump.memory for dump in dumps) else [ink(_nothing(snapshot))],
        section("LEFT BEHIND", LEFT_REMARK, left_behind_table(snapshot, width)),
        *_never_freed(never_freed, zone, width),
        note_lines(
            [
                *remark_notes(snapshot),
                *unlisted_notes(unlisted or {}),
                *loss_notes(snapshot, chosen),
                *_shared_notes(dumps),
                *_unseen_ends(never_freed),
                *_of_others(never_freed, user),
                *blind_notes(shown),
            ],
            width,
        ),
    ]
    return page(sections, width, color)


def _nothing(snapshot: Snapshot) -> str:
    closed = any(remark.kind in CLOSED for remark in snapshot.remarks)
    return NOTHING_READ if closed else NOTHING


def _shared_notes(dumps: Sequence[DeviceDump]) -> list[Note]:
    """Why circular buffers hold less than was asked for."""
    circular = [group for dump in dumps for group in dump.memory if group.kind == CB]
    shared = any(one.requested is not None and one.requested > one.held for one in circular)
    return [Note("-", Style.FAINT, SHARED)] if shared else []


def _unseen_ends(never_freed: Sequence[DeviceDump]) -> list[Note]:
    """Why ENDED and LIVED are N/A."""
    groups = (group for dump in never_freed for group in dump.memory)
    pids = sorted({group.pid for group in groups if group.ended_ns is None and group.pid})
    who = "pids" if len(pids) > 1 else "pid"
    text = f"{who} {', '.join(map(str, pids))}: killed while nobody was watching, so the time is unknown"
    return [Note("-", Style.FAINT, text)] if pids else []


def _of_others(never_freed: Sequence[DeviceDump], user: str | None) -> list[Note]:
    """A leak check is of one's own processes."""
    found = {
        (group.user, group.pid)
        for dump in never_freed
        for group in dump.memory
        if user and group.user and group.user != user and group.pid
    }
    return [
        Note("-", Style.FAINT, f"pid {pid}: belongs to user {other}; --exit-code ignores it")
        for other, pid in sorted(found)
    ]


def _never_freed(
    dumps: Sequence[DeviceDump], zone: tzinfo | None, width: int
) -> Iterator[list[Line]]:
    remark = "by processes that have ended, not part of any total"
    for number, dump in enumerate(dumps):
        lines = _device(dump, columns_of_ended(zone), width)
        yield lines if number else section("NEVER FREED", remark, lines)


def _device(dump: DeviceDump, columns: DumpColumns, width: int) -> list[Line]:
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
        rows = [_memory_cells(group, columns) for group in dump.memory]
        grid = Table(_titles(*columns.figures, owner=columns.owner), rows)
        lines += _groups(dump.memory, grid, columns, width)
    if dump.kernels:
        remark = "kernel code, not part of any total; FOOTPRINT: if resident everywhere"
        lines += indent(paragraph(remark, width - 1, Style.FAINT), 1)
        rows = [_cells(group, columns, ink(human(group.held))) for group in dump.kernels]
        grid = Table(_titles("FOOTPRINT", owner=columns.owner), rows)
        lines += _groups(dump.kernels, grid, columns, width)
    return lines


def _titles(*figures: str, owner: str) -> list[Column]:
    numbers = [Column(title, right=True) for title in ("PID", "COUNT", *figures)]
    return [Column("KIND"), *numbers, Column(owner, grow=1)]


def _groups(groups: Sequence[Group], grid: Table, columns: DumpColumns, width: int) -> list[Line]:
    fitting = grid.fitting(width - 1)
    if fitting is None:
        rows = [replace(grid, rows=[cells]).facts(width) for cells in grid.rows]
    else:
        head, *single = indent(fitting.lines(), 1)
        rows = [[line] for line in single]
        rows[0].insert(0, head)
    out: list[Line] = []
    for lines, group in zip(rows, groups, strict=True):
        out += [*lines, *entry_lines(group, columns, width)]
    return out


def _memory_cells(group: Group, columns: DumpColumns) -> list[Line]:
    requested = None if group.requested is None else human(group.requested)
    figures = [known(requested), ink(human(group.held)), known(share_text(group.share))]
    return _cells(group, columns, *figures[: len(columns.figures)])


def _cells(group: Group, columns: DumpColumns, *figures: Line) -> list[Line]:
    return [
        ink(group.kind, Style.TITLE),
        known(None if group.pid is None else str(group.pid)),
        known(None if group.count is None else f"{group.count:,}"),
        *figures,
        known(columns.owner_of(group)),
    ]
