"""What each line of code holds: the rows of `ttmem dump` and the Buffers page, and the sums of `ttmem ps --by`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum
from typing import Any

from ttmem.events import LABELS, Amounts
from ttmem.probe.report import Origin
from ttmem.sizes import human
from ttmem.snapshots import Buffer, CircularBuffer, MadeBy, Snapshot, to_json
from ttmem.text import clean, short_command
from ttmem.views.analysis.call_sites import form_of, made_by, short_site
from ttmem.views.dump_document import CB, Entry, copies, counted_bytes, entry_size
from ttmem.views.figures import counted
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.meter import share_text
from ttmem.views.names import pids_text
from ttmem.views.notes import Note, instant_notes, loss_notes, note_lines, remark_notes
from ttmem.views.selection import BY, TITLES
from ttmem.views.table import Cell, Column, page, section, table_of, title_lines


class What(Enum):
    """What a group is made of."""

    NAMED = "buffers"
    UNNAMED = "buffers without a name"  # site, op or phase is unknown
    SUMS = "sums only"  # processes whose buffers are not known one by one
    CIRCULAR = "circular buffers"


TOTALS_ONLY = "known only as a total"
SHARED_CBS = "circular buffers of cached programs"
SHORTEST, LONGEST = 24, 36  # columns that a narrow screen keeps for the code that allocated


@dataclass(slots=True)
class SiteGroup:
    """What one process holds in one kind of memory, allocated by one line of code in one phase."""

    by: MadeBy
    what: What = What.NAMED
    entries: list[Entry] = field(default_factory=list)
    devices: dict[str | None, int] = field(default_factory=dict)  # bytes held on each
    requested: int | None = 0
    copies: dict[object, int] = field(default_factory=dict)  # of each: references

    @property
    def key(self) -> tuple[What, MadeBy]:
        return self.what, self.by

    @property
    def held(self) -> int:
        return sum(self.devices.values())

    @property
    def count(self) -> int | None:
        """Copies of one tensor on the devices of a mesh count once; None: only a total is known."""
        return sum(self.copies.values()) or None

    def add(self, entry: Entry, held: int) -> None:
        self.entries.append(entry)
        self.hold(entry.device, held)
        times = copies(entry)
        self.requested = (self.requested or 0) + entry_size(entry) * times
        self.copies[_allocation(entry)] = times

    def hold(self, device: str | None, held: int) -> None:
        self.devices[device] = self.devices.get(device, 0) + held

    @property
    def origin(self) -> Origin | None:
        """The code that allocated; None if neither operation nor line is known."""
        _, _, name, site, phase = self.by
        return Origin(name, site, phase) if self.what is What.NAMED and (name or site) else None

    def text(self, width: int, form: int = 0) -> str | None:
        """'ttnn.matmul  model.py:42 forward  in decode', shortened to `width`; None if nothing is known.

        `form`: that of all rows of the table, see `common_form`.
        """
        if self.what is not What.NAMED:
            return TOTALS_ONLY if self.what is What.SUMS else SHARED_CBS
        if self.origin is None:
            return self.by.phase and f"in {clean(self.by.phase)}"
        return made_by(self.origin, width, "", form)


def common_form(groups: Iterable[SiteGroup], width: int) -> int:
    """What does not fit into one row is left out of all of them: functions, 'ttnn.', phases."""
    origins = (group.origin for group in groups)
    return max((form_of(origin, width) for origin in origins if origin), default=0)


def least_width(groups: Iterable[SiteGroup], most: int = LONGEST) -> int:
    """Columns in which op, file and phase of each group fit, if that is not too many."""
    shortest = [
        len(f"{by.name or ''}  {place}{f'  in {by.phase}' if by.phase else ''}")
        for by in (group.by for group in groups)
        for place in [(by.site or "").partition(" ")[0].rpartition("/")[2]]
    ]
    return min(max([SHORTEST, *shortest]), LONGEST, max(most, SHORTEST))


def _allocation(entry: Entry) -> object:
    """The same for the copies of one entry on the devices of a mesh."""
    if isinstance(entry, Buffer):
        return entry.allocation
    if isinstance(entry, CircularBuffer):
        return entry.program, entry.address, entry.size
    return entry.id, entry.footprint


def site_groups(snapshot: Snapshot) -> list[SiteGroup]:
    """All memory of a snapshot with the detail `buffers`, largest first; what no list contains, as totals."""
    found: dict[tuple[What, MadeBy], SiteGroup] = {}

    def group(what: What, by: MadeBy) -> SiteGroup:
        return found.get((what, by)) or found.setdefault((what, by), SiteGroup(by, what))

    listed: Counter[tuple[int | None, str | None, str]] = Counter()
    for buffer in snapshot.buffers or ():
        group(What.NAMED, buffer.made_by).add(buffer, buffer.held)
        listed[buffer.pid, buffer.device, buffer.kind] += buffer.held
    for circular in snapshot.circular_buffers or ():
        if not circular.is_global:  # it lies on an L1 buffer that is listed itself
            by = MadeBy(circular.pid, CB, None, None, None)
            group(What.CIRCULAR, by).add(circular, 0)
    ids = {device.unique_id for device in snapshot.devices}
    for process in snapshot.processes:
        for device, amounts in process.devices.items():
            for kind, held in amounts.by_label().items() if device in ids else ():
                by = MadeBy(process.pid, kind, None, None, None)
                seen = listed[process.pid, device, kind]
                if kind == CB and (What.CIRCULAR, by) in found:
                    group(What.CIRCULAR, by).hold(device, held)
                elif held > seen:
                    rest = group(What.SUMS, by)
                    rest.hold(device, held - seen)
                    asked = None if seen else counted_bytes(kind, process, held)
                    known = rest.requested is not None and asked is not None
                    rest.requested = (rest.requested or 0) + (asked or 0) if known else None
    return sorted(found.values(), key=lambda one: -one.held)


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """`held` counts reserved bytes where they are known, else requested ones, as all totals do."""

    what: What
    key: str | int | None
    held: Amounts
    count: int | None  # buffers; None if unknown


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups, largest first, and their sum, which equals that of the processes."""

    by: str
    groups: tuple[LiveGroup, ...]
    total: LiveGroup
    unnamed: frozenset[int | None] = frozenset()  # pids of the buffers without a name


