"""The chosen event in full, below the stream: what a cell has no room for, and what the runtime said."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, flow, indent, ink, paragraph
from ttmem.views.moments import clock
from ttmem.views.monitor.entries import owners, words
from ttmem.views.monitor.event_list import EventEntry
from ttmem.views.monitor.event_words import event_id, event_words, said_by_runtime
from ttmem.views.monitor.page import Look
from ttmem.views.text import ELLIPSIS, clean

LOW = 14  # lines; below that the stream needs them all
SHARE = 6  # one line in so many
REST = 12  # lines that the page keeps when the whole text is shown


def detail_lines(
    row: EventEntry | None, names: Mapping[str, str], look: Look, whole_text: bool
) -> list[Line]:
    """Always the same number of lines, so that the stream above stays where it is."""
    room = max(look.height - REST, 0) if whole_text else look.height // SHARE
    if look.height < LOW or room < 1:
        return []
    lines = [] if row is None else indent(_lines(row, names, look), 1)
    if len(lines) > room:
        more = faint(f" {ELLIPSIS} {len(lines) - room + 1:,} more lines: x")
        lines = [*lines[: room - 1], more]
    return [EMPTY, *(clip_line(line, look.width) for line in [*lines, *[EMPTY] * room][:room])]


def _lines(row: EventEntry, names: Mapping[str, str], look: Look) -> list[Line]:
    width = max(look.width - 1, 1)
    style = Style.ALARM if row.anomaly else Style.LABEL
    facts = [ink(clock(row.order[0], look.zone) if row.order[0] else "earlier")]
    if row.pid is not None:
        command = owners(look.snapshot).get(row.pid)
        facts.append(ink(f"pid {row.pid}" + (f" ({command})" if command else "")))
    if device := names.get(words(row.entry, "device") or ""):
        facts.append(ink(f"device {device}"))
    if row.size is not None:
        facts.append(ink(look.state.units.text(row.size)))
    facts += [ink(clean(text)) for key in ("name", "site") if (text := words(row.entry, key))]
    if row.anomaly is not None:
        return [*flow(facts, width), *paragraph(row.anomaly.text, width, style)]
    what = event_words({**row.entry, "text": None})
    number = event_id(row.entry)
    facts.insert(1, ink(what if number is None else f"{what} {number:#x}", style))
    said = said_by_runtime(words(row.entry, "text"))
    return [*flow(facts, width), *(line for text in said for line in paragraph(text, width))]
