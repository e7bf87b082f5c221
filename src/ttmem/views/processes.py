"""Who holds what: live processes, and what dead ones left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter, sub
from typing import NamedTuple

from ttmem.events import LABELS, Amounts
from ttmem.sizes import human
from ttmem.snapshots import LeftBehind, Process, Snapshot
from ttmem.text import columns, short_command
from ttmem.views.figures import AMOUNT, fact
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.names import DeviceNames, age
from ttmem.views.table import Column, Table, table_of

LEAST_COMMAND = 20
DEVICES_WIDTH = 13
USER_WIDTH = 12
CHANGES = 8  # rows
GHOST = "* a ghost: its counters are still in shared memory; `ttmem clean` clears them, `ttmem doctor` says where"
LEFT_REMARK = "by dead processes, not part of any total"
DEAD, LOST, AWAY = "x", "!", "*"
MARKS = (
    (DEAD, "left behind by a dead process, not counted"),
    (LOST, "its client lost events or buffers"),
    (AWAY, "not connected: its memory counts until it exits"),
)


SUMS = (
    ("DRAM", attrgetter("dram")),
    ("TRACE", attrgetter("trace")),
    ("L1 used", attrgetter("l1_used")),
)


class ProcessRow(NamedTuple):
    """A process, what a dead one left behind, or a sum of several."""

    held: Amounts
    pid: int = 0
    mark: str = ""
    user: str | None = ""
    command: str = ""
    devices: str = ""
    age_ns: int | None = None  # since it began, or since it died
    style: Style = Style.PLAIN
    title: str = ""  # of a sum

    @property
    def dead(self) -> bool:
        return self.mark == DEAD

    @property
    def name(self) -> str:
        return self.title or f"{self.pid}{self.mark.strip()}"

    def ink(self, text: str) -> Line:
        return ink(text, self.style)


def process_rows(
    snapshot: Snapshot, names: DeviceNames, device: str | None = None
) -> list[ProcessRow]:
    """The largest first, what dead ones left behind at the end; `device`: what they hold on it."""
    sets = DeviceSets(names)

    def row(one: Process | LeftBehind, mark: str, since: int | None) -> ProcessRow:
        held = one.devices.values() if device is None else [one.devices[device]]
        return ProcessRow(
            Amounts.total(held),
            one.pid,
            mark,
            one.user,
            short_command(one.command),
            sets.name(one.devices),
            None if since is None else snapshot.time_ns - since,
            Style.FAINT if mark == DEAD else Style.PLAIN,
        )

    def is_here(one: Process | LeftBehind) -> bool:
        return device is None or device in one.devices

    live = [row(one, _mark(one), one.start_time_ns) for one in filter(is_here, snapshot.processes)]
    dead = [row(left, DEAD, left.died_ns) for left in filter(is_here, snapshot.left_behind)]
    return [*sorted(live, key=lambda row: (-row.held.all, row.pid)), *dead]


class DeviceSets:
    """Short names of sets of devices: '0-3', or '12 devices'. Many rows share a set."""

    def __init__(self, names: DeviceNames) -> None:
        self._names = names
        self._known: dict[tuple[str, ...], str] = {}

    def name(self, devices: Iterable[str]) -> str:
        key = tuple(devices)
        if key not in self._known:
            text = self._names.some(key)
            short = columns(text) <= DEVICES_WIDTH or len(key) < 2
            self._known[key] = text if short else f"{len(key)} devices"
        return self._known[key]


def _mark(process: Process) -> str:
    if process.dropped_events or process.overflow:
        return LOST
    closed = "socket" in process.sources and not process.connected  # counters have no connection
    return AWAY if closed or not process.alive else " "


def legend(rows: Iterable[ProcessRow]) -> list[Line]:
    """The meaning of the marks that are shown."""
    present = {row.mark for row in rows}
    return [(Span(f"{mark} ", Style.WARN), *faint(text)) for mark, text in MARKS if mark in present]


def process_table(
    snapshot: Snapshot,
    names: DeviceNames,
    width: int,
    most: int | None = None,
    commands: bool = True,
) -> list[Line]:
    """Largest first, with a total; no kernel column, since kernel code is not part of any total.

    `most`: only so many rows, and one for all others. `commands`: may have lines of their own.
    """
    rows = [row for row in process_rows(snapshot, names) if not row.dead]
    shown, others = rows[:most], rows[len(rows) if most is None else most :]
    lines = _table([*shown, *_others(others), *_totals(snapshot)], "USER", width, commands)
    return [*lines, *indent(flow(legend(shown), width - 1), 1)]


def change_table(
    now: Snapshot, before: Snapshot, names: DeviceNames, width: int, commands: bool = True
) -> list[Line]:
    """What each process allocated or freed in between, the largest change first.

    `commands`: may have lines of their own.
    """
    then, held = _held_by_pid(before), _held_by_pid(now)
    known = {
        row.pid: row for one in (before, now) for row in process_rows(one, names) if not row.dead
    }
    changes = {
        pid: Amounts._make(map(sub, held.get(pid, Amounts()), then.get(pid, Amounts())))
        for pid in known
    }
    rows = [
        row._replace(held=changes[pid], mark="") for pid, row in known.items() if any(changes[pid])
    ]
    rows.sort(key=lambda row: (-sum(map(abs, row.held)), row.pid))
    if not rows:
        return [faint(" nothing")]
    return _table([*rows[:CHANGES], *_others(rows[CHANGES:])], "USER", width, commands, _signed)


def _held_by_pid(snapshot: Snapshot) -> dict[int, Amounts]:
    return {one.pid: Amounts.total(one.devices.values()) for one in snapshot.processes}


def _signed(change: int) -> str:
    return f"+{human(change)}" if change > 0 else human(change) if change else "-"


def left_behind_table(snapshot: Snapshot, names: DeviceNames, width: int) -> list[Line]:
    """What processes held when they died, the latest death first; no total."""
    ghosts = {left.pid for left in snapshot.left_behind if left.ghost}
    rows = [
        row._replace(
            mark="*" if row.pid in ghosts else "",
            user="N/A" if row.age_ns is None else f"{age(row.age_ns)} ago",
        )
        for row in process_rows(snapshot, names)
        if row.dead
    ]
    if not rows:
        return []
    rows.sort(key=lambda row: snapshot.time_ns if row.age_ns is None else row.age_ns)
    ghost = indent(paragraph(GHOST, width - 1, Style.FAINT), 1) if ghosts else []
    return [*_table(rows, "DIED", width), *ghost]


def _others(rows: Sequence[ProcessRow]) -> list[ProcessRow]:
    """One row for the processes that are not shown, so that the column adds up to its total."""
    held = Amounts.total(row.held for row in rows)
    return [ProcessRow(held, title=f"{len(rows)} more", style=Style.FAINT)] if rows else []


def _totals(snapshot: Snapshot) -> list[ProcessRow]:
    """One row; a second one if the processes shown are not all that the devices shown hold."""
    held = Amounts.total(h for process in snapshot.processes for h in process.devices.values())
    whole = Amounts.total(device.memory.amounts for device in snapshot.devices)
    rows = [ProcessRow(held, title="total", style=Style.TITLE)]
    if whole != held:
        rows.append(ProcessRow(whole, title="devices", style=Style.FAINT))
    return rows


def _table(
    rows: Sequence[ProcessRow],
    who: str,
    width: int,
    commands: bool = True,
    amount: Callable[[int], str] = human,
) -> list[Line]:
    def held(title: str, of: Callable[[Amounts], int], width: int = 0) -> Column[ProcessRow]:
        return Column(title, lambda row: row.ink(amount(of(row.held))), right=True, width=width)

    pid: Column[ProcessRow] = Column("PID", lambda row: row.ink(row.name), right=True)
    columns: list[Column[ProcessRow]] = [
        pid,
        Column(
            who, lambda row: clip_line(row.ink("N/A" if row.user is None else row.user), USER_WIDTH)
        ),
        Column("DEVICES", lambda row: row.ink(row.devices)),
        *(held(title, itemgetter(at), AMOUNT) for at, title in enumerate(LABELS)),
    ]
    grid = table_of(columns, rows)
    if width - 1 - grid.width - grid.gap >= LEAST_COMMAND:
        command: Column[ProcessRow] = Column("COMMAND", lambda row: row.ink(row.command), grow=1)
        cells = [[*line, command.made(row)] for line, row in zip(grid.rows, rows, strict=True)]
        return Table([*columns, command], cells).fitted_lines(width)
    closer = grid.fitting(width - 1)
    if closer and commands:
        by = closer.widths[0] + closer.gap + 1
        below = [
            indent([clip_line(faint(row.command), width - by)], by) if row.command else ()
            for row in rows
        ]
        return closer.fitted_lines(width, below)
    if closer is None:  # for a window that is neither wide nor high: L1 as one amount
        sums = [held(*one) for one in SUMS]
        closer = table_of([pid, *sums], rows).fitting(width - 1)
    if closer and not commands:
        return indent(closer.lines(), 1)
    return _stacked(rows, width, commands, amount)


def _stacked(
    rows: Sequence[ProcessRow], width: int, commands: bool, amount: Callable[[int], str]
) -> list[Line]:
    out: list[Line] = []
    for row in rows:
        where = ink(f"on {row.devices}") if row.devices else EMPTY
        out += flow([*(row.ink(text) for text in (row.name, row.user) if text), where], width)
        if row.command and commands:
            out += indent([clip_line(faint(row.command), width - 3)], 3)
        facts = [fact(title, amount(n)) for title, n in row.held.by_label().items()]
        out += indent(flow(facts, width - 3), 3)
    return out
