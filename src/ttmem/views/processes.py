"""Who holds what: live processes, and what dead ones left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import sub

from ttmem.events import LABELS, Amounts
from ttmem.sizes import human
from ttmem.snapshots import LeftBehind, Process, Snapshot
from ttmem.text import columns, short_command
from ttmem.views.figures import AMOUNT, fact
from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.names import DeviceNames, age
from ttmem.views.table import Column, Table

LEAST_COMMAND = 20
DEVICES_WIDTH = 13
USER_WIDTH = 12
CHANGES = 8  # rows
GHOST = "* a ghost: its counters are still in shared memory; `ttmem clean` clears them"
LEFT_REMARK = "by dead processes, not part of any total"
NOT_CONNECTED = "* not connected; it keeps its memory until it dies or reports again"


@dataclass(frozen=True, slots=True)
class Row:
    pid: str
    who: str  # user, or when it died
    devices: str
    held: Amounts
    command: str
    style: Style = Style.PLAIN


def process_table(
    snapshot: Snapshot, width: int, most: int | None = None, commands: bool = True
) -> list[Line]:
    """Largest first, with a total; no kernel column, since kernel code is not part of any total.

    `most`: only so many rows, and one for all others. `commands`: may have lines of their own.
    """
    names = DeviceNames(snapshot.devices)
    rows = []
    for process in snapshot.processes:
        mark = "*" if is_away(process) else ""
        rows.append(
            Row(
                pid=f"{process.pid}{mark}",
                who=process.user or "N/A",
                devices=_devices(names, process.devices),
                held=Amounts.total(process.devices.values()),
                command=short_command(process.command),
            )
        )
    rows.sort(key=lambda row: (-row.held.all, row.pid))
    shown, others = rows[:most], rows[len(rows) if most is None else most :]
    below = [*_others(others), *_totals(snapshot)]
    lines = _table(shown, below, "USER", width, commands)
    rows = shown
    if any(row.pid.endswith("*") for row in rows):
        lines += indent(paragraph(NOT_CONNECTED, width - 1, Style.FAINT), 1)
    return lines


def change_table(now: Snapshot, before: Snapshot, width: int) -> list[Line]:
    """What each process allocated or freed in between, the largest change first."""
    devices = {device.unique_id: device for device in (*before.devices, *now.devices)}
    names = DeviceNames(devices.values())
    processes = {one.pid: one for one in (*before.processes, *now.processes)}
    then, held = _held_by_pid(before), _held_by_pid(now)
    rows = []
    for pid, process in processes.items():
        change = Amounts._make(map(sub, held.get(pid, Amounts()), then.get(pid, Amounts())))
        if any(change):
            where, command = _devices(names, process.devices), short_command(process.command)
            rows.append(Row(str(pid), process.user or "N/A", where, change, command))
    rows.sort(key=lambda row: (-sum(map(abs, row.held)), row.pid))
    shown, others = rows[:CHANGES], rows[CHANGES:]
    below = _others(others) if others else []
    if not rows:
        return [faint(" nothing")]
    return _table(shown, below, "USER", width, amount=_signed)


def _held_by_pid(snapshot: Snapshot) -> dict[int, Amounts]:
    return {one.pid: Amounts.total(one.devices.values()) for one in snapshot.processes}


def _signed(change: int) -> str:
    return f"+{human(change)}" if change > 0 else human(change) if change else "-"


def is_away(process: Process) -> bool:
    """Of counters there is no connection to be closed."""
    return not process.alive or ("socket" in process.sources and not process.connected)


def left_behind_table(snapshot: Snapshot, width: int) -> list[Line]:
    """What processes held when they died, the latest death first; no total."""
    names = DeviceNames(snapshot.devices)
    rows = [
        Row(
            pid=f"{left.pid}{'*' if left.ghost else ''}",
            who=_died(left, snapshot.time_ns),
            devices=_devices(names, left.devices),
            held=Amounts.total(left.devices.values()),
            command=short_command(left.command),
            style=Style.FAINT,
        )
        for left in sorted(snapshot.left_behind, key=lambda left: -(left.died_ns or 0))
    ]
    if not rows:
        return []
    lines = _table(rows, [], "DIED", width)
    if any(left.ghost for left in snapshot.left_behind):
        lines += indent(paragraph(GHOST, width - 1, Style.FAINT), 1)
    return lines


def _died(left: LeftBehind, now: int) -> str:
    return "N/A" if left.died_ns is None else f"{age(now - left.died_ns)} ago"


def _others(rows: Sequence[Row]) -> list[Row]:
    """Those that are not shown, in one row, so that the column still adds up to its total."""
    if not rows:
        return []
    return [Row(f"{len(rows)} more", "", "", Amounts.total(r.held for r in rows), "", Style.FAINT)]


def _devices(names: DeviceNames, held: Mapping[str, Amounts]) -> str:
    text = names.some(held)
    return text if columns(text) <= DEVICES_WIDTH else f"{len(held)} devices"


def _totals(snapshot: Snapshot) -> list[Row]:
    """One row; a second one if the processes shown are not all that the devices shown hold."""
    held = Amounts.total(h for process in snapshot.processes for h in process.devices.values())
    whole = Amounts.total(device.memory.amounts for device in snapshot.devices)
    rows = [Row("total", "", "", held, "", Style.TITLE)]
    if whole != held:
        rows.append(Row("devices", "", "", whole, "", Style.FAINT))
    return rows


def _table(
    rows: Sequence[Row],
    totals: Sequence[Row],
    who: str,
    width: int,
    commands: bool = True,
    amount: Callable[[int], str] = human,
) -> list[Line]:
    everyone = [*rows, *totals]
    grid = _grid(everyone, who, amount)
    if width - 1 - grid.width - grid.gap >= LEAST_COMMAND:
        rows_ = zip(grid.rows, everyone, strict=True)
        wide = Table(
            [*grid.columns, Column("COMMAND", grow=1)],
            [[*cells, ink(row.command, row.style)] for cells, row in rows_],
        )
        return wide.fitted_lines(width)
    closer = grid.fitting(width - 1)
    if closer and commands:
        return _folded(closer, everyone, width)
    closer = closer or _slim(everyone, amount).fitting(width - 1)
    if closer and not commands:
        return indent(closer.lines(), 1)
    return _stacked(everyone, width, commands, amount)


def _slim(rows: Sequence[Row], amount: Callable[[int], str]) -> Table:
    """For a window that is neither wide nor high: pids, and L1 as one amount."""
    columns = [Column(title, right=True) for title in ("PID", "DRAM", "TRACE", "L1 used")]
    cells = [
        [
            ink(row.pid, row.style),
            *(ink(amount(n), row.style) for n in (row.held.dram, row.held.trace, row.held.l1_used)),
        ]
        for row in rows
    ]
    return Table(columns, cells)


def _grid(rows: Sequence[Row], who: str, amount: Callable[[int], str]) -> Table:
    columns = [
        Column("PID", right=True),
        Column(who),
        Column("DEVICES"),
        *(Column(title, right=True, least=AMOUNT) for title in LABELS),
    ]
    cells = [
        [
            ink(row.pid, row.style),
            clip_line(ink(row.who, row.style), USER_WIDTH),
            ink(row.devices, row.style),
            *(ink(amount(figure), row.style) for figure in row.held),
        ]
        for row in rows
    ]
    return Table(columns, cells)


def _folded(grid: Table, rows: Sequence[Row], width: int) -> list[Line]:
    head, *body = grid.lines()
    by = grid.widths[0] + grid.gap
    out = [head]
    for line, row in zip(body, rows, strict=True):
        out.append(line)
        if row.command:
            out += indent([clip_line(ink(row.command, Style.FAINT), width - 1 - by)], by)
    return indent(out, 1)


def _stacked(
    rows: Sequence[Row], width: int, commands: bool, amount: Callable[[int], str]
) -> list[Line]:
    out: list[Line] = []
    for row in rows:
        where = ink(f"on {row.devices}") if row.devices else EMPTY
        out += flow([ink(text, row.style) for text in (row.pid, row.who) if text] + [where], width)
        if row.command and commands:
            out += indent([clip_line(faint(row.command), width - 3)], 3)
        facts = [fact(title, amount(n)) for title, n in row.held.by_label().items()]
        out += indent(flow(facts, width - 3), 3)
    return out
