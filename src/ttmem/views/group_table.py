"""`ttmem ps --by`: live bytes by who made them, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from ttmem.sizes import human
from ttmem.snapshots import Snapshot, to_json
from ttmem.views.grid import Column, Grid
from ttmem.views.groupings import BY
from ttmem.views.ink import Line, Style, clip_line, faint, indent, ink
from ttmem.views.live_groups import Grouped, LiveGroup, What
from ttmem.views.meter import share_text
from ttmem.views.names import short_command
from ttmem.views.note import note_lines
from ttmem.views.notes import loss_notes
from ttmem.views.sections import page, section
from ttmem.views.text import clean
from ttmem.views.title import title_lines

SCHEMA = "ttmem.groups/1"
_TITLES = {"site": "CALL SITE", "op": "OPERATION", "phase": "PHASE", "pid": "PROCESS"}
_UNNAMED = {"site": "no call site is known", "op": "no operation is known"}
_OUTSIDE = {"op": "outside of any operation", "phase": "outside of any phase"}
_NOT_RECORDED = {"site": "call sites are not recorded", "op": "operations are not recorded"}
NOTHING = "nothing is allocated"


def group_document(snapshot: Snapshot, grouped: Grouped) -> dict[str, Any]:
    """One JSON document; bytes are integers, what is unknown is null."""
    whole = to_json(snapshot)
    return {
        "schema": SCHEMA,
        "time_ns": snapshot.time_ns,
        "host": whole["host"],
        "by": grouped.by,
        "groups": [
            {
                grouped.by: group.key,
                "what": group.what.value,
                **_amounts(group),
                "share": {
                    "dram": _share(group.held.dram, grouped.total.held.dram),
                    "l1_used": _share(group.held.l1_used, grouped.total.held.l1_used),
                },
            }
            for group in grouped.groups
        ],
        "total": _amounts(grouped.total),
        "losses": whole["losses"],
    }


def render_groups(
    snapshot: Snapshot,
    grouped: Grouped,
    *,
    width: int,
    color: bool,
    zone: tzinfo | None = None,
    chosen: bool = False,
    recorded: Mapping[int, bool] | None = None,
) -> str:
    """The groups under their titles; the last row is the sum of the devices, to the byte.

    `recorded`: of which processes it is known that they record operations and call sites, or do not.
    """
    commands = {process.pid: process.command for process in snapshot.processes}
    unnamed = _unnamed(snapshot, grouped.by, recorded or {})
    rows = [_row(group, grouped, _name(group, unnamed, commands)) for group in grouped.groups]
    rows.append(_row(grouped.total, grouped, ink("total", Style.TITLE)))
    lines = _lines(Grid(_columns(grouped), rows), width)
    sections = [
        title_lines(snapshot, width, zone),
        section(f"LIVE BYTES BY {_TITLES[grouped.by]}", "of all devices shown", lines)
        if grouped.groups
        else [ink(NOTHING)],
        note_lines(loss_notes(snapshot, chosen), width),
    ]
    return page(sections, width, color)


def _columns(grouped: Grouped) -> list[Column]:
    trace = ["TRACE"] if grouped.total.held.trace else []
    numbers = ("DRAM", "SHARE", "L1 used", "SHARE", *trace, "BUFFERS")
    return [*(Column(title, right=True) for title in numbers), Column(_TITLES[grouped.by])]


def _row(group: LiveGroup, grouped: Grouped, name: Line) -> list[Line]:
    held, total = group.held, grouped.total.held
    trace = [_amount(held.trace)] if total.trace else []
    return [
        _amount(held.dram),
        _percent(_share(held.dram, total.dram)),
        _amount(held.l1_used),
        _percent(_share(held.l1_used, total.l1_used)),
        *trace,
        _number(group.count),
        name,
    ]


def _unnamed(snapshot: Snapshot, by: str, recorded: Mapping[int, bool]) -> str:
    """What can be said of buffers without a name: that depends on who made them."""
    if by == "phase":
        return _OUTSIDE[by]
    rows = snapshot.detail.get("buffers", ())
    makers = {recorded.get(row["pid"]) for row in rows if row.get(BY[by]) is None}
    if makers == {False}:
        return _NOT_RECORDED.get(by, "unknown")
    unknown = _UNNAMED.get(by, "unknown")
    return _OUTSIDE.get(by, unknown) if makers == {True} else unknown


def _name(group: LiveGroup, unnamed: str, commands: Mapping[int, str | None]) -> Line:
    if group.what is What.CIRCULAR:
        return faint("circular buffers (shared)")
    if group.what is What.SUMS:
        return faint("processes with sums only")
    if group.what is What.UNNAMED:
        return faint(unnamed)
    if isinstance(group.key, int):
        command = commands.get(group.key)
        return ink(f"{group.key}  {short_command(command) if command else ''}".rstrip())
    return ink(clean(str(group.key)))


def _lines(grid: Grid, width: int) -> list[Line]:
    room = width - 1 - (grid.width - grid.widths[-1])
    if room < len("CALL SITE"):
        return grid.facts(width)
    return [clip_line(line, width) for line in indent(grid.lines(last=room), 1)]


def _amounts(group: LiveGroup) -> dict[str, int | None]:
    return {**group.held._asdict(), "l1_used": group.held.l1_used, "count": group.count}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percent(share: float | None) -> Line:
    return ink(share_text(share) or "") if share else faint("-")


def _number(count: int | None) -> Line:
    if count is None:
        return faint("N/A")
    return ink(f"{count:,}") if count else faint("-")


def _amount(bytes_: int) -> Line:
    return ink(human(bytes_)) if bytes_ else faint("-")
