"""The last events as they came in, with anomalies among them, and what was lost."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from operator import attrgetter
from typing import NamedTuple

from ttmem.events import Notice
from ttmem.snapshots import Anomaly, LoggedEvent, Losses, Snapshot
from ttmem.text import ELLIPSIS, clean, columns
from ttmem.views.figures import Units
from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.pages.event_text import (
    event_id,
    event_op,
    event_size,
    event_text,
    is_sized,
    said_by_runtime,
)
from ttmem.views.monitor.pages.rows import (
    counter_fact,
    device_names,
    fact_lines,
    owners,
    site_column,
    why_none,
)
from ttmem.views.monitor.state import Drawn, Look, Page, terms
from ttmem.views.names import clock
from ttmem.views.notes import Note, loss_notes, note_lines
from ttmem.views.processes import DeviceSets
from ttmem.views.selection import is_quiet
from ttmem.views.table import FILTER_ONLY, ListColumn, label, number, phrase

MOST = 500

Key = tuple[str, str, int | None]  # device, kind, pid: the text changes with every count


class SeenAnomaly(NamedTuple):
    """An anomaly; `time_ns` is None if it is older than the monitor and has no time of its own."""

    device: str
    anomaly: Anomaly
    time_ns: int | None


class AnomalyMemory:
    """Learns from each snapshot what is new; the least recently changed is forgotten first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Key, SeenAnomaly] = OrderedDict()
        self._began = False

    def look(self, snapshot: Snapshot) -> None:
        """Remembers the anomalies of a snapshot; the same snapshot twice changes nothing."""
        for device in snapshot.devices:
            for anomaly in device.anomalies:
                seen = snapshot.time_ns if self._began else None
                self._note(device.unique_id, anomaly, anomaly.time_ns or seen)
        self._began = True

    def _note(self, device: str, anomaly: Anomaly, time_ns: int | None) -> None:
        key = (device, anomaly.kind, anomaly.pid)
        known = self._seen.get(key)
        if known and known.anomaly == anomaly:
            return
        self._seen[key] = SeenAnomaly(device, anomaly, time_ns)
        self._seen.move_to_end(key)
        while len(self._seen) > MOST:
            self._seen.popitem(last=False)

    def seen(self) -> list[SeenAnomaly]:
        return list(self._seen.values())


class EventEntry(NamedTuple):
    """One line of the stream: an event, the same one on several devices of a mesh, or an anomaly."""

    order: tuple[int, int]  # time, and place among those of the same time
    devices: tuple[str, ...]  # in the order of the events
    event: LoggedEvent | None
    anomaly: Anomaly | None = None

    @property
    def device(self) -> str | None:
        return self.devices[0] if self.devices else None

    @property
    def text(self) -> str:
        if self.anomaly is not None:
            return self.anomaly.text
        return event_text(self.event) if self.event else ""

    @property
    def pid(self) -> int | None:
        found = self.anomaly or self.event
        return None if found is None else found.pid

    @property
    def size(self) -> int | None:
        if self.anomaly is not None:
            return self.anomaly.bytes
        return event_size(self.event) if self.event else None


def event_entries(snapshot: Snapshot, anomalies: Iterable[SeenAnomaly]) -> list[EventEntry]:
    """Both, oldest first; an anomaly that is older than the monitor is before all events."""
    rows = [
        EventEntry((seen.time_ns or 0, at), (seen.device,), None, seen.anomaly)
        for at, seen in enumerate(anomalies)
    ]
    folded = enumerate(folded_events(snapshot.events or ()), len(rows))
    rows += [
        EventEntry((event.time_ns, at), tuple(devices), event) for at, (event, devices) in folded
    ]
    return rows


# What a mesh does later than this after its first device is another step.
ONE_STEP_NS = 1_000_000_000


def folded_events(events: Iterable[LoggedEvent]) -> list[tuple[LoggedEvent, list[str]]]:
    """What a process does on one device of a mesh after the other is one row, with the first time and all devices."""
    rows: list[tuple[LoggedEvent, list[str]]] = []
    latest: dict[int | None, tuple[LoggedEvent, list[str]]] = {}  # by pid
    for event in events:
        row = latest.get(event.pid)
        if row and event.device and row[1] and event.device not in row[1] and _same(row[0], event):
            row[1].append(event.device)
            continue
        row = latest[event.pid] = event, [event.device] if event.device else []
        rows.append(row)
    return rows


