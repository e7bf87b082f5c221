"""`ttmem dump`: what is still allocated, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo

from ttmem.sizes import human
from ttmem.snapshots import Snapshot
from ttmem.sources.closed_files import CLOSED
from ttmem.views.dump_columns import DumpColumns, columns_of_ended, columns_of_now
from ttmem.views.dump_entries import entry_lines, known
from ttmem.views.dump_groups import CB, DeviceDump, Group
from ttmem.views.grid import Column, Grid
from ttmem.views.idle import without_idle
from ttmem.views.ink import Line, Style, faint, flow, indent, ink, paragraph
from ttmem.views.meter import share_text
from ttmem.views.names import logical, model, short_pci
from ttmem.views.note import Note, note_lines
from ttmem.views.notes import loss_notes, unlisted_notes
from ttmem.views.process_table import left_behind_table
from ttmem.views.sections import page, section
from ttmem.views.source_notes import blind_notes, remark_notes
from ttmem.views.title import title_lines

NOTHING = "nothing is allocated"
NOTHING_READ = "nothing is allocated, as far as it can be read"
SHARED = (
    "CB: REQUESTED is the sum over all cached programs, HELD what they take together: they share "
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
        section("LEFT BEHIND", "by dead processes, in no sum", left_behind_table(snapshot, width)),
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
    text = (
        f"{who} {', '.join(map(str, pids))}: killed, and nobody looked: when it ended is not known"
    )
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
        Note("-", Style.FAINT, f"pid {pid}: of user {other}; --exit-code does not count it")
        for other, pid in sorted(found)
    ]


def _never_freed(
    dumps: Sequence[DeviceDump], zone: tzinfo | None, width: int
) -> Iterator[list[Line]]:
    remark = "by processes that have ended, in no sum"
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
        grid = Grid(_titles(*columns.figures, owner=columns.owner), rows)
        lines += _groups(dump.memory, grid, columns, width)
    if dump.kernels:
        remark = "kernel code, in no sum; footprint: if resident everywhere"
        lines += indent(paragraph(remark, width - 1, Style.FAINT), 1)
        rows = [_cells(group, columns, ink(human(group.held))) for group in dump.kernels]
        grid = Grid(_titles("FOOTPRINT", owner=columns.owner), rows)
        lines += _groups(dump.kernels, grid, columns, width)
    return lines


def _titles(*figures: str, owner: str) -> list[Column]:
    numbers = [Column(title, right=True) for title in ("PID", "COUNT", *figures)]
    return [Column("KIND"), *numbers, Column(owner)]


def _groups(groups: Sequence[Group], grid: Grid, columns: DumpColumns, width: int) -> list[Line]:
    room = width - 1 - (grid.width - grid.widths[-1])
    if room < len("COMMAND"):
        rows = [replace(grid, rows=[cells]).facts(width) for cells in grid.rows]
    else:
        head, *single = indent(grid.lines(last=room), 1)
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
