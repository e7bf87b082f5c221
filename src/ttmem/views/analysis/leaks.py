"""`ttmem leaks`: what grows from iteration to iteration."""

from __future__ import annotations

from functools import partial
from typing import Any

from ttmem.analysis.history import History
from ttmem.analysis.leaks import PROGRAMS, UNMARKED, LeakFinding, Leaks, LeakVerdict
from ttmem.probe.report import Origin
from ttmem.sizes import human, several
from ttmem.views.analysis.call_sites import callers, made_by
from ttmem.views.ink import Line, Style, faint, indent, ink, paragraph
from ttmem.views.names import DeviceNames, pids_text
from ttmem.views.notes import Note, note_lines
from ttmem.views.table import Column, page, section, table_of

SCHEMA = "ttmem.leaks/1"
LEAST_ORIGIN = 24  # columns for op and line
QUIET = (LeakVerdict.FREED, LeakVerdict.WARM_UP)  # counted, and listed on demand
SECTIONS = {  # title and remark
    LeakVerdict.LEAK: (
        "LEAKS",
        "these lines keep growing; held at least: in the last iteration compared",
    ),
    LeakVerdict.UNDECIDED: (
        "NO VERDICT",
        "these lines grew, but it is not known what an iteration is",
    ),
    LeakVerdict.CACHE: (
        "CACHE GROWTH",
        "cached programs; they go with the cache (device.clear_program_cache())",
    ),
    LeakVerdict.LEFT: (
        "LEFT BY DEAD PROCESSES",
        "held by processes that ended without freeing it",
    ),
    LeakVerdict.FREED: ("FREED IN THE END", "these kept growing, and were freed in the end"),
    LeakVerdict.WARM_UP: ("WARM-UP", "these rose only in the first half"),
}


def leaks_document(history: History, found: Leaks) -> dict[str, Any]:
    """Bytes are integers, those of an iteration a number; what is unknown is null."""
    return {
        "schema": SCHEMA,
        "recording": history.name,
        "leaks": len(found.of(LeakVerdict.LEAK)),
        "iterations": {
            "by": found.windows.by,
            "what": found.windows.what,
            "number": len(found.windows.windows),
            "per_window": found.per_window,
        },
        "steady": found.steady,
        "not_judged": list(found.not_judged),
        "set_aside": list(found.set_aside),
        "findings": [_document(one) for one in found.findings],
    }


def _document(one: LeakFinding) -> dict[str, Any]:
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
        "held": one.held,
    }


def render_leaks(history: History, found: Leaks, *, every: bool, width: int, color: bool) -> str:
    """A table for each verdict; `every`: also warm-up."""
    names = DeviceNames(history.end.devices)
    blocks = [
        _table(found, verdict, names, width)
        for verdict in SECTIONS
        if every or verdict not in QUIET
    ]
    return page([_head(history, found, width), *blocks, _notes(found, every, width)], width, color)


def _head(history: History, found: Leaks, width: int) -> list[Line]:
    number = len(found.windows.windows)
    windows = (
        f"{number} equal parts of the run"
        if found.windows.by == "window"
        else f"{number:,} iterations ({found.windows.what})"
    )
    leaks, undecided = found.of(LeakVerdict.LEAK), found.of(LeakVerdict.UNDECIDED)
    outcome = "no leak"
    if leaks:
        outcome = several(len(leaks), "line leaks", "lines leak")
    elif undecided:
        outcome = f"no verdict for {several(len(undecided), 'line')}"
    style = Style.ALARM if leaks or undecided else Style.TITLE
    return paragraph(f"{history.name}: {outcome}; {windows} compared", width, style)


def _table(found: Leaks, verdict: LeakVerdict, names: DeviceNames, width: int) -> list[Line]:
    rows = found.of(verdict)
    if not rows:
        return []
    unit = "PART" if found.windows.by == "window" else "ITERATION"
    grows = verdict in (LeakVerdict.LEAK, LeakVerdict.CACHE)
    growth: list[Column[LeakFinding]] = [
        Column(f"BYTES/{unit}", lambda one: _bytes(one, one.per_iteration), right=True),
        Column(f"{unit}S LEFT", lambda one: _many(one.until_full), right=True),
    ]
    columns: list[Column[LeakFinding]] = [
        Column("HELD AT LEAST" if grows else "HELD", lambda one: _bytes(one, one.held), right=True),
        *(growth if grows else []),
        Column("PID", _pid, right=True),
        Column("MEMORY", lambda one: one.line.kind),
        Column("DEVICES", lambda one: names.some(one.devices)),
        Column("ALLOCATED BY", lambda one: partial(_name, one), width=LEAST_ORIGIN, grow=1),
    ]
    lines = table_of(columns, rows).fitted_lines(width, [_evidence(one, width) for one in rows])
    return section(*SECTIONS[verdict], lines)


def _evidence(one: LeakFinding, width: int) -> list[Line]:
    stack = indent(map(faint, callers(Origin(one.line.op, one.line.site), width - 8)), 8)
    if one.verdict is LeakVerdict.WARM_UP:
        return stack
    text = f"{one.confidence} confidence: {one.evidence}"
    return [*stack, *indent(paragraph(text, width - 6, Style.FAINT), 6)]


def _bytes(one: LeakFinding, bytes_: float | None) -> str:
    """On all its devices together."""
    return "N/A" if bytes_ is None else human(round(bytes_ * len(one.devices)))


def _pid(one: LeakFinding) -> str:
    return "N/A" if one.line.pid is None else str(one.line.pid)


def _many(iterations: int | None) -> str:
    return "N/A" if iterations is None else f"{iterations:,}"


def _name(one: LeakFinding, width: int) -> Line:
    if one.line.kind == PROGRAMS:
        return faint("program cache")
    return ink(made_by(Origin(one.line.op, one.line.site), width, "" if one.line.site else "N/A"))


def _notes(found: Leaks, every: bool, width: int) -> list[Line]:
    notes = [Note("!", Style.WARN, text) for text in found.set_aside]
    if found.not_judged:
        text = f"no verdict for {pids_text(found.not_judged)}: too few iterations"
        notes.append(Note("!", Style.WARN, text))
    texts = [f"{several(found.steady, 'line')} steady"]
    for verdict, did in (
        (LeakVerdict.WARM_UP, "only warmed up"),
        (LeakVerdict.FREED, "grew and were freed in the end"),
    ):
        if (quiet := len(found.of(verdict))) and not every:
            texts.insert(0, f"{several(quiet, 'line')} {did} (--all lists them)")
    notes.append(Note("-", Style.FAINT, "; ".join(texts)))
    if any(len(one.devices) > 1 for one in found.findings):
        text = "bytes are the sum of the devices of a row"
        notes.append(Note("-", Style.FAINT, text))
    if found.windows.by == "window":
        notes.append(Note("-", Style.FAINT, UNMARKED))
    return note_lines(notes, width)
