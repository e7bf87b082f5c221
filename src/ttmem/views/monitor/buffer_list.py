"""Live buffers with their owners, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.snapshots import Snapshot
from ttmem.views.ages import age
from ttmem.views.ink import Line, Style, ink
from ttmem.views.monitor.entries import Entry, device_names, entries, owners, whole, words
from ttmem.views.monitor.list_columns import ListColumn, figure, label, phrase
from ttmem.views.monitor.state import Units
from ttmem.views.text import columns

FIRST = 2  # sorted by REQUESTED until the user chooses
KIND_STYLES = {
    "DRAM": Style.DRAM,
    "L1": Style.L1,
    "L1_SMALL": Style.L1_SMALL,
    "TRACE": Style.TRACE,
}  # the kinds that are in a sum of the device; host memory is in none


class BufferEntry(NamedTuple):
    """A live buffer; None: unknown."""

    entry: Entry
    device: str | None  # its name on screen
    owner: str | None
    age: int | None  # nanoseconds

    @property
    def kind(self) -> str | None:
        """DRAM, L1, L1_SMALL, TRACE or SYSTEM_MEMORY."""
        return words(self.entry, "kind")

    @property
    def held(self) -> int:
        """In the measure of the device's sums: reserved where it is known, else requested."""
        return whole(self.entry, "reserved") or whole(self.entry, "requested") or 0


def buffer_entries(snapshot: Snapshot, device: str | None) -> list[BufferEntry] | None:
    """The buffers that the snapshot lists, of one device if named; None if it lists none at all."""
    found = entries(snapshot, "buffers", device)
    if found is None:
        return None
    devices = device_names(snapshot.devices)
    commands = owners(snapshot)
    made = []
    for entry in found:
        since = whole(entry, "time_ns")
        made.append(
            BufferEntry(
                entry,
                devices.get(words(entry, "device") or ""),
                commands.get(whole(entry, "pid")),
                max(snapshot.time_ns - since, 0) if since else None,
            )
        )
    return made


def counted(rows: Iterable[BufferEntry]) -> list[BufferEntry]:
    """Those that are in a sum of their device."""
    return [row for row in rows if row.kind in KIND_STYLES]


def buffer_columns(
    units: Units, devices: Iterable[str], several: bool, phases: bool = False
) -> list[ListColumn[BufferEntry]]:
    """What is shown of a buffer; its device matters most if it may be `several`, phases if there are any."""
    widest = max(map(columns, devices), default=0)
    return [
        phrase("DEVICE", lambda row: row.device, width=widest, rank=0 if several else 8),
        ListColumn("KIND", _kind, lambda row: row.kind, width=8),
        figure("REQUESTED", lambda row: whole(row.entry, "requested"), units.text),
        figure("RESERVED", lambda row: whole(row.entry, "reserved"), units.text, rank=4),
        label("ADDRESS", lambda row: whole(row.entry, "address"), hex, width=10, rank=5),
        figure("AGE", lambda row: row.age, age, width=6, rank=3),
        label("PID", lambda row: whole(row.entry, "pid"), width=7),
        phrase("NAME", lambda row: words(row.entry, "name"), width=12, grow=1, rank=2),
        phrase("CALL SITE", _site, width=20, grow=2, rank=1, keep_end=True),
        *([phrase("PHASE", _phase, width=12, grow=1, rank=6)] if phases else []),
        phrase("OWNER", lambda row: row.owner, width=20, grow=1, rank=7),
    ]


def _kind(row: BufferEntry) -> Line | None:
    kind = row.kind
    return None if kind is None else ink(kind, KIND_STYLES.get(kind, Style.PLAIN))


def _site(row: BufferEntry) -> str | None:
    return words(row.entry, "site")


def _phase(row: BufferEntry) -> str:
    return words(row.entry, "phase") or ""
