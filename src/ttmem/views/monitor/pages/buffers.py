"""Live buffers grouped by the line that allocated them; a group opens into its single buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ttmem.events import Amounts, MemoryKind
from ttmem.sizes import several
from ttmem.snapshots import Buffer, Device, MemoryUse, Snapshot
from ttmem.text import columns
from ttmem.views.figures import Units
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.pages.rows import (
    DeviceSets,
    amount_fact,
    device_names,
    device_title,
    fact_lines,
    on_device,
    owners,
    why_none,
)
from ttmem.views.monitor.state import Drawn, Look, terms
from ttmem.views.monitor.watch import MOST_BUFFERS, chosen_names
from ttmem.views.names import age, time_of_day
from ttmem.views.table import ListColumn, figure, label, phrase

Row = TypeVar("Row")
KIND_STYLES = {
    "DRAM": Style.DRAM,
    "L1": Style.L1,
    "L1_SMALL": Style.L1_SMALL,
    "TRACE": Style.TRACE,
}  # the kinds that are part of a device's totals; host memory is not


class BufferEntry(NamedTuple):
    """A live buffer; None: unknown."""

    buffer: Buffer
    device: str | None  # its name on screen
    owner: str | None
    age: int | None  # nanoseconds


def buffer_entries(snapshot: Snapshot, device: str | None) -> list[BufferEntry] | None:
    """The listed buffers, of one device if named; None if no source lists buffers."""
    found = on_device(snapshot.buffers, device)
    if found is None:
        return None
    devices = device_names(snapshot.devices)
    commands = owners(snapshot)
    return [
        BufferEntry(
            one,
            devices.get(one.device or ""),
            commands.get(one.pid),
            max(snapshot.time_ns - one.time_ns, 0) if one.time_ns else None,
        )
        for one in found
    ]


def counted(rows: Iterable[BufferEntry]) -> list[BufferEntry]:
    """Those that are part of a device's totals."""
    return [row for row in rows if row.buffer.kind in KIND_STYLES]


BY_SIZE = 2  # the list of single buffers is sorted by REQUESTED until the user chooses


def buffer_columns(
    units: Units, devices: Iterable[str], several: bool, phases: bool
) -> list[ListColumn[BufferEntry]]:
    """`several`: the buffers are on more than one device; `phases`: some have one."""
    widest = max(map(columns, devices), default=0)
    return [
        phrase("DEVICE", lambda row: row.device, width=widest, rank=0 if several else 8),
        ListColumn(
            "KIND", lambda row: _kind(row.buffer.kind), lambda row: row.buffer.kind, width=8
        ),
        figure("REQUESTED", lambda row: row.buffer.requested, units.text),
        figure("RESERVED", lambda row: row.buffer.reserved, units.text, rank=4),
        label("ADDRESS", lambda row: row.buffer.address, hex, width=10, rank=5),
        figure("AGE", lambda row: row.age, age, width=6, rank=3),
        label("PID", lambda row: row.buffer.pid, width=7),
        phrase("NAME", lambda row: row.buffer.name, width=12, grow=1, rank=2),
        phrase("CALL SITE", lambda row: row.buffer.site, width=20, grow=2, rank=1, keep_end=True),
        *_phase_column(phases, lambda row: row.buffer),
        phrase("COMMAND", lambda row: row.owner, width=20, grow=1, rank=7),
    ]


def _kind(kind: str) -> Line:
    return ink(kind, KIND_STYLES.get(kind, Style.PLAIN))


def _phase_column(phases: bool, buffer: Callable[[Row], Buffer]) -> list[ListColumn[Row]]:
    column: ListColumn[Row] = phrase(
        "PHASE", lambda row: buffer(row).phase or "", width=12, grow=1, rank=6
    )
    return [column] if phases else []


GroupKey = tuple[int | None, str, str | None, str | None, str | None]


def group_key(buffer: Buffer) -> GroupKey:
    """Process, kind, name, call site, phase."""
    return buffer.pid, buffer.kind, buffer.name, buffer.site, buffer.phase


