"""`ttmem ps --by`: live bytes by call site, op, phase or process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum
from operator import attrgetter, sub
from typing import Any

from ttmem.events import LABELS, Amounts
from ttmem.sizes import human
from ttmem.snapshots import Buffer, Snapshot, to_json
from ttmem.text import clean, short_command
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.meter import share_text
from ttmem.views.names import pids_text
from ttmem.views.notes import Note, loss_notes, note_lines, remark_notes
from ttmem.views.selection import BY
from ttmem.views.table import Column, Table, page, section, title_lines


class What(Enum):
    """What a group is made of."""

    NAMED = "buffers"
    UNNAMED = "buffers without a name"  # site, op or phase is unknown
    CIRCULAR = "circular buffers"
    SUMS = "sums only"  # processes whose buffers are not known one by one


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """`held` counts reserved bytes where they are known, else requested ones, as all totals do."""

    what: What
    key: str | int | None
    held: Amounts
    count: int | None  # buffers; None if unknown


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups, the largest first, and their sum, which is that of the processes."""

    by: str
    groups: tuple[LiveGroup, ...]
    total: LiveGroup


def live_groups(snapshot: Snapshot, by: str) -> Grouped:
    """Of a snapshot with the detail `buffers`, or none where all sources have sums only."""
    ids = {device.unique_id for device in snapshot.devices}
    total = Amounts.total(
        held
        for process in snapshot.processes
        for unique_id, held in process.devices.items()
        if unique_id in ids
    )
    groups = _of_buffers(snapshot.buffers or (), by)
    groups = _of_processes(groups, snapshot) if by == "pid" else [*groups, *_rest(groups, total)]
    named = [group for group in groups if group.what is What.NAMED]
    others = [group for group in groups if group.what is not What.NAMED and group.held.all]
    ordered = [*sorted(named, key=lambda group: -group.held.all), *others]
    counts = [group.count for group in ordered if group.count is not None]
    count = sum(counts) if len(counts) == len(ordered) else None
    return Grouped(by, tuple(ordered), LiveGroup(What.SUMS, None, total, count))


def _of_buffers(buffers: Iterable[Buffer], by: str) -> list[LiveGroup]:
    found: dict[str | int | None, list[Buffer]] = {}
    key_of = attrgetter(BY[by])
    for buffer in buffers:
        if buffer.kind in LABELS:  # host memory is not counted
            found.setdefault(key_of(buffer), []).append(buffer)
    return [
        LiveGroup(What.UNNAMED if key is None else What.NAMED, key, _held(rows), len(rows))
        for key, rows in found.items()
    ]


def _held(buffers: Iterable[Buffer]) -> Amounts:
    sums = dict.fromkeys(LABELS, 0)
    for buffer in buffers:
        sums[buffer.kind] += buffer.held
    return Amounts._make(sums.values())


def _of_processes(groups: Iterable[LiveGroup], snapshot: Snapshot) -> list[LiveGroup]:
    """A process has its circular buffers to itself; where only its sums are known, these are."""
    out = {(group.what, group.key): group for group in groups}
    for process in snapshot.processes:
        key = (What.NAMED, process.pid)
        counted = out[key].count if key in out else 0
        held = Amounts.total(process.devices.values())
        out[key] = LiveGroup(*key, held, counted if counted or not held.all else None)
    return list(out.values())


def _rest(groups: Iterable[LiveGroup], total: Amounts) -> Iterator[LiveGroup]:
    listed = Amounts.total(group.held for group in groups)
    rest = Amounts._make(map(sub, total, listed))._replace(cb=0)
    if any(rest):
        yield LiveGroup(What.SUMS, None, rest, None)
    yield LiveGroup(What.CIRCULAR, None, Amounts(cb=total.cb), 0)


SCHEMA = "ttmem.groups/1"
_TITLES = {"site": "CALL SITE", "op": "OPERATION", "phase": "PHASE", "pid": "PROCESS"}
_UNNAMED = {"site": "no call site is known", "op": "no operation is known"}
_OUTSIDE = {"op": "outside any operation", "phase": "outside any phase"}
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
) -> str:
    """The groups under their titles; the last row is the sum of the devices, to the byte."""
    commands = {process.pid: process.command for process in snapshot.processes}
    unnamed = _unnamed(snapshot, grouped.by)
    rows = [_row(group, grouped, _name(group, unnamed, commands)) for group in grouped.groups]
    rows.append(_row(grouped.total, grouped, ink("total", Style.TITLE)))
    lines = Table(_columns(grouped), rows).fitted_lines(width)
    sections = [
        title_lines(snapshot, width, zone),
        section(f"LIVE BYTES BY {_TITLES[grouped.by]}", "of all devices shown", lines)
        if grouped.groups
        else [ink(NOTHING)],
        note_lines(
            [
                *loss_notes(snapshot, chosen),
                *_totals_note(snapshot, grouped.by),
                *remark_notes(snapshot),
            ],
            width,
        ),
    ]
    return page(sections, width, color)


def _totals_note(snapshot: Snapshot, by: str) -> list[Note]:
    """Which processes have no call sites, and how to get them."""
    listed = {buffer.pid for buffer in snapshot.buffers or ()}
    unread = [
        process.pid
        for process in snapshot.processes
        if process.pid not in listed and Amounts.total(process.devices.values()).all
    ]
    if not unread or by == "pid":
        return []
    text = f"only the totals of {pids_text(unread)} are known; `ttmem run` shows each buffer"
    return [Note("-", Style.FAINT, text)]


def _columns(grouped: Grouped) -> list[Column]:
    trace = ["TRACE"] if grouped.total.held.trace else []
    numbers = ("DRAM", "SHARE", "L1 used", "SHARE", *trace, "BUFFERS")
    return [*(Column(title, right=True) for title in numbers), Column(_TITLES[grouped.by], grow=1)]


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


def _unnamed(snapshot: Snapshot, by: str) -> str:
    """What can be said of buffers without a name: that depends on who made them."""
    if by == "phase":
        return _OUTSIDE[by]
    unnamed = [one for one in snapshot.buffers or () if getattr(one, BY[by]) is None]
    recorded: dict[int | None, bool | None] = {
        one.pid: one.call_sites for one in snapshot.processes
    }
    makers = {recorded.get(one.pid) for one in unnamed}
    if makers == {False}:
        return _NOT_RECORDED.get(by, "unknown")
    unknown = _UNNAMED.get(by, "unknown")
    return _OUTSIDE.get(by, unknown) if makers == {True} else unknown


def _name(group: LiveGroup, unnamed: str, commands: Mapping[int, str | None]) -> Line:
    if group.what is What.CIRCULAR:
        return faint("circular buffers (shared)")
    if group.what is What.SUMS:
        return faint("processes known only by their totals")
    if group.what is What.UNNAMED:
        return faint(unnamed)
    if isinstance(group.key, int):
        command = commands.get(group.key)
        return ink(f"{group.key}  {short_command(command) if command else ''}".rstrip())
    return ink(clean(str(group.key)))


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
