"""The results of the analyses for the page: rows of text, or why there is no answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Any

from ttmem.analysis.composition import Part, compositions
from ttmem.analysis.failures import explain
from ttmem.analysis.history import History
from ttmem.analysis.leaks import LeakFinding, LeakVerdict, find_leaks
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.analysis.sizing import Advice, sizes
from ttmem.errors import TtmemError
from ttmem.sizes import human, several
from ttmem.views.analysis.failures import headline, render_failure
from ttmem.views.analysis.peak import memory_name
from ttmem.views.names import DeviceNames
from ttmem.web.lives import Lives

MOST_FAILURES = 20
_WIDTH = 110  # columns of an explanation
_LABEL = 13  # columns of its labels

Answer = dict[str, Any]


def failures(history: History, lives: Lives) -> list[Answer]:
    """The first failures, with everything that `ttmem explain` says about them."""
    # On a mesh, a failure has a marker on each chip; the first one is used.
    marks = {
        (marker.pid, marker.time_ns): marker.position
        for marker in reversed(history.markers)
        if marker.kind == "failure"
    }
    found: list[Answer] = []
    for failure in islice(recorded_failures(history.recording), MOST_FAILURES):
        explanation = explain(failure)
        text = render_failure(failure.pid or 0, explanation, width=_WIDTH, color=False)
        position = marks.get((failure.pid, failure.time_ns), 0)
        found.append(
            {
                "headline": headline(explanation),
                "time": lives.marked(position, failure.time_ns),
                "facts": _facts(text),
            }
        )
    return found


def _facts(text: str) -> list[tuple[str, str]]:
    """'  held by    12 MiB ...' -> ('held by', '12 MiB ...'); lines without a label belong to the one before."""
    facts: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        label, rest = line[:_LABEL].strip(), line[_LABEL:]
        if label or not facts:
            facts.append((label, rest))
        else:
            facts[-1] = (facts[-1][0], f"{facts[-1][1]}\n{rest}")
    return facts


def answer(ask: Callable[[History], Answer], history: History, refused: str) -> Answer:
    """`refused`: how the page says that there is none."""
    try:
        return ask(history)
    except TtmemError as problem:
        reason = str(problem).replace(history.info.name, os.path.basename(history.info.name))
        return {"refused": f"{refused}: {reason}."}


def parts(history: History) -> Answer:
    """`ttmem peak`: what was alive at each peak; devices with the same result share a row."""
    history.need_everything("split")
    found = compositions(history)
    names = DeviceNames(history.end.devices)
    reasons = {composition.stale_unknown for composition in found if composition.stale_unknown}
    return {
        "about": "Circular and dataflow buffers of cached programs; intermediates of the op that ran at the peak;"
        " persistent; stale: allocated in an iteration and alive many iterations later.",
        "rows": [
            {
                "memory": memory_name(composition.memory),
                "devices": names.some(device.unique_id for device in composition.devices),
                "bytes": composition.bytes,
                **{part.value: composition.part(part) for part in Part},
            }
            for composition in found
        ],
        "none": "Nothing was held.",
        "notes": [f"Stale is N/A: {reason}." for reason in sorted(reasons)],
    }


def leaks(history: History) -> Answer:
    """`ttmem leaks`; there is no verdict on processes whose events are not complete."""
    found = find_leaks(history)
    names = DeviceNames(history.end.devices)
    windows = found.windows
    compared = (
        f"{len(windows.windows)} equal parts of the run"
        if windows.by == "window"
        else f"{len(windows.windows):,} iterations ({windows.what})"
    )
    return {
        "about": f"Lowest levels of {compared} were compared; {several(found.steady, 'line')} of code held steady.",
        "rows": [
            _leak(finding, names, windows.by)
            for finding in found.findings
            if finding.verdict is not LeakVerdict.STEADY
        ],
        "none": "Nothing grows from iteration to iteration.",
        "notes": [f"{text}." for text in found.set_aside],
    }


def sizing(history: History) -> Answer:
    """`ttmem size`; there is no advice from incomplete data."""
    found = sizes(history)
    return {
        "about": "With a margin of 25 % above what this run needed; `ttmem size` takes others.",
        "rows": [_advice(advice) for advice in found.advice],
        "none": "Nothing is known about the sizes of this board.",
        "notes": [f"{text}." for text in found.set_aside],
    }


def _advice(advice: Advice) -> Answer:
    observed = _number(advice.observed)
    remarks = [
        advice.reason or "",
        f"not seen: {advice.not_observed}" if advice.advised is not None else "",
    ]
    return {
        "setting": advice.name,
        "unit": advice.unit,
        "advice": _number(advice.advised),
        "observed": f"at least {observed}" if advice.at_least else observed,
        "configured": _number(advice.configured),
        "remarks": "; ".join(text for text in remarks if text),
    }


def _number(value: int | None) -> str:
    return "N/A" if value is None else f"{value:,}"


def _leak(finding: LeakFinding, names: DeviceNames, by: str) -> Answer:
    unit = "part" if by == "window" else "iteration"
    growth = "N/A"
    if finding.per_iteration is not None:
        number = round(finding.per_iteration)
        amount = several(number, "program") if finding.line.kind == "programs" else human(number)
        growth = f"{amount} per {unit}"
    if finding.until_full is not None:
        growth += f"; full after {finding.until_full:,} more"
    where = finding.line.op or "no call site is known"
    return {
        "verdict": finding.verdict.value,
        "confidence": finding.confidence,
        "growth": growth,
        "memory": f"{finding.line.kind} of {names.some(finding.devices)}",
        "where": "program cache" if finding.line.kind == "programs" else where,
        "op": finding.line.op,
        "site": finding.line.site,
        "evidence": finding.evidence,
    }