class BufferGroup(NamedTuple):
    """Buffers of one process from one call site. The copies of a tensor on the chips of a mesh count once."""

    rows: list[BufferEntry]
    devices: str  # '0-3'
    tensors: int
    held: int
    growth: int | None  # bytes since the page was opened; None: not all buffers are listed

    @property
    def first(self) -> Buffer:
        return self.rows[0].buffer


def buffer_groups(
    rows: Iterable[BufferEntry],
    names: DeviceSets,
    devices: Iterable[str],
    before: Mapping[tuple[GroupKey, str | None], int] | None,
) -> list[BufferGroup]:
    """`before`: what each group held on each of these devices when the page was opened."""
    found: dict[GroupKey, list[BufferEntry]] = {}
    for row in rows:
        found.setdefault(group_key(row.buffer), []).append(row)
    ids = [None, *devices]
    groups = []
    for key, of in found.items():
        held = sum(row.buffer.held for row in of)
        on = dict.fromkeys(row.buffer.device for row in of if row.buffer.device)
        copies = {_copy(row.buffer) for row in of}
        growth = None if before is None else held - sum(before.get((key, one), 0) for one in ids)
        groups.append(BufferGroup(of, names.name(on), len(copies), held, growth))
    return sorted(groups, key=lambda group: -group.held)


def _copy(buffer: Buffer) -> tuple[int, int]:
    """The same for all copies of a tensor on a mesh: allocation is in lock step, so they share an address."""
    return (buffer.id if buffer.address is None else buffer.address), buffer.requested


def group_columns(units: Units, phases: bool, listed: int) -> list[ListColumn[BufferGroup]]:
    def growth(group: BufferGroup) -> Line | None:
        if not group.growth:
            return None if group.growth is None else faint("0 B")
        sign = "+" if group.growth > 0 else "-"
        style = Style.WARN if group.growth > 0 else Style.PLAIN
        return ink(sign + units.text(abs(group.growth)), style)

    return [
        figure("TOTAL", lambda row: row.held, units.text, width=9),
        ListColumn(
            "GROWTH", growth, lambda row: row.growth, right=True, width=10, largest_first=True
        ),
        figure("COUNT", lambda row: row.tensors, width=max(5, len(f"{listed:,}"))),
        phrase("DEVICES", lambda row: row.devices, width=9, rank=5),
        ListColumn("KIND", lambda row: _kind(row.first.kind), lambda row: row.first.kind, width=8),
        label("PID", lambda row: row.first.pid, width=7, rank=4),
        phrase("NAME", lambda row: row.first.name, width=12, grow=1, rank=2),
        phrase("CALL SITE", lambda row: row.first.site, width=20, grow=2, rank=1, keep_end=True),
        *_phase_column(phases, lambda row: row.first),
        phrase("COMMAND", lambda row: row.rows[0].owner, width=16, grow=1, rank=3),
    ]


@dataclass(frozen=True, slots=True)
class _Allocated:
    """What all_of is to list: bytes by kind, and the number of buffers (None: unknown)."""

    held: dict[str, int]
    count: int | None
    whose: str = ""

    @property
    def all(self) -> int:
        return sum(self.held.values())


def buffer_facts(
    devices: Sequence[Device], rows: Sequence[BufferEntry], shown: Sequence[BufferEntry], look: Look
) -> list[Line]:
    """Figures of all processes, or of those of --pid. `rows`: all that are listed; `shown`: those that match."""
    write = look.state.units.text
    listed = counted(rows)
    everybody = _of_devices(devices)
    all_of = _of_chosen(devices, look) if look.pids else everybody
    facts = [
        _how_many(len(listed), all_of, _sum(listed) == all_of.all),
        (*faint("holding "), *ink(write(_sum(listed))), *faint(f" of {write(all_of.all)}")),
        *(amount_fact(kind, all_of.held[kind], look, style) for kind, style in KIND_STYLES.items()),
    ]
    if look.state.filter:
        facts.insert(2, amount_fact("matching", _sum(counted(shown)), look))
    if look.pids:
        facts.append(amount_fact("all processes", everybody.all, look))
    if on_host := sum(row.buffer.kind == MemoryKind.SYSTEM_MEMORY.name for row in rows):
        facts.append(faint(f"{on_host:,} in host memory, not included"))
    return facts