def live_groups(snapshot: Snapshot, by: str) -> Grouped:
    """Of a snapshot with the detail `buffers`, or none where all sources have sums only."""
    found: dict[tuple[What, str | int | None], list[SiteGroup]] = {}
    if by == "pid":
        found = {(What.NAMED, process.pid): [] for process in snapshot.processes}
    for one in site_groups(snapshot):
        if one.by.kind in LABELS:  # host memory is not counted
            found.setdefault(_key(one, by), []).append(one)
    groups = [LiveGroup(*key, _held(parts), _count(key[0], parts)) for key, parts in found.items()]
    order = list(What)
    ordered = sorted(
        (group for group in groups if group.held.all or group.what is What.NAMED),
        key=lambda group: (order.index(group.what), -group.held.all),
    )
    counts = [group.count for group in ordered if group.count is not None]
    count = sum(counts) if len(counts) == len(ordered) else None
    total = Amounts.total(group.held for group in ordered)
    unnamed = frozenset(one.by.pid for one in found.get((What.UNNAMED, None), ()))
    return Grouped(by, tuple(ordered), LiveGroup(What.SUMS, None, total, count), unnamed)


def _key(group: SiteGroup, by: str) -> tuple[What, str | int | None]:
    """A process has its circular buffers to itself; else they are shared."""
    if by == "pid":
        return What.NAMED, group.by.pid
    if group.by.kind == CB:
        return What.CIRCULAR, None
    value = None if group.what is What.SUMS else getattr(group.by, BY[by])
    return (What.UNNAMED if value is None and group.what is What.NAMED else group.what), value


def _held(groups: Iterable[SiteGroup]) -> Amounts:
    sums = dict.fromkeys(LABELS, 0)
    for group in groups:
        sums[group.by.kind] += group.held
    return Amounts._make(sums.values())


