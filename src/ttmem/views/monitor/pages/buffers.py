"""Live buffers grouped by the line that allocated them; a group opens into its single buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import cast

from ttmem.sizes import several
from ttmem.snapshots import Buffer, Snapshot
from ttmem.text import columns
from ttmem.views.dump import single_entries
from ttmem.views.dump_document import CB
from ttmem.views.figures import DRAM, L1, L1_SMALL, TRACE, Units
from ttmem.views.groups import (
    LONGEST,
    TOTALS_ONLY,
    SiteGroup,
    What,
    common_form,
    least_width,
    site_groups,
)
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.live_data import MOST_BUFFERS, chosen_names
from ttmem.views.monitor.pages.rows import (
    amount_fact,
    device_names,
    device_title,
    fact_lines,
    owners,
    why_none,
)
from ttmem.views.monitor.state import Drawn, Look, Page, terms
from ttmem.views.names import age, pids_text, time_of_day
from ttmem.views.processes import DeviceSets
from ttmem.views.table import FILTER_ONLY, GAP, GUTTER, UNLIMITED, ListColumn, figure, label, phrase

HELD_WIDTH = 9
BY_SIZE = 1  # the list of single buffers is sorted by REQUESTED until the user chooses
# The kinds that are part of a device's totals; host memory is not.
KIND_STYLES = {kind.title: kind.style for kind in (DRAM, L1, L1_SMALL, TRACE)}
NOT_LISTED = "smaller buffers, not listed"
RUN = "`ttmem run` lists each buffer"


def _kind(kind: str) -> Line:
    return ink(kind, KIND_STYLES.get(kind, Style.PLAIN))


def _allocated_by(
    groups: Sequence[SiteGroup], cut: bool, most: int = LONGEST
) -> ListColumn[SiteGroup]:
    """What people come for, so other columns give way to it. `cut`: only the largest buffers are listed."""
    listed = {group.by.pid for group in groups if group.entries}

    different = {(group.by, group.what): group for group in groups}.values()
    form = lru_cache(partial(common_form, different))  # all rows of the table alike

    def text(group: SiteGroup, width: int) -> str | None:
        if group.what is What.SUMS and cut and group.by.pid in listed:
            return NOT_LISTED
        return group.text(width, form(width))

    def draw(group: SiteGroup, width: int) -> Line:
        found = text(group, width)
        style = Style.PLAIN if found and group.entries else Style.FAINT
        return clip_line(ink(found or "N/A", style), width)

    def whole(group: SiteGroup) -> str | None:
        return text(group, UNLIMITED)

    return ListColumn(
        "ALLOCATED BY", whole, whole, width=least_width(groups, most), grow=3, draw=draw
    )


def group_columns(
    units: Units,
    groups: Sequence[SiteGroup],
    names: DeviceSets,
    commands: Mapping[int | None, str],
    growth: Callable[[SiteGroup], int | None],
    cut: bool,
    width: int,
) -> list[ListColumn[SiteGroup]]:
    """`growth`: bytes since the page was opened; None: not all buffers are listed."""

    def grown(group: SiteGroup) -> Line | None:
        more = growth(group)
        if not more:
            return None if more is None else faint("0 B")
        sign, style = ("+", Style.WARN) if more > 0 else ("-", Style.PLAIN)
        return ink(f"{sign}{units.text(abs(more))}", style)

    def devices(group: SiteGroup) -> str:
        return names.name(filter(None, group.devices))

    on_several = len({one for group in groups for one in group.devices}) > 1

    def fitted(texts: Iterable[object]) -> int:
        return max((columns(str(text)) for text in texts), default=0)

    return [
        figure("HELD", lambda row: row.held, units.text, width=HELD_WIDTH),
        ListColumn("GROWTH", grown, growth, right=True, width=10, rank=2, largest_first=True),
        figure(
            "COUNT",
            lambda row: row.count,
            width=fitted(f"{row.count:,}" for row in groups if row.count),
            rank=4,
        ),
        phrase("DEVICES", devices, width=fitted(map(devices, groups)), rank=3 if on_several else 5),
        ListColumn(
            "KIND",
            lambda row: _kind(row.by.kind),
            lambda row: row.by.kind,
            width=fitted(row.by.kind for row in groups),
            rank=1,
        ),
        label("PID", lambda row: row.by.pid, width=fitted(row.by.pid for row in groups), rank=6),
        _allocated_by(groups, cut, width - GUTTER - HELD_WIDTH - GAP),
        phrase("COMMAND", lambda row: commands.get(row.by.pid), width=16, grow=1, rank=7),
    ]


def buffer_columns(
    units: Units, now_ns: int, names: Mapping[str, str], rows: Sequence[SiteGroup], single: bool
) -> list[ListColumn[SiteGroup]]:
    """Of single buffers. `single`: of all groups, so that each row says to which it belongs."""

    def buffer(row: SiteGroup) -> Buffer:
        return cast("Buffer", row.entries[0])

    def lived(row: SiteGroup) -> int | None:
        began = buffer(row).time_ns
        return max(now_ns - began, 0) if began else None

    own: list[ListColumn[SiteGroup]] = [
        ListColumn("KIND", lambda row: _kind(row.by.kind), lambda row: row.by.kind, width=5),
        label("PID", lambda row: row.by.pid, rank=4),
        _allocated_by(rows, cut=False),
    ]
    if not single:
        own = [replace(column, key=None, rank=FILTER_ONLY) for column in own]
    return [
        phrase(
            "DEVICE",
            lambda row: names.get(buffer(row).device or ""),
            width=max(map(columns, names.values()), default=0),
        ),
        figure("REQUESTED", lambda row: buffer(row).requested, units.text),
        figure("RESERVED", lambda row: buffer(row).reserved, units.text, rank=3),
        label("ADDRESS", lambda row: buffer(row).address, hex, width=10, rank=2 * single),
        figure("AGE", lived, age, width=6, rank=single),
        *own,
    ]


def buffer_facts(
    snapshot: Snapshot, groups: Sequence[SiteGroup], shown: Sequence[SiteGroup], look: Look
) -> list[Line]:
    """Figures of all processes, or of those of --pid. `groups`: all there are; `shown`: those that match."""
    write = look.state.units.text
    counted = [one for one in groups if one.by.kind in KIND_STYLES]
    listed = [one for one in counted if one.entries]
    held, whole = _sum(listed), _sum(counted)
    whose = f" of {chosen_names(look.pids)}" if look.pids else ""
    devices = [
        getattr(one.memory, kind.lower()) for one in snapshot.devices for kind in KIND_STYLES
    ]
    every = (
        None
        if look.pids or any(use.count is None for use in devices)
        else sum(use.count for use in devices)
    )
    rest = "" if held == whole else f" ({write(whole - held)} of it not listed)"
    facts = [
        ink(_how_many(listed, held == whole, every) + whose),
        (*faint("holding "), *ink(write(whole)), *faint(rest)),
    ]
    if look.state.filter:
        matching = _sum(one for one in shown if one.by.kind in KIND_STYLES)
        facts.append(amount_fact("matching", matching, look))
    for kind, style in KIND_STYLES.items():
        if amount := _sum(one for one in counted if one.by.kind == kind):
            facts.append(amount_fact(kind, amount, look, style))
    if look.pids:
        everybody = sum(use.held for use in devices)
        facts.append(amount_fact("all processes", everybody, look))
    if on_host := sum(len(one.entries) for one in groups if one.by.kind not in KIND_STYLES):
        facts.append(faint(f"{on_host:,} in host memory, not included"))
    return facts


def _sum(groups: Iterable[SiteGroup]) -> int:
    return sum(one.held for one in groups)


def _how_many(
    listed: Sequence[SiteGroup], everything: bool = False, every: int | None = None
) -> str:
    """'150 tensors (4,800 buffers on 32 devices)'. `everything`: nothing but what is listed is allocated; `every`: the
    number of buffers on the devices, if it is known."""
    buffers, tensors = (
        sum(len(one.entries) for one in listed),
        sum(one.count or 0 for one in listed),
    )
    devices = len({device for one in listed for device in one.devices})
    if not everything and every is not None and buffers < every:
        return f"the largest {buffers:,} of {every:,} buffers"
    all_ = "all " if everything and buffers > 1 else ""
    if tensors == buffers:
        return f"{all_}{several(buffers, 'buffer')}"
    return (
        f"{all_}{several(tensors, 'tensor')} ({buffers:,} buffers on {several(devices, 'device')})"
    )


HELP = terms("""
a row | the buffers that one process allocated at one line, by kind, name and phase; Enter opens it, t lists all buffers
HELD | what they have allocated: reserved bytes where they are known, else requested bytes
GROWTH | change of HELD since the page was opened; r starts again. N/A while not all buffers are listed
COUNT | tensors; the copies of one tensor on the devices of a mesh count once
DEVICES | the devices that they are on
the largest N of M | N buffers are listed, M are allocated. `ttmem ps --by site` and `ttmem ps --json --detail buffers`
    have all of them