def _of_devices(devices: Sequence[Device]) -> _Allocated:
    uses = {kind: _uses(devices, kind) for kind in KIND_STYLES}
    counts = [use.count for kind in uses.values() for use in kind]
    known = [count for count in counts if count is not None]
    return _Allocated(
        {kind: sum(use.held for use in of) for kind, of in uses.items()},
        sum(known) if len(known) == len(counts) else None,
    )


def _of_chosen(devices: Sequence[Device], look: Look) -> _Allocated:
    """The buffers of one process are not counted, but their sum shows whether the list is complete."""
    ids = {device.unique_id for device in devices}
    held = _holdings(look.snapshot, ids)
    sums = {kind: sum(getattr(one, kind.lower()) for one in held) for kind in KIND_STYLES}
    return _Allocated(sums, None, f" of {chosen_names(look.pids)}")


def _holdings(snapshot: Snapshot, ids: set[str]) -> list[Amounts]:
    return [
        held for one in snapshot.processes for device, held in one.devices.items() if device in ids
    ]


def _uses(devices: Sequence[Device], kind: str) -> list[MemoryUse]:
    return [getattr(device.memory, kind.lower()) for device in devices]


def _how_many(listed: int, all_of: _Allocated, everything: bool) -> Line:
    """`everything`: the listed buffers add up to all that is allocated."""
    if everything or all_of.count == listed:
        return ink(("1 buffer" if listed == 1 else f"all {listed:,} buffers") + all_of.whose)
    if all_of.whose:
        return ink(f"{several(listed, 'listed buffer')}{all_of.whose}")
    if all_of.count is None:
        return ink(f"{several(listed, 'buffer')} listed; some processes report only sums;")
    if listed < all_of.count:
        return ink(f"the largest {listed:,} of {all_of.count:,} buffers")
    return ink(f"all {listed:,} buffers")


def _sum(rows: Sequence[BufferEntry]) -> int:
    return sum(row.buffer.held for row in rows)


HELP = terms("""
a row | the buffers that one process allocated at one line, by kind, name and phase; Enter opens it, t lists all buffers
TOTAL | what they have allocated: reserved bytes where they are known, else requested bytes
GROWTH | change of TOTAL since the page was opened; r starts again. N/A while not all buffers are listed
COUNT | tensors; the copies of one tensor on the chips of a mesh count once
DEVICES | the chips that they are on
the largest N of M | N buffers are listed, M are allocated. `ttmem ps --by site` and `ttmem ps --json --detail buffers`
    have all of them
A of B | A: what the listed buffers have allocated; B: all buffers, without circular buffers
KIND | the memory it is in; SYSTEM_MEMORY is memory of the host, which is not part of any total
REQUESTED | bytes that the program asked for
RESERVED | bytes taken: per-bank block x all banks, because allocation is lock-step; N/A where the client is
    silent
ADDRESS | device address in every bank; N/A where the client is silent
AGE | time since it was allocated
NAME, CALL SITE | with `ttmem run` the operation and the line of Python; else what the client reports
PHASE | what the program was doing, as it said with ttmem.phase()
""")

GROUPS = "Buffers groups"  # each table has its own cursor and sort


