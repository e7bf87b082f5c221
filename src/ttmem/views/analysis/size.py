"""`ttmem size`: advice for the sizes that users choose."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ttmem.analysis.sizing import SEEN_ONLY, Advice, Sizes
from ttmem.views.ink import Line, Style, indent, ink, paragraph
from ttmem.views.notes import Note, note_lines
from ttmem.views.table import Column, page, section, table_of

SCHEMA = "ttmem.size/1"


def size_document(name: str, found: Sizes, margin: float) -> dict[str, Any]:
    """What is unknown is null, with a reason."""
    return {
        "schema": SCHEMA,
        "recording": name,
        "board": found.board,
        "margin": margin,
        "set_aside": list(found.set_aside),
        "sizes": [{**asdict(one), "over": one.over} for one in found.advice],
    }


def render_sizes(name: str, found: Sizes, margin: float, *, width: int, color: bool) -> str:
    """A row for each setting, its unit and what was not observed below it."""
    columns: list[Column[Advice]] = [
        Column("SETTING", lambda one: one.name),
        Column("CONFIGURED", lambda one: _number(one.configured), right=True),
        Column("NEEDED", _needed, right=True),
        Column("ADVISED", lambda one: _number(one.advised, Style.TITLE), right=True, grow=1),
    ]
    below = [_below(one, width) for one in found.advice]
    body = table_of(columns, found.advice).fitted_lines(width, below)
    title = f"SIZES FOR {found.board or 'AN UNKNOWN BOARD'}"
    remark = f"needed in {name}; advised: {margin:.0%} more, as far as there is space"
    notes = [
        *(Note("!", Style.WARN, text) for text in found.set_aside),
        *(Note("!", Style.WARN, _too_small(one)) for one in found.advice if one.over is not None),
        Note("-", Style.FAINT, f"not seen: {SEEN_ONLY}"),
    ]
    return page([section(title, remark, body), note_lines(notes, width)], width, color)


def _number(value: int | None, style: Style = Style.PLAIN) -> Line | None:
    return None if value is None else ink(f"{value}", style)


def _needed(one: Advice) -> str | None:
    if one.observed is None:
        return None
    return f"{'at least ' if one.at_least else ''}{one.observed}"


def _below(one: Advice, width: int) -> list[Line]:
    more = one.not_observed.removeprefix(SEEN_ONLY).removeprefix("; ")
    text = f"{one.unit}; not seen: {more}" if more else one.unit
    if one.reason:
        text = f"N/A: {one.reason}"
    return indent(paragraph(text, width - 4, Style.FAINT), 4)


def _too_small(one: Advice) -> str:
    needed = f"{one.configured} configured, {one.observed} needed"
    return f"{one.name} was {one.over:.1%} too small: {needed}"


def yaml_sizes(found: Sizes, model: str) -> str:
    """As in tt-metal's models/model_trace_region_sizes.yaml."""
    trace = next(one for one in found.advice if one.name == "trace_region_size")
    return "\n".join(
        [
            "sizes:",
            f"  {json.dumps(model)}:",
            "    aliases: []",
            "    skus:",
            f"      {found.sku or 'unknown'}:",
            f"        trace_region_size: {'null' if trace.advised is None else trace.advised}",
        ]
    )