_shown = attrgetter("op", "kind", "flags", "id", "size", "name", "site", "text")


def _same(one: LoggedEvent, other: LoggedEvent) -> bool:
    """Whether they differ in nothing that is shown but the device."""
    return _shown(one) == _shown(other) and abs(other.time_ns - one.time_ns) <= ONE_STEP_NS


def event_columns(
    units: Units, rows: Sequence[EventEntry], names: DeviceSets, zone: tzinfo | None
) -> list[ListColumn[EventEntry]]:
    """Name and call site where any event has one."""

    def time(row: EventEntry) -> Line:
        if not row.order[0]:
            return faint("earlier" if row.anomaly else "N/A")
        return ink(clock(row.order[0], zone))

    def size(row: EventEntry) -> str | None:
        if row.size is None:
            return None if row.event and is_sized(row.event) else ""
        return units.text(row.size)

    def device(row: EventEntry) -> str | None:
        return names.name(row.devices) or None

    widest = max((columns(device(row) or "") for row in rows), default=0)
    what = _fitting((columns(row.text) for row in rows if row.anomaly is None), EVENT)
    named = _fitting((columns(_name(row)) for row in rows), NAME)
    return [
        ListColumn("TIME", time, lambda row: row.order, width=12, largest_first=True),
        label("PID", lambda row: row.pid, width=7, rank=3),
        phrase("DEVICES", device, width=widest, rank=4),
        ListColumn("EVENT", _what, lambda row: row.text.casefold(), width=what, grow=1),
        number("SIZE", size, lambda row: row.size, width=9),
        ListColumn("ID", _id, _number, right=True, width=8, rank=5),
        phrase("NAME", _name, width=named, grow=1, rank=2 if named else FILTER_ONLY),
        site_column("CALL SITE", _site, rows, rank=1 if any(map(_site, rows)) else FILTER_ONLY),
    ]


EVENT, NAME = (18, 22), (8, 12)  # columns, at least and at most


def _fitting(widths: Iterable[int], limits: tuple[int, int]) -> int:
    """0 if there is nothing to show."""
    least, most = limits
    widest = max(widths, default=0)
    return min(max(widest, least), most) if widest else 0


def _what(row: EventEntry) -> Line:
    if row.anomaly is not None:
        return ink(row.text, Style.FAINT if is_quiet(row.anomaly) else Style.ALARM)
    failed = row.event and event_op(row.event) is Notice.ALLOCATION_FAILED
    return ink(row.text, Style.ALARM if failed else Style.PLAIN)


def _number(row: EventEntry) -> int | None:
    return event_id(row.event) if row.event else None


def _id(row: EventEntry) -> str:
    found = _number(row)
    return "" if found is None else hex(found)


def _name(row: EventEntry) -> str:
    return (row.event and row.event.name) or ""


def _site(row: EventEntry) -> str:
    return (row.event and row.event.site) or ""


LOW = 14  # lines; below that the stream needs them all
SHARE = 6  # one line in so many
REST = 12  # lines that the page keeps when the whole text is shown


def detail_lines(row: EventEntry | None, look: Look, whole_text: bool) -> list[Line]:
    """Always the same number of lines, so that the stream above stays where it is."""
    space = max(look.height - REST, 0) if whole_text else look.height // SHARE
    if look.height < LOW or space < 1:
        return []
    lines = [] if row is None else indent(_lines(row, look), 1)
    if len(lines) > space:
        more = faint(f" {ELLIPSIS} {len(lines) - space + 1:,} more lines: x")
        lines = [*lines[: space - 1], more]
    return [EMPTY, *(clip_line(line, look.width) for line in [*lines, *[EMPTY] * space][:space])]


def _lines(row: EventEntry, look: Look) -> list[Line]:
    width = max(look.width - 1, 1)
    style = Style.ALARM if row.anomaly else Style.LABEL
    facts = [ink(clock(row.order[0], look.zone) if row.order[0] else "earlier")]
    if row.pid is not None:
        command = owners(look.snapshot).get(row.pid)
        facts.append(ink(f"pid {row.pid}" + (f" ({command})" if command else "")))
    if row.devices:
        facts.append(ink(look.names.sentence(row.devices)))
    if row.size is not None:
        facts.append(ink(look.state.units.text(row.size)))
    event = row.event
    if event is None:
        return [*flow(facts, width), *paragraph(row.text, width, style)]
    facts += [ink(clean(text)) for text in (event.name, event.site) if text]
    what, number = event_text(event._replace(text=None)), event_id(event)
    facts.insert(1, ink(what if number is None else f"{what} {number:#x}", style))
    said = said_by_runtime(event.text)
    return [*flow(facts, width), *(line for text in said for line in paragraph(text, width))]


