"""What the analyses say about a run, as the page shows it: rows of texts, or why there is no answer."""

from __future__ import annotations

import os
from typing import Any

from ttmem.analysis.composition import Part, compositions
from ttmem.analysis.failures import explain
from ttmem.analysis.history import History
from ttmem.analysis.leaks import Finding, Verdict, find_leaks
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.analysis.sizing import Advice, sizes
from ttmem.errors import TtmemError
from ttmem.sizes import human, several
from ttmem.views.failures import headline, render_failure
from ttmem.views.names import DeviceNames
from ttmem.views.peak import memory_name
from ttmem.web.lives import Lives

MOST_FAILURES = 20
_WIDTH = 110  # columns of an explanation
_LABEL = 13  # columns of its labels

Answer = dict[str, Any]


def failures(history: History, lives: Lives) -> list[Answer]:
    """The first failures, with everything that `ttmem explain` says about them."""
    found: list[Answer] = []
    for failure in recorded_failures(history.recording):
        if len(found) == MOST_FAILURES:
            break
        explanation = explain(failure)
        text = render_failure(failure.pid or 0, explanation, width=_WIDTH, color=False)
        position = history.recording.instant(
            (max(failure.time_ns, history.info.started_ns) - history.info.started_ns) / 1e9
        ).position
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


def parts(history: History) -> Answer:
    """`ttmem peak`: what the live set at each peak is made of; devices that did the same are one row."""
    try:
        history.need_everything("split")
        found = compositions(history)
    except TtmemError as reason:
        return {"refused": f"Not split: {_without_folders(history, reason)}."}
    names = DeviceNames(history.end.devices)
    reasons = {one.stale_unknown for one in found if one.stale_unknown}
    return {
        "about": "Circular and dataflow buffers of cached programs; intermediates of the op that ran at the peak;"
        " persistent; stale: allocated in an iteration and alive many iterations later.",
        "rows": [
            {
                "memory": memory_name(one.memory),
                "devices": names.some(device.unique_id for device in one.devices),
                "bytes": one.bytes,
                **{part.value: one.part(part) for part in Part},
            }
            for one in found
        ],
        "none": "Nothing was held.",
        "notes": [f"Stale is N/A: {reason}." for reason in sorted(reasons)],
    }


def leaks(history: History) -> Answer:
    """`ttmem leaks`; no verdict on incomplete data."""
    try:
        found = find_leaks(history)
    except TtmemError as reason:
        return {"refused": f"No verdict: {_without_folders(history, reason)}."}
    names = DeviceNames(history.end.devices)
    windows = found.windows
    compared = (
        f"{len(windows.windows)} equal parts of the time"
        if windows.by == "window"
        else f"{len(windows.windows):,} iterations ({windows.what})"
    )
    return {
        "about": f"Lowest levels of {compared} were compared; {several(found.steady, 'line')} of code held steady.",
        "rows": [
            _leak(one, names, windows.by)
            for one in found.findings
            if one.verdict is not Verdict.STEADY
        ],
        "none": "Nothing grows from iteration to iteration.",
    }


def sizing(history: History) -> Answer:
    """`ttmem size`; no advice from incomplete data."""
    try:
        found = sizes(history)
    except TtmemError as reason:
        return {"refused": f"No advice: {_without_folders(history, reason)}."}
    return {
        "about": "With a margin of 25 % above what this run needed; `ttmem size` takes others.",
        "rows": [_advice(one) for one in found.advice],
        "none": "Nothing is known about the sizes of this board.",
    }


def _advice(one: Advice) -> Answer:
    observed = "N/A" if one.observed is None else f"{one.observed:,}"
    remarks = [one.reason or "", f"not seen: {one.not_observed}" if one.advised is not None else ""]
    return {
        "setting": one.name,
        "unit": one.unit,
        "advice": "N/A" if one.advised is None else f"{one.advised:,}",
        "observed": f"at least {observed}" if one.at_least else observed,
        "configured": "N/A" if one.configured is None else f"{one.configured:,}",
        "remarks": "; ".join(text for text in remarks if text),
    }


def _without_folders(history: History, reason: TtmemError) -> str:
    return str(reason).replace(history.info.name, os.path.basename(history.info.name))


def _leak(one: Finding, names: DeviceNames, by: str) -> Answer:
    unit = "part" if by == "window" else "iteration"
    growth = "N/A"
    if one.per_iteration is not None:
        number = round(one.per_iteration)
        amount = several(number, "program") if one.line.kind == "programs" else human(number)
        growth = f"{amount} per {unit}"
    if one.until_full is not None:
        growth += f"; full after {one.until_full:,} more"
    where = one.line.op or "no call site is known"
    return {
        "verdict": one.verdict.value,
        "confidence": one.confidence,
        "growth": growth,
        "memory": f"{one.line.kind} of {names.some(one.devices)}",
        "where": "program cache" if one.line.kind == "programs" else where,
        "op": one.line.op,
        "site": one.line.site,
        "evidence": one.evidence,
    }
