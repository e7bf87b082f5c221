"""The last events as they came in, with anomalies among them, and what was lost."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import NamedTuple

from ttmem.events import Flag, Notice, Op
from ttmem.snapshots import Anomaly, LoggedEvent, Losses, Snapshot
from ttmem.text import ELLIPSIS, clean, columns
from ttmem.views.figures import Units
from ttmem.views.ink import (
    EMPTY,
    Line,
    Style,
    clip_line,
    faint,
    flow,
    indent,
    ink,
    line_columns,
    paragraph,
)
from ttmem.views.monitor.listing import Listing, ListPage
from ttmem.views.monitor.pages.rows import counter_fact, device_names, fact_lines, owners, why_none
from ttmem.views.monitor.state import Drawn, Look, terms
from ttmem.views.names import clock
from ttmem.views.notes import (
    Note,
    anomaly_notes,
    loss_notes,
    missing_notes,
    note_lines,
    remark_notes,
)
from ttmem.views.selection import is_quiet
from ttmem.views.table import ListColumn, label, number, phrase


def alarm_lines(snapshot: Snapshot, width: int) -> list[Line]:
    notes = [*anomaly_notes(snapshot), *remark_notes(snapshot), *missing_notes(snapshot)]
    if not notes:
        return []
    more = faint(f"  and {len(notes) - 1:,} more") if len(notes) > 1 else ()
    space = max(width - line_columns(more), 1)
    return [clip_line((*notes[0].line(space), *more), width)]


MOST = 500

Key = tuple[str, str, int | None]  # device, kind, pid: the text changes with every count


class SeenAnomaly(NamedTuple):
    """An anomaly; `time_ns` is None if it was there before the monitor looked, and does not tell itself."""

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


Sort = Op | Notice
_WORDS: dict[Sort, str] = {
    Op.ALLOC: "allocated",
    Op.FREE: "freed",
    Op.CB_ALLOC: "CB allocated",
    Op.CB_FREE: "CB freed",
    Op.KERNEL_LOAD: "kernel loaded",
    Op.KERNEL_UNLOAD: "kernel unloaded",
    Op.PROGRAM_DISPATCH: "dispatched",
    Op.PROGRAM_DESTROY: "program destroyed",
    Op.BINARY_STATUS: "binaries",
    Op.RING: "kernel ring",
    Op.COUNTERS: "counters",
    Op.CACHE_ENTRIES: "cached programs",
    Op.PROGRAM_NAME: "program named",
    Notice.DEVICE_OPENED: "device opened",
    Notice.DEVICE_CLOSED: "device closed",
    Notice.PROGRAM_CREATED: "program created",
    Notice.PROGRAM_COMPILED: "program compiled",
    Notice.PROGRAM_FINALIZED: "program finalized",
    Notice.TRACE_BEGUN: "trace begun",
    Notice.TRACE_CAPTURED: "trace captured",
    Notice.TRACE_REPLAYED: "trace replayed",
    Notice.TRACE_RELEASED: "trace released",
    Notice.ALLOCATION_FAILED: "allocation FAILED",
    Notice.PHASE_ENTERED: "phase entered",
    Notice.CB_REFUSED: "CB did not fit",
}
_REMARKS = {
    Flag.GLOBAL: "global",
    Flag.DATAFLOW: "dataflow",
    Flag.RESENT: "resent",
    Flag.CACHE_HIT: "cache hit",
    Flag.CACHE_MISS: "cache miss",
    Flag.WITH_DEVICE: "with its device",
}
_SIZED: set[Sort | None] = {Op.ALLOC, Op.FREE, Op.CB_ALLOC, Op.CB_FREE, Op.KERNEL_LOAD}
_SIZED |= {Notice.ALLOCATION_FAILED, Notice.CB_REFUSED}
_NAMELESS: set[Sort | None] = {Op.RING, Op.COUNTERS, Op.CACHE_ENTRIES}  # `id` is a figure
_NAMELESS |= {Notice.DEVICE_OPENED, Notice.DEVICE_CLOSED, Notice.PHASE_ENTERED}
_LOWER: set[Sort] = {Op.KERNEL_LOAD, Notice.PROGRAM_CREATED}  # 'fabric', beside 'DRAM'
_NAMED: dict[str, Sort] = {op.name: op for op in (*Op, *Notice)}


def event_op(event: LoggedEvent) -> Sort | None:
    """Its sort; None if this monitor does not know it."""
    return _NAMED.get(str(event.op))


def event_text(event: LoggedEvent) -> str:
    """'allocated DRAM', 'dispatched, cache hit', 'binaries Committed'."""
    op, kind = event_op(event), event.kind
    if op is None:
        return f"unknown event {event.op}"
    if kind and op is Op.BINARY_STATUS:
        kind = kind.title().replace("_", "")
    said = [f"{_WORDS[op]} {kind.lower() if op in _LOWER else kind}" if kind else _WORDS[op]]
    said += [remark for flag, remark in _REMARKS.items() if flag.name in event.flags]
    return ": ".join([", ".join(said), *said_by_runtime(event.text)[:1]])


def said_by_runtime(text: str | None) -> list[str]:
    """Its lines, the reason first: that stands below 'info:', after a path and before a page of others."""
    lines = text.strip().splitlines() if text else []
    start = lines.index("info:") + 1 if "info:" in lines else 0
    return [*lines[start:], *lines[: max(start - 1, 0)]]


def event_size(event: LoggedEvent) -> int | None:
    """Bytes that it is about; None where it names none. The ring's is what is in it now."""
    op = event_op(event)
    if op is Op.RING:
        return event.id
    return event.size or None if op in _SIZED else None