holding | what all buffers have allocated, without circular buffers, and how much of it is in no row
KIND | the memory it is in; SYSTEM_MEMORY is memory of the host, which is not part of any total
REQUESTED | bytes that the program asked for
RESERVED | bytes taken: per-bank block x all banks, because allocation is lock-step; N/A where the client is
    silent
ADDRESS | device address in every bank; N/A where the client is silent
AGE | time since it was allocated
ALLOCATED BY | with `ttmem run` the operation, the line of Python and the phase (ttmem.phase()); else what the client
    reports
known only as a total | the process reports sums, but no single buffers; `ttmem run` lists each buffer
""")

GROUPS = "Buffers groups"  # each table has its own cursor and sort


class BuffersPage(Page):
    """Groups of buffers, the buffers of one group, or all of them; of all devices or of the chosen one."""

    name = "Buffers"
    details = ("buffers",)
    help = HELP

    def __init__(self) -> None:
        self._all = True  # devices
        self._single = False  # buffers instead of groups
        self._open: SiteGroup | None = None  # the group whose buffers are shown
        self._before: dict[object, int] | None = None
        self._since = 0

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        if self._open:
            return (("esc", "back"), ("enter", "device"), ("s", "sort"))
        return (
            ("enter", "device" if self._single else "open"),
            ("t", "groups/buffers"),
            ("a", "all devices/chosen"),
            ("s", "sort"),
            ("r", "growth from now"),
        )

    def draw(self, look: Look) -> Drawn:
        return self._page(look).draw()

    def key(self, key: str, look: Look) -> str | None:
        page = self._page(look)
        chosen = page.table.chosen
        if key == "a":
            self._all = not self._all
            look.state.of(self.name).cursor = look.state.of(GROUPS).cursor = 0
        elif key == "t":
            self._single, self._open = not (self._single or self._open), None
        elif key == "r":
            self._before = None
        elif key == "enter" and chosen and (self._single or self._open):
            look.state.device = chosen.entries[0].device or look.state.device
            return "Device"
        elif key == "enter" and chosen:
            self._open = SiteGroup(chosen.by, chosen.what)
            look.state.of(self.name).cursor = 0
        else:
            page.key(key)
        return None

    def back(self) -> bool:
        """From the buffers of a group to the groups."""
        was_open, self._open = self._open is not None, None
        return was_open

    def _page(self, look: Look) -> ListPage[SiteGroup]:
        chosen = None if self._all and len(look.snapshot.devices) > 1 else look.device
        snapshot = look.snapshot.on_devices({chosen.unique_id}) if chosen else look.snapshot
        groups = [one for one in site_groups(snapshot) if one.by.kind != CB]
        title = device_title(chosen, look) if chosen else _all_title(look)
        if self._open:
            opened = [one for one in groups if one.key == self._open.key]
            table = self._buffer_table(opened, snapshot, look)
            facts = [ink(_how_many(opened)), amount_fact("holding", _sum(opened), look)]
            pid = self._open.by.pid
            code = self._open.text(look.width) or "N/A"
            title = ink(f" {self._open.by.kind}  {code}  pid {pid or 'N/A'}", Style.LABEL)
            return ListPage(
                [clip_line(title, look.width), *fact_lines(facts, look, 1)], table, look
            )
        listed = any(one.entries for one in groups)
        make = self._buffer_table if self._single else self._group_table
        table = make(groups if listed else [], snapshot, look)
        facts = buffer_facts(snapshot, groups, table.rows, look) if listed else []
        if listed and not self._single:
            facts.append(faint(f"growth since {time_of_day(self._since, look.zone)}"))
        note = _totals_note(groups, look) if listed else []
        return ListPage([title, *fact_lines(facts, look, 2), *note], table, look)

    def _buffer_table(
        self, groups: Sequence[SiteGroup], snapshot: Snapshot, look: Look
    ) -> Listing[SiteGroup]:
        rows = [one for one in single_entries(groups) if one.entries]
        names = device_names(look)
        return Listing(
            self.name,
            buffer_columns(look.state.units, snapshot.time_ns, names, rows, not self._open),
            rows,
            look.state,
            first=BY_SIZE,
            empty=self._why_none(snapshot, look),
        )

    def _group_table(
        self, groups: Sequence[SiteGroup], snapshot: Snapshot, look: Look
    ) -> Listing[SiteGroup]:
        before = self._baseline(look)
        ids = [None, *(one.unique_id for one in snapshot.devices)]

        def growth(one: SiteGroup) -> int | None:
            if before is None:
                return None
            return one.held - sum(before.get((one.key, device), 0) for device in ids)

        sets, commands = DeviceSets(look.names), owners(snapshot)
        return Listing(
            GROUPS,
            group_columns(
                look.state.units, groups, sets, commands, growth, before is None, look.width
            ),
            groups,
            look.state,
            empty=self._why_none(snapshot, look),
            noun="group",
        )

    def _baseline(self, look: Look) -> Mapping[object, int] | None:
        """What each group held on each device when the page was opened; None while the list is cut."""
        if len(look.snapshot.buffers or ()) >= MOST_BUFFERS:
            self._before = None
        elif self._before is None:
            self._since = look.snapshot.time_ns
            self._before = {
                (one.key, device): held
                for one in site_groups(look.snapshot)
                for device, held in one.devices.items()
            }
        return self._before

    def _why_none(self, snapshot: Snapshot, look: Look) -> str:
        if self._open:
            totals = self._open.what is What.SUMS
            return (
                f"{TOTALS_ONLY}; {RUN}" if totals else "all buffers of this group have been freed"
            )
        of = snapshot.devices[0].unique_id if len(snapshot.devices) == 1 else None
        return why_none(look.snapshot, "buffers", look.snapshot.buffers is not None, of)


def _totals_note(groups: Sequence[SiteGroup], look: Look) -> list[Line]:
    """Which processes have no call sites, and how to get them."""
    listed = {one.by.pid for one in groups if one.entries}
    blind = {one.by.pid for one in groups if one.by.pid and one.by.pid not in listed}
    text = f" {pids_text(sorted(filter(None, blind)))}: {TOTALS_ONLY}; {RUN}"
    return [clip_line(faint(text), look.width)] if blind else []


def _all_title(look: Look) -> Line:
    count = len(look.snapshot.devices)
    text = f" all {count:,} devices" if count > 1 else f" {count or 'no'} device"
    return ink(text, Style.LABEL)
