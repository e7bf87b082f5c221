"""The largest live buffers: who holds them, where they lie, which line of code made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.events import Amounts, MemoryKind
from ttmem.sizes import several
from ttmem.snapshots import Buffer, Device, MemoryUse, Snapshot
from ttmem.text import columns
from ttmem.views.ink import Line, Style, clip_line, faint, ink
from ttmem.views.monitor.figures import amount_fact, device_title, fact_lines
from ttmem.views.monitor.listing import ListColumn, Listing, ListPage, figure, label, phrase
from ttmem.views.monitor.pages.rows import device_names, on_device, owners, why_none
from ttmem.views.monitor.state import Drawn, Look, Units, terms
from ttmem.views.monitor.watch import chosen_names
from ttmem.views.names import age

BY_SIZE = 2  # sorted by REQUESTED until the user chooses
KIND_STYLES = {
    "DRAM": Style.DRAM,
    "L1": Style.L1,
    "L1_SMALL": Style.L1_SMALL,
    "TRACE": Style.TRACE,
}  # the kinds that are in a sum of the device; host memory is in none


class BufferEntry(NamedTuple):
    """A live buffer; None: unknown."""

    buffer: Buffer
    device: str | None  # its name on screen
    owner: str | None
    age: int | None  # nanoseconds


def buffer_entries(snapshot: Snapshot, device: str | None) -> list[BufferEntry] | None:
    """The buffers that the snapshot lists, of one device if named; None if it lists none at all."""
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
    """Those that are in a sum of their device."""
    return [row for row in rows if row.buffer.kind in KIND_STYLES]


def buffer_columns(
    units: Units, devices: Iterable[str], several: bool, phases: bool = False
) -> list[ListColumn[BufferEntry]]:
    """What is shown of a buffer; its device matters most if it may be `several`, phases if there are any."""
    widest = max(map(columns, devices), default=0)
    return [
        phrase("DEVICE", lambda row: row.device, width=widest, rank=0 if several else 8),
        ListColumn("KIND", _kind, lambda row: row.buffer.kind, width=8),
        figure("REQUESTED", lambda row: row.buffer.requested, units.text),
        figure("RESERVED", lambda row: row.buffer.reserved, units.text, rank=4),
        label("ADDRESS", lambda row: row.buffer.address, hex, width=10, rank=5),
        figure("AGE", lambda row: row.age, age, width=6, rank=3),
        label("PID", lambda row: row.buffer.pid, width=7),
        phrase("NAME", lambda row: row.buffer.name, width=12, grow=1, rank=2),
        phrase("CALL SITE", lambda row: row.buffer.site, width=20, grow=2, rank=1, keep_end=True),
        *([phrase("PHASE", _phase, width=12, grow=1, rank=6)] if phases else []),
        phrase("OWNER", lambda row: row.owner, width=20, grow=1, rank=7),
    ]


def _kind(row: BufferEntry) -> Line:
    return ink(row.buffer.kind, KIND_STYLES.get(row.buffer.kind, Style.PLAIN))


def _phase(row: BufferEntry) -> str:
    return row.buffer.phase or ""


@dataclass(frozen=True, slots=True)
class _There:
    """What there is to list: bytes by kind, and how many buffers; None: unknown."""

    held: dict[str, int]
    count: int | None
    whose: str = ""

    @property
    def all(self) -> int:
        return sum(self.held.values())


def buffer_facts(
    devices: Sequence[Device], rows: Sequence[BufferEntry], shown: Sequence[BufferEntry], look: Look
) -> list[Line]:
    """`rows`: what the snapshot lists; `shown`: what of it matches the filter.

    All figures are of whom the rows are of: everybody, or the processes of --pid.
    """
    write = look.state.units.text
    listed = counted(rows)
    everybody = _of_devices(devices)
    there = _of_chosen(devices, look) if look.pids else everybody
    facts = [
        _how_many(len(listed), there, _sum(listed) == there.all),
        (*faint("holding "), *ink(write(_sum(listed))), *faint(f" of {write(there.all)}")),
        *(amount_fact(kind, there.held[kind], look, style) for kind, style in KIND_STYLES.items()),
    ]
    if look.state.filter:
        facts.insert(2, amount_fact("matching", _sum(counted(shown)), look))
    if look.pids:
        facts.append(amount_fact("all processes", everybody.all, look))
    if on_host := sum(row.buffer.kind == MemoryKind.SYSTEM_MEMORY.name for row in rows):
        facts.append(faint(f"{on_host:,} in host memory, in no sum"))
    return facts


def _of_devices(devices: Sequence[Device]) -> _There:
    uses = {kind: _uses(devices, kind) for kind in KIND_STYLES}
    counts = [use.count for kind in uses.values() for use in kind]
    known = [count for count in counts if count is not None]
    return _There(
        {kind: sum(use.held for use in of) for kind, of in uses.items()},
        sum(known) if len(known) == len(counts) else None,
    )


def _of_chosen(devices: Sequence[Device], look: Look) -> _There:
    """Nobody counts the buffers of one process, but what they hold tells if the list is whole."""
    ids = {device.unique_id for device in devices}
    held = _holdings(look.snapshot, ids)
    sums = {kind: sum(getattr(one, kind.lower()) for one in held) for kind in KIND_STYLES}
    return _There(sums, None, f" of {chosen_names(look.pids)}")


def _holdings(snapshot: Snapshot, ids: set[str]) -> list[Amounts]:
    return [
        held for one in snapshot.processes for device, held in one.devices.items() if device in ids
    ]


def _uses(devices: Sequence[Device], kind: str) -> list[MemoryUse]:
    return [getattr(device.memory, kind.lower()) for device in devices]


def _how_many(listed: int, there: _There, everything: bool) -> Line:
    """`everything`: nothing is held beside what is listed, whoever did not count."""
    if everything or there.count == listed:
        return ink(("1 buffer" if listed == 1 else f"all {listed:,} buffers") + there.whose)
    if there.whose:
        return ink(f"{several(listed, 'listed buffer')}{there.whose}")
    if there.count is None:
        return ink(f"{several(listed, 'buffer')} listed; of some processes only sums are known;")
    if listed < there.count:
        return ink(f"the largest {listed:,} of {there.count:,} buffers")
    return ink(f"all {listed:,} buffers")


def _sum(rows: Sequence[BufferEntry]) -> int:
    return sum(row.buffer.held for row in rows)


HELP = terms("""
the largest N of M | N buffers are listed; M are alive, by the counts of each device. A device's own page and `ttmem
    ps --json --detail buffers` have the rest
holding A of B | A: what the listed ones hold; B: what all buffers hold, without CBs
KIND | where it lives; SYSTEM_MEMORY is memory of the host, and in no sum
REQUESTED | bytes asked for
RESERVED | bytes taken: per-bank block x all banks, because allocation is lock-step; N/A where the client does not
    tell
ADDRESS | device address in every bank; N/A where the client does not tell
AGE | time since it was allocated
NAME, CALL SITE | under the probe the operation and the line of Python that made it; else what the client tells
PHASE | what the program was doing, as it said with ttmem.phase()
OWNER | command of the process
""")


class Buffers:
    """Buffers of all devices, or of the chosen one."""

    name = "Buffers"
    keys = (("a", "all devices/chosen"), ("s", "sort"), ("enter", "its device"))
    details = ("buffers",)  # its one detail
    help = HELP

    def __init__(self) -> None:
        self._all = True  # devices

    def draw(self, look: Look) -> Drawn:
        return self._page(look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """`a` changes which devices are shown; Enter goes to the device of the chosen buffer."""
        page = self._page(look)
        if key == "a":
            self._all = not self._all
            look.state.of(self.name).cursor = 0
        elif key == "enter" and page.table.chosen:
            look.state.device = page.table.chosen.buffer.device or look.state.device
            return "Device"
        else:
            page.key(key)
        return None

    def _page(self, look: Look) -> ListPage[BufferEntry]:
        several = self._all and len(look.snapshot.devices) > 1
        chosen = None if several else look.device
        devices = look.snapshot.devices if chosen is None else (chosen,)
        rows = buffer_entries(look.snapshot, chosen.unique_id if chosen else None)
        names = device_names(devices).values()
        table = Listing(
            self.name,
            buffer_columns(look.state.units, names, chosen is None, _has_phases(rows or [])),
            rows or [],
            look.state,
            first=BY_SIZE,
            empty=why_none(
                look.snapshot, "buffers", rows is not None, chosen.unique_id if chosen else None
            ),
        )
        title = device_title(chosen, look) if chosen else _all_title(look)
        facts = buffer_facts(devices, rows, table.rows, look) if rows else []
        return ListPage([title, *fact_lines(facts, look, 2)], table, look)


def _has_phases(rows: Sequence[BufferEntry]) -> bool:
    return any(row.buffer.phase for row in rows)


def _all_title(look: Look) -> Line:
    count = len(look.snapshot.devices)
    return clip_line(
        ink(f" all {count:,} devices" if count > 1 else f" {count or 'no'} device", Style.LABEL),
        look.width,
    )