class Buffers:
    """Groups of buffers, the buffers of one group, or all of them; of all devices or of the chosen one."""

    name = "Buffers"
    keys = (
        ("enter", "open"),
        ("t", "groups/buffers"),
        ("a", "all devices/chosen"),
        ("s", "sort"),
        ("r", "growth from now"),
    )
    details = ("buffers",)
    help = HELP

    def __init__(self) -> None:
        self._all = True  # devices
        self._single = False  # buffers instead of groups
        self._open: GroupKey | None = None  # the group whose buffers are shown
        self._before: dict[tuple[GroupKey, str | None], int] | None = None
        self._since = 0

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
        elif key == "enter" and isinstance(chosen, BufferGroup):
            self._open = group_key(chosen.first)
            look.state.of(self.name).cursor = 0
        elif key == "enter" and isinstance(chosen, BufferEntry):
            look.state.device = chosen.buffer.device or look.state.device
            return "Device"
        else:
            page.key(key)
        return None

    def back(self) -> bool:
        """From the buffers of a group to the groups."""
        was_open, self._open = self._open is not None, None
        return was_open

    def _page(self, look: Look) -> ListPage[Any]:
        on_all = self._all and len(look.snapshot.devices) > 1
        chosen = None if on_all else look.device
        devices = look.snapshot.devices if chosen is None else (chosen,)
        rows = buffer_entries(look.snapshot, chosen.unique_id if chosen else None) or []
        title = device_title(chosen, look) if chosen else _all_title(look)
        if self._single or self._open:
            table: Listing[Any] = self._buffer_table(rows, devices, look)
            shown = table.rows
        else:
            table = self._group_table(rows, devices, look)
            shown = [row for group in table.rows for row in group.rows]
        facts = buffer_facts(devices, rows, shown, look) if rows else []
        if self._open:
            title = clip_line((*title, *ink(f"  {_opened(self._open)}")), look.width)
        elif not self._single and rows:
            facts.append(faint(f"growth since {time_of_day(self._since, look.zone)}"))
        return ListPage([title, *fact_lines(facts, look, 2)], table, look)

    def _buffer_table(
        self, rows: Sequence[BufferEntry], devices: Sequence[Device], look: Look
    ) -> Listing[BufferEntry]:
        if self._open:
            rows = [row for row in rows if group_key(row.buffer) == self._open]
        names = device_names(devices).values()
        return Listing(
            self.name,
            buffer_columns(look.state.units, names, len(devices) > 1, _has_phases(rows)),
            rows,
            look.state,
            first=BY_SIZE,
            empty=self._why_none(devices, look),
        )

    def _group_table(
        self, rows: Sequence[BufferEntry], devices: Sequence[Device], look: Look
    ) -> Listing[BufferGroup]:
        names = DeviceSets(look.snapshot.devices)
        ids = [device.unique_id for device in devices]
        groups = buffer_groups(rows, names, ids, self._baseline(look))
        return Listing(
            GROUPS,
            group_columns(look.state.units, _has_phases(rows), len(rows)),
            groups,
            look.state,
            empty=self._why_none(devices, look),
            noun="group",
        )

    def _baseline(self, look: Look) -> Mapping[tuple[GroupKey, str | None], int] | None:
        """What each group held on each device when the page was opened; None while the list is cut."""
        listed = look.snapshot.buffers or ()
        if len(listed) >= MOST_BUFFERS:
            self._before = None
        elif self._before is None:
            self._since, self._before = look.snapshot.time_ns, {}
            for one in listed:
                key = group_key(one), one.device
                self._before[key] = self._before.get(key, 0) + one.held
        return self._before

    def _why_none(self, devices: Sequence[Device], look: Look) -> str:
        if self._open:
            return "all buffers of this group have been freed"
        of = devices[0].unique_id if len(devices) == 1 else None
        return why_none(look.snapshot, "buffers", look.snapshot.buffers is not None, of)


def _opened(key: GroupKey) -> str:
    pid, kind, name, site, _ = key
    return "  ".join(filter(None, (kind, name, site, None if pid is None else f"pid {pid}")))


def _has_phases(rows: Sequence[BufferEntry]) -> bool:
    return any(row.buffer.phase for row in rows)


def _all_title(look: Look) -> Line:
    count = len(look.snapshot.devices)
    return clip_line(
        ink(f" all {count:,} devices" if count > 1 else f" {count or 'no'} device", Style.LABEL),
        look.width,
    )