def _count(what: What, groups: Sequence[SiteGroup]) -> int | None:
    """Buffers alone are counted; None: there are some, but nobody has counted them."""
    count = sum(len(one.copies) for one in groups if one.what is What.NAMED)
    held = any(one.held for one in groups)
    return None if held and not count and what is not What.CIRCULAR else count


SCHEMA = "ttmem.groups/1"
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
        **group_rows(grouped),
        "losses": whole["losses"],
    }


def group_rows(grouped: Grouped) -> dict[str, Any]:
    """The part of the document that is about the groups."""
    whole = grouped.total.held
    return {
        "by": grouped.by,
        "groups": [
            {
                grouped.by: group.key,
                "what": group.what.value,
                **_amounts(group),
                "share": {
                    "dram": _share(group.held.dram, whole.dram),
                    "l1_used": _share(group.held.l1_used, whole.l1_used),
                },
            }
            for group in grouped.groups
        ],
        "total": _amounts(grouped.total),
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
    lines = table_of(_columns(snapshot, grouped), [*grouped.groups, grouped.total]).fitted_lines(
        width
    )
    sections = [
        title_lines(snapshot, width, zone),
        section(f"LIVE BYTES BY {TITLES[grouped.by]}", "of all devices shown", lines)
        if grouped.groups
        else [ink(NOTHING)],
        note_lines(
            [
                *loss_notes(snapshot, chosen),
                *_totals_note(snapshot, grouped.by),
                *remark_notes(snapshot),
                *instant_notes(snapshot),
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


def _columns(snapshot: Snapshot, grouped: Grouped) -> list[Column[LiveGroup]]:
    commands = {process.pid: process.command for process in snapshot.processes}
    unnamed, total = _unnamed(snapshot, grouped), grouped.total

    def of(kind: str, title: str, share: bool = True) -> list[Column[LiveGroup]]:
        def part(group: LiveGroup) -> Line:
            portion = _share(getattr(group.held, kind), getattr(total.held, kind))
            return ink(share_text(portion)) if portion else faint("-")

        def held(group: LiveGroup) -> Line:
            bytes_ = getattr(group.held, kind)
            return ink(human(bytes_)) if bytes_ else faint("-")

        amounts: Column[LiveGroup] = Column(title, held, right=True)
        return [amounts, Column("SHARE", part, right=True)] if share else [amounts]

    def name(group: LiveGroup) -> Cell:
        if group is total:
            return ink("total", Style.TITLE)
        return _name(group, grouped.by, unnamed, commands)

    return [
        *of("dram", "DRAM"),
        *of("l1_used", "L1 used"),
        *(of("trace", "TRACE", share=False) if total.held.trace else []),
        Column(
            "BUFFERS",
            lambda group: counted(group.count) if group.count != 0 else faint("-"),
            right=True,
        ),
        Column(TITLES[grouped.by], name, grow=1),
    ]


def _unnamed(snapshot: Snapshot, grouped: Grouped) -> str:
    """Why buffers have no name; this depends on what reported them."""
    by = grouped.by
    if by == "phase":
        return _OUTSIDE[by]
    recorded: dict[int | None, bool | None] = {
        one.pid: one.call_sites for one in snapshot.processes
    }
    makers = {recorded.get(pid) for pid in grouped.unnamed}
    if makers == {False}:
        return _NOT_RECORDED.get(by, "unknown")
    unknown = _UNNAMED.get(by, "unknown")
    return _OUTSIDE.get(by, unknown) if makers == {True} else unknown


def _name(group: LiveGroup, by: str, unnamed: str, commands: Mapping[int, str | None]) -> Cell:
    if group.what is What.CIRCULAR:
        return faint("circular buffers (shared)")
    if group.what is What.SUMS:
        return faint("processes known only by their totals")
    if group.what is What.UNNAMED:
        return faint(unnamed)
    if isinstance(group.key, int):
        command = commands.get(group.key)
        return ink(f"{group.key}  {short_command(command) if command else ''}".rstrip())
    site = str(group.key).split("\n", 1)[0]
    return (lambda width: ink(short_site(site, width))) if by == "site" else ink(site)


def _amounts(group: LiveGroup) -> dict[str, int | None]:
    return {**group.held._asdict(), "l1_used": group.held.l1_used, "count": group.count}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