NEWEST = 3  # lines for the anomaly that happened last


HELP = terms("""
dropped | events that were not seen; a resend corrects the totals
gaps | how often a process had to drop events
rejected | invalid records; they are not counted, and the server's log says why
anomalies | what does not add up, with the time when it happened or was first seen; 'earlier': before the
    monitor was started
TIME | when it happened, by the clock of the process; of arrival where that is unknown
DEVICES | what a process does on one device of a mesh after the other is one row; SIZE is that on each device
EVENT | what happened; 'resent' is state that a client sent again, not news
SIZE | requested bytes of a buffer, bytes of all cores of a circular buffer, one binary of a kernel, what is in the
    ring
ID | of the buffer, kernel or program; a circular buffer's is its address
below | the chosen event in full; x shows more or less of its text
NAME, CALL SITE | the name and the line of code, where the client reports them
""")


class EventsPage(Page):
    """The newest first. It remembers when it first saw each anomaly."""

    name = "Events"
    keys = (("s", "sort"), ("enter", "its device"), ("x", "whole text"))
    details = ("events",)  # its one detail
    help = HELP

    def __init__(self) -> None:
        self._anomalies = AnomalyMemory()
        self._whole = False  # the text of the chosen event has most of the page

    def watch(self, snapshot: Snapshot) -> None:
        """Takes note of new anomalies, also while another page is shown."""
        self._anomalies.look(snapshot)

    def draw(self, look: Look) -> Drawn:
        return self._page(look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """Enter goes to the device of the chosen event; `x` shows more of its text, or less."""
        page = self._page(look)
        if key == "enter" and page.table.chosen:
            look.state.device = page.table.chosen.device or look.state.device
            return "Device"
        if key == "x":
            self._whole = not self._whole
        page.key(key)
        return None

    def _page(self, look: Look) -> ListPage[EventEntry]:
        snapshot = look.snapshot
        self.watch(snapshot)
        seen = self._anomalies.seen()
        listed = snapshot.events
        names = device_names(look)
        rows = event_entries(snapshot, seen)
        table = Listing(
            self.name,
            event_columns(look.state.units, rows, DeviceSets(look.names), look.zone),
            rows,
            look.state,
            empty=why_none(snapshot, "events", listed is not None),
        )
        anomalies = counter_fact("anomalies", len(seen), Style.ALARM if seen else Style.PLAIN)
        facts = [_how_many(listed), *_lost(snapshot.losses), anomalies]
        above = [
            *fact_lines(facts, look, 2),
            *_newest(seen, names, look),
            *note_lines(loss_notes(snapshot), look.width, whole=False),
        ]
        below = detail_lines(table.chosen, look, self._whole)
        return ListPage(above, table, look, below)


def _newest(seen: Sequence[SeenAnomaly], names: Mapping[str, str], look: Look) -> list[Line]:
    """The anomaly that happened last, with more of its text than fits into a cell.

    What changes no number is in the stream only.
    """
    loud = [one for one in seen if not is_quiet(one.anomaly)]
    if not loud:
        return []
    last = loud[-1]
    when = clock(last.time_ns, look.zone) if last.time_ns else "earlier"
    where = names.get(last.device) or clean(last.device)
    text = f"{when} device {where}: {last.anomaly.text}"
    lines = Note("!", Style.ALARM, text).lines(look.width)
    if len(lines) > NEWEST:
        lines[NEWEST - 1] = clip_line((*lines[NEWEST - 1], *ink(f" {ELLIPSIS}")), look.width)
    return lines[:NEWEST]


def _how_many(listed: Sequence[object] | None) -> Line:
    if listed is None:
        return ink("events N/A")
    return ink(f"the last {len(listed):,} events" if listed else "no events")


def _lost(losses: Losses) -> list[Line]:
    counts = (
        ("dropped", losses.dropped_events),
        ("gaps", losses.gaps),
        ("rejected", losses.rejected_records),
    )
    return [counter_fact(name, n, Style.WARN if n else Style.PLAIN) for name, n in counts]
