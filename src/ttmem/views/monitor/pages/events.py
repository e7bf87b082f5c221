"""The last events as they came in, with anomalies among them, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttmem.snapshots import Losses, Snapshot
from ttmem.views.ink import Line, Style, clip_line, ink
from ttmem.views.moments import clock
from ttmem.views.monitor.anomaly_memory import AnomalyMemory, SeenAnomaly
from ttmem.views.monitor.entries import device_names, entries, why_none, words
from ttmem.views.monitor.event_detail import detail_lines
from ttmem.views.monitor.event_list import EventEntry, event_columns, event_entries
from ttmem.views.monitor.facts import counter, fact_lines
from ttmem.views.monitor.list_page import ListPage
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.page import Drawn, Look
from ttmem.views.monitor.state import State
from ttmem.views.note import Note, note_lines
from ttmem.views.notes import loss_notes
from ttmem.views.source_notes import is_quiet
from ttmem.views.text import ELLIPSIS, clean

NEWEST = 3  # lines for the anomaly that happened last


class Events:
    """The newest first. It remembers when it saw each anomaly: a snapshot says only that it is."""

    name = "Events"
    keys = (("s", "sort"), ("enter", "its device"), ("x", "whole text"))

    def __init__(self) -> None:
        self._anomalies = AnomalyMemory()
        self._whole = False  # the text of the chosen event has most of the page

    def details(self, state: State) -> Sequence[str]:
        """Its one detail."""
        return ("events",)

    def watch(self, snapshot: Snapshot) -> None:
        """Takes note of new anomalies, also while another page is shown."""
        self._anomalies.look(snapshot)

    def draw(self, look: Look) -> Drawn:
        """Losses, the stream, and the chosen event in full."""
        return self._page(look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """Enter goes to the device of the chosen event; `x` shows more of its text, or less."""
        page = self._page(look)
        if key == "enter" and page.table.chosen:
            look.state.device = words(page.table.chosen.entry, "device") or look.state.device
            return "Device"
        if key == "x":
            self._whole = not self._whole
        page.key(key)
        return None

    def help(self) -> Sequence[tuple[str, str]]:
        """Each column, and how it is made."""
        return HELP

    def _page(self, look: Look) -> ListPage[EventEntry]:
        snapshot = look.snapshot
        self.watch(snapshot)
        seen = self._anomalies.seen()
        told = entries(snapshot, "events")
        names = device_names(snapshot.devices)
        table = Listing(
            self.name,
            event_columns(look.state.units, names, look.zone),
            event_entries(snapshot, seen),
            look.state,
            empty=why_none(snapshot, "events", told is not None),
        )
        anomalies = counter("anomalies", len(seen), Style.ALARM if seen else Style.PLAIN)
        facts = [_how_many(told), *_lost(snapshot.losses), anomalies]
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


def _how_many(told: Sequence[object] | None) -> Line:
    if told is None:
        return ink("events N/A")
    return ink(f"the last {len(told):,} events" if told else "no events")


def _lost(losses: Losses) -> list[Line]:
    counts = (
        ("dropped", losses.dropped_events),
        ("gaps", losses.gaps),
        ("rejected", losses.rejected_records),
    )
    return [counter(name, n, Style.WARN if n else Style.PLAIN) for name, n in counts]


HELP = (
    ("dropped", "events that were not seen one by one; a resend heals the sums"),
    ("gaps", "how often a process had to drop events"),
    ("rejected", "records that made no sense; they are in no sum, and the server's log says why"),
    (
        "anomalies",
        "what does not add up, in the stream at the time at which it happened, or else the monitor"
        " saw it first or saw it grow; 'earlier': before the monitor looked",
    ),
    ("TIME", "when it happened, by the clock of the process; of arrival where that is unknown"),
    ("EVENT", "what happened; 'resent' is state that a client sent again, not news"),
    (
        "SIZE",
        "requested bytes of a buffer, bytes of all cores of a circular buffer, one binary of a"
        " kernel, what is in the ring",
    ),
    ("ID", "of the buffer, kernel or program; a circular buffer's is its address"),
    ("below", "the chosen event in full; x gives its text more room, and takes it back"),
    ("NAME, CALL SITE", "the name and the line of code, where the client tells"),
)
