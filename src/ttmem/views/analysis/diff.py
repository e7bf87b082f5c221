"""`ttmem diff`: two runs as a table, as JSON, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.analysis.diff import Change, Diff, Limit, MemoryDiff
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.analysis.peak import memory_name
from ttmem.views.ink import Line, Style, faint, ink, paragraph
from ttmem.views.notes import Note, note_lines
from ttmem.views.table import Column, page, section, table_of

SCHEMA = "ttmem.diff/1"


def diff_document(found: Diff, broken: Sequence[Limit]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "recordings": list(found.names),
        "boards": list(found.boards),
        "memories": [
            {
                "memory": one.memory,
                "peak": _change(one.peak),
                "capacity": list(one.capacity),
                "explained": one.explained,
                "by": {by: [_change(each) for each in rows] for by, rows in one.holders.items()},
            }
            for one in found.memories
        ],
        "programs": [_change(one) for one in found.programs],
        "counts": [_change(one) for one in found.counts],
        "failed": [one.text for one in broken],
    }


def _change(one: Change) -> dict[str, Any]:
    return {**one._asdict(), "change": one.by, "what": one.what}


def render_diff(
    found: Diff, broken: Sequence[Limit], *, by: str, top: int, width: int, color: bool
) -> str:
    """Peaks, what changed in each of them, programs, and counts."""
    head = paragraph(f"{found.names[0]} and {found.names[1]}", width, Style.TITLE)
    peaks = [one.peak._replace(name=memory_name(one.memory)) for one in found.memories]
    programs = [one for one in found.programs if one.by]
    blocks = [
        section("PEAKS", "on the device that held the most", _table(peaks, "MEMORY", width)),
        *(_holders(one, by, top, width) for one in found.memories if one.peak.by),
        section(
            "CIRCULAR BUFFERS",
            "of each program, on all its cores",
            _table(programs[:top], "PROGRAM", width) if programs else [],
        ),
        section("COUNTS", "", _table(found.counts, "", width, plain=True)),
        note_lines(_notes(found, broken), width),
    ]
    return page([head, *blocks], width, color)


def _holders(one: MemoryDiff, by: str, top: int, width: int) -> list[Line]:
    rows = [each for each in one.holders[by] if each.by]
    shown = rows[:top] if top else rows
    lines = _table(shown, by.upper(), width)
    if len(rows) > len(shown):
        lines.append(
            faint(f" and {several(len(rows) - len(shown), 'more change')}; --top 0 shows all")
        )
    explained = one.explained
    share = "" if explained is None else f", {explained:.0%} of it explained by lines of code"
    return section(f"{memory_name(one.memory)} AT THE PEAK", f"{signed(one.peak.by)}{share}", lines)


def _table(rows: Sequence[Change], title: str, width: int, *, plain: bool = False) -> list[Line]:
    def change(one: Change) -> Line:
        style = Style.WARN if one.by > 0 else Style.PLAIN
        return ink(f"{one.by:+,}" if plain else signed(one.by), style)

    columns: list[Column[Change]] = [
        Column("BEFORE", lambda one: _figure(one.before, plain), right=True),
        Column("AFTER", lambda one: _figure(one.after, plain), right=True),
        Column("CHANGE", change, right=True),
        Column("", percent, right=True),
        Column("WHAT", lambda one: one.what),
        Column(title, lambda one: one.name, grow=1),
    ]
    return table_of(columns, rows).fitted_lines(width)


def _figure(value: int, plain: bool) -> str:
    return f"{value:,}" if plain else human(value)


def signed(value: int) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{human(abs(value))}"


def percent(one: Change) -> str:
    return f"{one.by / one.before:+.1%}" if one.before and one.by else ""


def exceeded(limit: Limit, found: Diff) -> str:
    """'l1.peak > +2%: 16.5 MiB, before 16.0 MiB'."""
    figure = found.figure(limit.name)
    if figure is None:
        return limit.text
    plain = figure in found.counts
    return f"{limit.text}: {_figure(figure.after, plain)}, before {_figure(figure.before, plain)}"


def _notes(found: Diff, broken: Sequence[Limit]) -> list[Note]:
    notes = [Note("!", Style.ALARM, f"exceeded: {exceeded(one, found)}") for one in broken]
    if found.boards[0] != found.boards[1]:
        text = f"the runs used different boards, {found.boards[0]} and {found.boards[1]}: sizes differ between boards"
        notes.append(Note("!", Style.WARN, text))
    notes += [Note("-", Style.FAINT, f"failed: n/a; {why}") for why in found.failed_unknown]
    return notes


def markdown_diff(found: Diff, broken: Sequence[Limit], *, by: str, top: int) -> str:
    """For a pull request, or the summary of a CI job."""
    lines = [
        f"### Device memory: `{found.names[0]}` and `{found.names[1]}`",
        "",
        *(f"**Exceeded:** `{exceeded(one, found)}`  " for one in broken),
        *([""] * bool(broken)),
        "| peak of | before | after | change | |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {memory_name(one.memory)} | {_sizes(one.peak)} | {percent(one.peak)} |"
            for one in found.memories
        ),
    ]
    for one in found.memories:
        rows = [each for each in one.holders[by] if each.by][: top or None]
        if rows:
            lines += [
                "",
                f"<details><summary>{memory_name(one.memory)} at the peak, by {by}</summary>",
                "",
                "| | before | after | change | held by |",
                "|---|---:|---:|---:|---|",
                *(f"| {each.what} | {_sizes(each)} | `{_escaped(each.name)}` |" for each in rows),
                "",
                "</details>",
            ]
    lines += ["", ", ".join(f"{one.name}: {one.before:,} → {one.after:,}" for one in found.counts)]
    lines += [f"failed: n/a; {clean(why)}" for why in found.failed_unknown]
    return "\n".join(lines)


def _sizes(one: Change) -> str:
    return f"{human(one.before)} | {human(one.after)} | {signed(one.by)}"


def _escaped(name: str) -> str:
    """Pull requests render HTML."""
    return clean(name).replace("|", "\\|").replace("`", "'")