def is_sized(event: LoggedEvent) -> bool:
    return event_op(event) in _SIZED | {Op.RING}


def event_id(event: LoggedEvent) -> int | None:
    """Which buffer, kernel or program it is about; None if about no single one."""
    return None if event_op(event) in _NAMELESS else event.id


class EventEntry(NamedTuple):
    """One line of the stream: an event, or an anomaly."""

    order: tuple[int, int]  # time, and place among those of the same time
    device: str | None
    event: LoggedEvent | None
    anomaly: Anomaly | None = None

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
        EventEntry((seen.time_ns or 0, at), seen.device, None, seen.anomaly)
        for at, seen in enumerate(anomalies)
    ]
    events = enumerate(snapshot.events or (), len(rows))
    rows += [EventEntry((event.time_ns, at), event.device, event) for at, event in events]
    return rows


def event_columns(
    units: Units, devices: Mapping[str, str], zone: tzinfo | None
) -> list[ListColumn[EventEntry]]:

    def time(row: EventEntry) -> Line:
        if not row.order[0]:
            return faint("earlier" if row.anomaly else "N/A")
        return ink(clock(row.order[0], zone))

    def size(row: EventEntry) -> str | None:
        if row.size is None:
            return None if row.event and is_sized(row.event) else ""
        return units.text(row.size)

    def device(row: EventEntry) -> str | None:
        return devices.get(row.device or "")

    widest = max(map(columns, devices.values()), default=0)
    return [
        ListColumn("TIME", time, lambda row: row.order, width=12, largest_first=True),
        label("PID", lambda row: row.pid, width=7, rank=3),
        phrase("DEVICE", device, width=widest, rank=4),
        ListColumn("EVENT", _what, lambda row: row.text.casefold(), width=22, grow=2),
        number("SIZE", size, lambda row: row.size, width=9),
        ListColumn("ID", _id, _number, right=True, width=8, rank=5),
        phrase("NAME", lambda row: (row.event and row.event.name) or "", width=12, grow=1, rank=2),
        phrase("CALL SITE", _site, width=16, grow=1, rank=1, keep_end=True),
    ]


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


def _site(row: EventEntry) -> str:
    return (row.event and row.event.site) or ""


LOW = 14  # lines; below that the stream needs them all
SHARE = 6  # one line in so many
REST = 12  # lines that the page keeps when the whole text is shown


def detail_lines(
    row: EventEntry | None, names: Mapping[str, str], look: Look, whole_text: bool
) -> list[Line]:
    """Always the same number of lines, so that the stream above stays where it is."""
    space = max(look.height - REST, 0) if whole_text else look.height // SHARE
    if look.height < LOW or space < 1:
        return []
    lines = [] if row is None else indent(_lines(row, names, look), 1)
    if len(lines) > space:
        more = faint(f" {ELLIPSIS} {len(lines) - space + 1:,} more lines: x")
        lines = [*lines[: space - 1], more]
    return [EMPTY, *(clip_line(line, look.width) for line in [*lines, *[EMPTY] * space][:space])]


def _lines(row: EventEntry, names: Mapping[str, str], look: Look) -> list[Line]:
    width = max(look.width - 1, 1)
    style = Style.ALARM if row.anomaly else Style.LABEL
    facts = [ink(clock(row.order[0], look.zone) if row.order[0] else "earlier")]
    if row.pid is not None:
        command = owners(look.snapshot).get(row.pid)
        facts.append(ink(f"pid {row.pid}" + (f" ({command})" if command else "")))
    if device := names.get(row.device or ""):
        facts.append(ink(f"device {device}"))
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
anomalies | what does not add up, at the time at which it happened or was first seen; 'earlier': before the
    monitor was started
TIME | when it happened, by the clock of the process; of arrival where that is unknown
EVENT | what happened; 'resent' is state that a client sent again, not news
SIZE | requested bytes of a buffer, bytes of all cores of a circular buffer, one binary of a kernel, what is in the
    ring
ID | of the buffer, kernel or program; a circular buffer's is its address
below | the chosen event in full; x gives its text more room, and takes it back
NAME, CALL SITE | the name and the line of code, where the client reports them
""")


class Events:
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
        names = device_names(snapshot.devices)
        table = Listing(
            self.name,
            event_columns(look.state.units, names, look.zone),
            event_entries(snapshot, seen),
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
        below = detail_lines(table.chosen, names, look, self._whole)
        return ListPage(above, table, look, below)


def _newest(seen: Sequence[SeenAnomaly], names: Mapping[str, str], look: Look) -> list[Line]:
    """The anomaly that happened last, with more of its text than a cell has room for.

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
