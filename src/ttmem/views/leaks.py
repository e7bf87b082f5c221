"""`ttmem leaks`: what grows from iteration to iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.analysis.history import History
from ttmem.analysis.leaks import PROGRAMS, Finding, Leaks, Verdict
from ttmem.probe.report import Origin
from ttmem.sizes import human, several
from ttmem.views.failures import callers, made_by
from ttmem.views.ink import Line, Style, faint, indent, ink, paragraph
from ttmem.views.names import DeviceNames
from ttmem.views.notes import Note, note_lines
from ttmem.views.table import Column, Table, page, section

SCHEMA = "ttmem.leaks/1"
QUIET = (Verdict.WARM_UP,)  # counted, and listed on demand
TITLES = {
    Verdict.LEAK: "LEAKS",
    Verdict.CACHE: "CACHE GROWTH",
    Verdict.LEFT: "LEFT BY DEAD PROCESSES",
    Verdict.WARM_UP: "WARM-UP",
}
REMARKS = {
    Verdict.LEAK: "these lines hold more after every iteration",
    Verdict.CACHE: "cached programs; they go with the cache (device.clear_program_cache())",
    Verdict.LEFT: "held by processes that ended without freeing it",
    Verdict.WARM_UP: "these rose at first, and then no more",
}


def leaks_document(history: History, found: Leaks) -> dict[str, Any]:
    """Bytes are integers, those of an iteration a number; what is unknown is null."""
    return {
        "schema": SCHEMA,
        "recording": history.info.name,
        "leaks": len(found.of(Verdict.LEAK)),
        "iterations": {
            "by": found.windows.by,
            "what": found.windows.what,
            "number": len(found.windows.windows),
            "per_window": found.per_window,
        },
        "steady": found.steady,
        "findings": [_document(one) for one in found.findings],
    }


def _document(one: Finding) -> dict[str, Any]:
    return {
        "verdict": one.verdict.value,
        "confidence": one.confidence,
        "evidence": one.evidence,
        "pid": one.line.pid,
        "memory": one.line.kind,
        "op": one.line.op,
        "site": one.line.site,
        "devices": list(one.devices),
        "bytes_per_iteration": one.per_iteration,
        "iterations_until_full": one.until_full,
        "steps": one.steps,
        "rises": one.rises,
        "low_water": list(one.low_water),
    }


def render_leaks(history: History, found: Leaks, *, every: bool, width: int, color: bool) -> str:
    """A table for each verdict; `every`: also warm-up."""
    names = DeviceNames(history.end.devices)
    blocks = [
        _table(found, verdict, names, width) for verdict in TITLES if every or verdict not in QUIET
    ]
    return page([_head(history, found, width), *blocks, _notes(found, every, width)], width, color)


def _head(history: History, found: Leaks, width: int) -> list[Line]:
    leaks = found.of(Verdict.LEAK)
    name = history.info.name
    number = len(found.windows.windows)
    windows = (
        f"{number} equal parts of the run"
        if found.windows.by == "window"
        else f"{number:,} iterations ({found.windows.what})"
    )
    if leaks:
        lines = several(len(leaks), "line leaks", "lines leak")
        return [*paragraph(f"{name}: {lines}; {windows} compared", width, Style.ALARM)]
    return [*paragraph(f"{name}: no leak; {windows} compared", width, Style.TITLE)]


def _table(found: Leaks, verdict: Verdict, names: DeviceNames, width: int) -> list[Line]:
    rows = found.of(verdict)
    if not rows:
        return []
    unit = "/PART" if found.windows.by == "window" else "/ITERATION"
    grows = verdict in (Verdict.LEAK, Verdict.CACHE)
    columns = [
        Column("HELD", right=True),
        *([Column(f"BYTES{unit}", right=True), Column("UNTIL FULL", right=True)] * grows),
        Column("MEMORY"),
        Column("DEV"),
        Column("CONFIDENCE", rank=1),
        Column("MADE BY", grow=1),
    ]
    cells = [
        [
            ink(_held(one)),
            *([ink(_bytes(one.per_iteration)), ink(_many(one.until_full))] if grows else []),
            ink(one.line.kind),
            ink(names.some(one.devices)),
            ink(one.confidence),
            _name(one, max(20, width - 66)),
        ]
        for one in rows
    ]
    lines = Table(columns, cells).fitted_lines(width)
    if len(lines) == len(rows) + 1:
        lines = _with_evidence(lines, rows, width)
    return section(TITLES[verdict], REMARKS[verdict], lines)


def _with_evidence(lines: list[Line], rows: Sequence[Finding], width: int) -> list[Line]:
    out = [lines[0]]
    for line, one in zip(lines[1:], rows, strict=True):
        stack = callers(Origin(one.line.op, one.line.site), width - 8)
        out += [line, *indent(map(faint, stack), 8)]
        if one.verdict is not Verdict.WARM_UP:
            out += indent(paragraph(one.evidence, width - 6, Style.FAINT), 6)
    return out


def _held(one: Finding) -> str:
    last = one.low_water[-1] if one.low_water else 0
    return several(last, "kernel") if one.line.kind == PROGRAMS else human(last)


def _bytes(bytes_: float | None) -> str:
    return "N/A" if bytes_ is None else human(round(bytes_))


def _many(iterations: int | None) -> str:
    return "N/A" if iterations is None else f"{iterations:,}"


def _name(one: Finding, room: int) -> Line:
    if one.line.kind == PROGRAMS:
        return faint("program cache")
    return ink(made_by(Origin(one.line.op, one.line.site), room, "" if one.line.site else "N/A"))


def _notes(found: Leaks, every: bool, width: int) -> list[Line]:
    notes = []
    quiet = len(found.of(Verdict.WARM_UP))
    if quiet and not every:
        text = (
            f"{several(quiet, 'line')} only warmed up (--all lists them); {found.steady:,} steady"
        )
    else:
        text = f"{several(found.steady, 'line')} steady"
    notes.append(Note("-", Style.FAINT, text))
    if found.windows.by == "window":
        text = (
            "the run has neither marks nor a phase that comes again: `with ttmem.phase('step'):` around each iteration"
            " makes the verdict surer, and tells bytes per iteration"
        )
        notes.append(Note("-", Style.FAINT, text))
    return note_lines(notes, width)
