"""`ttmem dump` as text: a row for each call site, or for each single entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache, partial
from typing import NamedTuple

from ttmem.analysis.leftovers import Check
from ttmem.events import CLOSED, LABELS, Amounts
from ttmem.sizes import human, several
from ttmem.snapshots import Buffer, CircularBuffer, Device, Kernel, MadeBy, Snapshot
from ttmem.text import short_command
from ttmem.views.dump_document import entry_id, entry_size, references
from ttmem.views.figures import Units, amount, counted, known
from ttmem.views.groups import SiteGroup, What, common_form, least_width, site_groups
from ttmem.views.ink import EMPTY, Line, Style, faint, flow, indent, ink, paint
from ttmem.views.names import (
    DeviceNames,
    age,
    in_order,
    model,
    pids_text,
    short_pci,
    time_of_day,
    used_devices,
)
from ttmem.views.notes import (
    Note,
    blind_notes,
    instant_notes,
    loss_notes,
    note_lines,
    remark_notes,
    unlisted_notes,
)
from ttmem.views.processes import LEFT_REMARK, left_behind_table
from ttmem.views.selection import without_idle
from ttmem.views.table import Column, page, section, table_of, title_lines

NOTHING = "nothing is allocated"
NOTHING_READ = "nothing is allocated, as far as you may read"
SHARED = (
    "CB: cached programs share addresses, so they hold less than the sum of what each requested "
    "(docs/circular-buffers.md)"
)
GONE = "by processes that have ended, not part of any total"
LEAST_COMMAND = len("generate.py")


def single_entries(groups: Iterable[SiteGroup]) -> list[SiteGroup]:
    """A group for each entry; totals stay as they are."""
    out = []
    for group in groups:
        for entry in group.entries:
            one = SiteGroup(group.by, group.what)
            one.add(entry, entry.held if isinstance(entry, Buffer) else entry_size(entry))
            out.append(one)
        out += [] if group.entries else [group]
    return sorted(out, key=lambda one: -one.held)


def kernel_groups(snapshot: Snapshot) -> list[SiteGroup]:
    """Kernel code by type and process, largest first."""
    found: dict[MadeBy, SiteGroup] = {}
    for kernel in snapshot.kernels or ():
        by = MadeBy(kernel.pid, f"{kernel.type.title()} kernels", None, None, None)
        found.setdefault(by, SiteGroup(by)).add(kernel, kernel.footprint)
    return sorted(found.values(), key=lambda one: -one.held)


def _described(group: SiteGroup) -> str | None:
    """What a single entry belongs to; None for a buffer that is allocated once."""
    entry = group.entries[0]
    if isinstance(entry, Buffer) and entry.references <= 1:
        return None
    texts = [
        f"{references(entry):,} references" if references(entry) > 1 else None,
        None if isinstance(entry, CircularBuffer) else entry.name,
        f"program {entry.program}" if not isinstance(entry, Buffer) and entry.program else None,
        f"{entry.cores} cores" if isinstance(entry, Kernel) and entry.cores else None,
        None if isinstance(entry, CircularBuffer) else entry.site and entry.site.partition("\n")[0],
    ]
    return "  ".join(text for text in texts if text)


class _Tables(NamedTuple):
    """How tables are drawn; those of live processes differ from those of ended ones in two columns."""

    names: DeviceNames
    single: bool
    top: int
    width: int
    owner: Column[SiteGroup]
    age: Column[SiteGroup]

    def memory(self, snapshot: Snapshot, groups: Sequence[SiteGroup]) -> list[Line]:
        if not groups:
            return []
        found = single_entries(groups) if self.single else groups
        columns = [KIND]
        if self.single:
            columns += [replace(REQUESTED, title="SIZE", rank=0), self.age, ADDRESS]
        else:
            columns.append(Column("HELD", lambda row: human(row.held), right=True))
            if any(row.requested not in (None, row.held) for row in found):
                columns.append(REQUESTED)
            columns.append(COUNT)
        lines = [
            *_legend(_held_on(snapshot, groups), self.names, self.width),
            *self._rows(found, columns, "ALLOCATED BY"),
        ]
        if not self.single:
            total = human(sum(row.held for row in groups if row.by.kind in LABELS))
            rows = faint(f" in {several(len(found), 'row')}")
            lines.append((*ink(" total ", Style.TITLE), *ink(total), *rows))
        return lines

    def kernels(self, snapshot: Snapshot) -> list[Line]:
        found = kernel_groups(snapshot)
        if not found:
            return []
        columns = [KIND, Column("FOOTPRINT", lambda row: human(row.held), right=True)]
        if self.single:
            return self._rows(single_entries(found), columns, "KERNEL")
        return self._rows(found, [*columns, COUNT], "")

    def _rows(
        self, found: Sequence[SiteGroup], columns: Sequence[Column[SiteGroup]], site: str
    ) -> list[Line]:
        shown, hidden = (found[: self.top], found[self.top :]) if self.top else (found, [])
        form = lru_cache(partial(common_form, shown))
        origin: Column[SiteGroup] = Column(
            site,
            lambda row: partial(_allocated_by, row, self.single, form),
            width=least_width(shown),
            grow=3,
        )
        columns = [
            *columns,
            Column("DEVICES", lambda row: self.names.some(filter(None, row.devices))),
            Column("PID", lambda row: str(row.by.pid) if row.by.pid else None, right=True),
            *([origin] if site else []),
            self.owner,
        ]
        lines = table_of(columns, shown).fitted_lines(self.width)
        if hidden:
            rest = human(sum(row.held for row in hidden))
            lines.append(
                faint(f" and {several(len(hidden), 'more row')}, {rest}; --top 0 lists all")
            )
        return lines


KIND: Column[SiteGroup] = Column("KIND", lambda row: ink(row.by.kind, Style.TITLE))
COUNT: Column[SiteGroup] = Column("COUNT", lambda row: counted(row.count), right=True)
REQUESTED: Column[SiteGroup] = Column(
    "REQUESTED", lambda row: amount(Units.BINARY, row.requested), right=True, rank=3
)
ADDRESS: Column[SiteGroup] = Column("ADDRESS", lambda row: _hex(row), right=True, rank=2)


def render_dump(
    snapshot: Snapshot,
    never_freed: Snapshot | None = None,
    ended_ns: Mapping[int, int | None] | None = None,
    *,
    single: bool = False,
    top: int = 0,
    user: str | None = None,
    width: int,
    color: bool,
    zone: tzinfo | None = None,
    chosen: bool = False,
) -> str:
    """What is allocated, what dead processes left behind or never freed, and what was lost.

    `never_freed`: ended processes as if they still held it; `ended_ns`: by pid, when they ended. `single`: a row for
    each buffer instead of one for each call site. `top`: only so many rows, 0 for all. `user`: the caller; what others
    never freed is marked. `chosen`: a part was selected.
    """
    ends: dict[int | None, int | None] = dict((ended_ns or {}).items())
    commands: dict[int | None, str | None] = {one.pid: one.command for one in snapshot.processes}
    seen = snapshot if chosen else without_idle(snapshot)[0]
    ended = never_freed or replace(snapshot.without_details(), devices=(), processes=())
    names = DeviceNames([*seen.devices, *ended.devices], used_devices(seen) or None)

    def command(row: SiteGroup) -> Line:
        return known((whole := commands.get(row.by.pid)) and short_command(whole))

    def end(row: SiteGroup) -> Line:
        at = ends.get(row.by.pid)
        return known(None if at is None else time_of_day(at, zone))

    def lasted(row: SiteGroup, until: int | None) -> Line:
        began = row.entries[0].time_ns if row.entries else 0
        return faint(age(until - began) if until and began else "N/A")

    live = _Tables(
        names,
        single,
        top,
        width,
        Column("COMMAND", command, width=LEAST_COMMAND, grow=2, rank=1),
        Column("AGE", lambda row: lasted(row, snapshot.time_ns), right=True, rank=2),
    )
    gone = live._replace(
        owner=Column("ENDED", end, width=LEAST_COMMAND),
        age=Column("LIVED", lambda row: lasted(row, ends.get(row.by.pid)), right=True, rank=2),
    )
    allocated, kept = site_groups(snapshot), site_groups(ended)
    shown = {group.by.pid for group in kept}
    left = (one for one in snapshot.left_behind if one.pid not in shown)
    others = replace(snapshot, left_behind=tuple(left))
    closed = any(remark.kind in CLOSED for remark in snapshot.remarks)
    nothing = ink(NOTHING_READ if closed else NOTHING)
    what = "largest first" if single else "by call site; --all lists single buffers"
    code = "not part of any total; FOOTPRINT: if resident everywhere"
    sections = [
        title_lines(seen, width, zone),
        section("ALLOCATED", what, live.memory(snapshot, allocated)) or [nothing],
        section("NEVER FREED", GONE, gone.memory(ended, kept)),
        section("LEFT BEHIND", LEFT_REMARK, left_behind_table(others, names, width)),
        section("KERNEL CODE", code, live.kernels(snapshot)),
        note_lines(
            [
                *remark_notes(snapshot),
                *instant_notes(snapshot),
                *unlisted_notes({one.pid: one.overflow for one in ended.processes if one.overflow}),
                *loss_notes(snapshot, chosen),
                *_shared_notes(allocated),
                *_unseen_ends(kept, ends),
                *_of_others(ended, user),
                *blind_notes(replace(snapshot, devices=_held_on(snapshot, allocated)), names),
            ],
            width,
        ),
    ]
    return page(sections, width, color)


def _held_on(snapshot: Snapshot, groups: Iterable[SiteGroup]) -> tuple[Device, ...]:
    held = {device for group in groups for device in group.devices}
    return tuple(one for one in in_order(snapshot).devices if one.unique_id in held)


def _legend(devices: Sequence[Device], names: DeviceNames, width: int) -> list[Line]:
    """A legend for device numbers: the ids of each device, or one line for many of the same model."""
    models: dict[str, list[Device]] = {}
    for device in devices:
        models.setdefault(model(replace(device, position=None)), []).append(device)
    facts = []
    for name, same in models.items():
        one, *others = same
        more = () if others else (short_pci(one), one.unique_id)
        said = names.sentence(device.unique_id for device in same)
        facts.append(faint(" ".join([said, name, *filter(None, more)])))
    return indent(flow(facts, width - 1), 1)


def _allocated_by(row: SiteGroup, single: bool, form: Callable[[int], int], width: int) -> Line:
    text = _described(row) if single and row.entries else None
    if text is not None:
        return known(text)
    text = row.text(width, form(width))
    return ink(text) if text and row.what is What.NAMED else faint(text or "N/A")


def _hex(row: SiteGroup) -> Line:
    """The address, or the id of an entry without one."""
    if not row.entries:
        return known(None)
    entry = row.entries[0]
    number = None if isinstance(entry, Kernel) else entry.address
    number = entry_id(entry) if number is None else number
    return known(None if number is None else f"{number:#x}")


def _shared_notes(groups: Iterable[SiteGroup]) -> list[Note]:
    shared = any(one.what is What.CIRCULAR and (one.requested or 0) > one.held for one in groups)
    return [Note("-", Style.FAINT, SHARED)] if shared else []


def _unseen_ends(groups: Iterable[SiteGroup], ends: Mapping[int | None, int | None]) -> list[Note]:
    pids = sorted({one.by.pid for one in groups if one.by.pid and ends.get(one.by.pid) is None})
    text = f"{pids_text(pids)}: killed while ttmem was not watching, so the time is unknown"
    return [Note("-", Style.FAINT, text)] if pids else []


def _of_others(ended: Snapshot, user: str | None) -> list[Note]:
    return [
        Note("-", Style.FAINT, f"pid {one.pid}: belongs to user {one.user}; --exit-code ignores it")
        for one in sorted(ended.processes, key=lambda one: (one.user or "", one.pid))
        if user and one.user and one.user != user and Amounts.total(one.devices.values()).all
    ]


def render_check(check: Check, *, width: int, color: bool) -> str:
    """What the check of --exit-code found."""
    if check.reasons:
        outcome = several(len(check.reasons), "problem")
    else:
        outcome = "no verdict" if check.not_judged else "passed"
    head = ink(
        f"leak check ({check.rule}): {outcome}", Style.ALARM if check.failed else Style.PLAIN
    )
    notes = [
        *(Note("!", Style.WARN, reason) for reason in check.reasons),
        *(Note("!", Style.WARN, f"no verdict: {reason}") for reason in check.not_judged),
        *(Note("-", Style.FAINT, hint) for hint in check.hints),
    ]
    return paint([EMPTY, head, *note_lines(notes, width)], width, color)
