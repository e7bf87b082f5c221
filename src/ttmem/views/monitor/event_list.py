"""Events and anomalies in one stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import NamedTuple

from ttmem.events import Notice
from ttmem.snapshots import Anomaly, Snapshot
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.moments import clock
from ttmem.views.monitor.anomaly_memory import SeenAnomaly
from ttmem.views.monitor.entries import Entry, entries, whole, words
from ttmem.views.monitor.event_words import event_id, event_op, event_size, event_words, is_sized
from ttmem.views.monitor.list_columns import ListColumn, label, number, phrase
from ttmem.views.monitor.state import Units
from ttmem.views.source_notes import is_quiet
from ttmem.views.text import columns


class EventEntry(NamedTuple):
    """One line of the stream: an event, or an anomaly, whose entry then names its device."""

    order: tuple[int, int]  # time, and place among those of the same time
    entry: Entry
    anomaly: Anomaly | None = None

    @property
    def text(self) -> str:
        """What happened."""
        return event_words(self.entry) if self.anomaly is None else self.anomaly.text

    @property
    def pid(self) -> int | None:
        """Who did it."""
        return whole(self.entry, "pid") if self.anomaly is None else self.anomaly.pid

    @property
    def size(self) -> int | None:
        """How much it is about."""
        return event_size(self.entry) if self.anomaly is None else self.anomaly.bytes


def event_entries(snapshot: Snapshot, anomalies: Iterable[SeenAnomaly]) -> list[EventEntry]:
    """Both, oldest first; an anomaly that is older than the monitor is before all events."""
    rows = [
        EventEntry((seen.time_ns or 0, at), {"device": seen.device}, seen.anomaly)
        for at, seen in enumerate(anomalies)
    ]
    events = enumerate(entries(snapshot, "events") or (), len(rows))
    rows += [EventEntry((whole(entry, "time_ns") or 0, at), entry) for at, entry in events]
    return rows


def event_columns(
    units: Units, devices: Mapping[str, str], zone: tzinfo | None
) -> list[ListColumn[EventEntry]]:
    """What is shown of an event; `devices` are their names by unique id."""

    def time(row: EventEntry) -> Line:
        if not row.order[0]:
            return faint("earlier" if row.anomaly else "N/A")
        return ink(clock(row.order[0], zone))

    def size(row: EventEntry) -> str | None:
        if row.size is None:
            return None if is_sized(row.entry) else ""
        return units.text(row.size)

    def device(row: EventEntry) -> str | None:
        return devices.get(words(row.entry, "device") or "")

    widest = max(map(columns, devices.values()), default=0)
    return [
        ListColumn("TIME", time, lambda row: row.order, width=12, largest_first=True),
        label("PID", lambda row: row.pid, width=7, rank=3),
        phrase("DEVICE", device, width=widest, rank=4),
        ListColumn("EVENT", _what, lambda row: row.text.casefold(), width=22, grow=2),
        number("SIZE", size, lambda row: row.size, width=9),
        ListColumn("ID", _id, lambda row: event_id(row.entry), right=True, width=8, rank=5),
        phrase("NAME", lambda row: words(row.entry, "name") or "", width=12, grow=1, rank=2),
        phrase("CALL SITE", _site, width=16, grow=1, rank=1, keep_end=True),
    ]


def _what(row: EventEntry) -> Line:
    if row.anomaly is None:
        failed = event_op(row.entry) is Notice.ALLOCATION_FAILED
        return ink(row.text, Style.ALARM if failed else Style.PLAIN)
    return ink(row.text, Style.FAINT if is_quiet(row.anomaly) else Style.ALARM)


def _id(row: EventEntry) -> str:
    found = event_id(row.entry)
    return "" if found is None else hex(found)


def _site(row: EventEntry) -> str:
    return words(row.entry, "site") or ""
