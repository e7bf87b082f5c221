"""`ttmem report`: a recording as one page."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from heapq import nlargest
from html import escape
from importlib.resources import files
from typing import Any

from ttmem.analysis.history import History, PeakInstant
from ttmem.events import MemoryKind
from ttmem.recording import Recording
from ttmem.snapshots import Device, Snapshot
from ttmem.web import lives as lives_module
from ttmem.web.answers import answer, failures, leaks, parts, sizing
from ttmem.web.lives import AMOUNTS, KINDS, Lives, Progress, thinned
from ttmem.web.payload import UNKNOWN, Table, pack
from ttmem.web.programs import Programs

MODULES = (  # in the order of their imports
    "sizes.js",
    "payload.js",
    "window.js",
    "history.js",
    "icicle.js",
    "addresses.js",
    "cores.js",
    "tables.js",
    "elements.js",
    "charts.js",
    "panels.js",
    "report.js",
)
STYLES = ("palette.css", "charts.css", "style.css")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def page(title: str, payload: str) -> str:
    """A self-contained file: styles, modules and data are inside, and its policy forbids all connections.

    `payload` is base64, so it cannot end its element.
    """
    static = files("ttmem.web") / "static"
    style = "".join((static / name).read_text("utf-8") for name in STYLES)
    script = bundle({name: (static / name).read_text("utf-8") for name in MODULES})
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("a module ends its own element")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    template = (static / "report.html").read_text("utf-8")
    parts = {"title": escape(title), "policy": policy, "style": style, "script": script}
    parts["data"] = payload
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def bundle(modules: dict[str, str]) -> str:
    """Combines modules into one script, each with its own scope: a browser loads no module from a file:// address."""
    parts = ['"use strict";']
    for name, text in modules.items():
        body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", text)
        exported = ", ".join(_EXPORT.findall(body))
        body = _EXPORT.sub("", body)
        parts.append(f"const {_variable(name)} = (() => {{\n{body}return {{ {exported} }};\n}})();")
    return "\n".join(parts)


def _variable(file: str) -> str:
    return f"module_{file.removesuffix('.js')}"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


SCHEMA = "ttmem.report/1"
MOST_BYTES = 2_600_000  # of data, so that the page stays below 3 MB
MOST_KEYS = 60  # instants around which nothing is left out
MOST_MARKERS = 2_000
MOST_SITES = 1_000


def report(recording: Recording, progress: Progress = lambda position: None) -> str:
    """The page, as HTML."""
    history = History(recording)
    return page(f"{_name(history)} - ttmem report", payload(history, progress))


def _name(history: History) -> str:
    """Without directories: they mean nothing to the reader of a bug report."""
    return os.path.basename(history.info.name)


def payload(history: History, progress: Progress) -> str:
    """The data of the page."""
    recording = history.recording
    devices = list(history.end.devices)
    names = [device.unique_id for device in devices]
    lives = Lives(history, names, progress)
    programs = Programs(recording, lives, names, progress)
    markers = _markers(history, lives)
    known = {names[number] for number in lives.steps.device}
    peaks = [_peak(history, peak, lives) for peak in history.device_peaks if peak.device in known]
    peaks += _counted(history, lives, names)
    keys = [peak["time"] for peak in peaks if peak["memory"] != "cb"]
    keys += [mark["time"] for mark in _key_markers(markers)]
    circular, circular_omitted = programs.circular_table()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "name": _name(history),
        "about": _about(history),
        "length_ns": lives.length,
        "buffers": len(lives.buffers),
        "circular_omitted": circular_omitted,
        "devices": [_device(device, recording) for device in devices],
        "processes": _processes(history, lives),
        "peaks": peaks,
        "parts": answer(parts, history, "Not split"),
        "markers": markers[:MOST_MARKERS],
        "markers_omitted": max(0, len(markers) - MOST_MARKERS),
        "failures": failures(history, lives),
        "failures_unknown": recording.failures_unknown or None,
        "leaks": answer(leaks, history, "No verdict"),
        "sizes": answer(sizing, history, "No advice"),
        "programs": programs.listed(),
        "sites": _sites(lives),
        "masks": [f"{bits:x}" for bits in programs.masks],
        "losses": list(history.losses),
        "sums_only": list(history.sums_only),
        "remarks": [*_remarks(history.end), *lives.remarks()],
        "strings": list(lives.origins.strings),
    }
    tables: dict[str, Table] = {"origins": lives.origins.table(), "circular": circular}
    limits, packed = lives_module.PAGE_LIMITS, ""
    while not packed or (len(packed) > MOST_BYTES and limits.buffers > 1):
        shown = thinned(lives, sorted(set(keys[:MOST_KEYS])), limits)
        document |= {"complete": shown.complete, "buffers_listed": len(shown.buffers)}
        tables |= {
            "steps": lives.steps.table(shown.steps),
            "buffers": lives.buffers.table(shown.buffers),
            "omitted": shown.omitted,
            "frontier": programs.frontier_table(shown.complete),
        }
        packed, limits = pack(document, tables), limits.half()
    return packed


def _about(history: History) -> dict[str, Any]:
    info = history.info
    kept = ("host", "user", "command", "ttmem", "confidential")
    return {
        **{key: info.recorded.get(key) for key in kept},
        "started_ns": str(info.started_ns),  # beyond 2^53
        "records": info.end - info.first - info.lost,
        "lost": info.lost,
        "first": info.first,
        "end": info.end,
        "closed": info.closed,
        "unfinished": history.recording.unfinished or None,
        "bytes": info.bytes,
    }


def _peak(history: History, peak: PeakInstant, lives: Lives) -> dict[str, Any]:
    return {
        "device": peak.device,
        "memory": peak.memory,
        "bytes": peak.bytes,
        "time": max(0, peak.time_ns - history.info.started_ns)
        if peak.counted
        else lives.at(peak.position - 1),
        "position": None if peak.counted else peak.position,
    }


def _counted(history: History, lives: Lives, names: Sequence[str]) -> list[dict[str, Any]]:
    """Devices known only from counters: each second's sample becomes a step; and their peaks."""
    unknown = set(range(len(names))) - set(lives.steps.device)
    samples = history.recording.at("end", ["history"]).history or {} if unknown else {}
    peaks = []
    for number in sorted(unknown):
        found = samples.get(names[number])
        rows = list(zip(*found, strict=True)) if found else []
        for time_ns, *amounts, _l1_used in rows:
            time = max(0, time_ns - history.info.started_ns)
            lives.steps.add(number, UNKNOWN, time, amounts)
        for at, memory in enumerate((*AMOUNTS, "l1_used"), start=1):
            highest = max(rows, key=lambda row, at=at: row[at], default=None)  # type: ignore[misc]
            if highest is not None and highest[at]:
                time = max(0, highest[0] - history.info.started_ns)
                peak = {"device": names[number], "memory": memory, "bytes": highest[at]}
                peaks.append({**peak, "time": time, "position": None})
    return peaks


def _markers(history: History, lives: Lives) -> list[dict[str, Any]]:
    found = []
    for marker in history.markers:
        shown = marker._asdict() | {"time": lives.marked(marker.position, marker.time_ns)}
        del shown["time_ns"]
        found.append(shown)
    return found


def _key_markers(markers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Failures first, then marks, then phases."""
    order = ("failure", "mark", "phase")
    return sorted(
        (marker for marker in markers if marker["kind"] in order),
        key=lambda marker: order.index(marker["kind"]),
    )


def _device(device: Device, recording: Recording) -> dict[str, Any]:
    kinds, l1_map = [kind.lower() for kind in KINDS], device.l1_map
    known = ("unique_id", "logical_id", "board", "arch", "grid")
    return {
        **{name: getattr(device, name) for name in known},
        "capacity": {
            **{kind: getattr(device.memory, kind).capacity for kind in kinds},
            "l1_used": device.l1_capacity,
        },
        "banks": {
            kind.lower(): recording.banks(device.unique_id, MemoryKind[kind]).number
            for kind in KINDS
        },
        "l1_map": l1_map and {"base": l1_map.base, "small": l1_map.small_base, "end": l1_map.end},
        "misses": sorted(
            {provenance.misses for provenance in device.provenance.values() if provenance.misses}
        ),
    }


def _processes(history: History, lives: Lives) -> list[dict[str, Any]]:
    """In the order of their numbers in the table of origins; then those that made no buffer."""
    known = {process.serial: process for process in history.recording.processes}
    ordered = [*lives.origins.processes, *(known.keys() - lives.origins.processes.keys())]
    return [
        {"pid": process.pid, "user": process.user, "command": process.command}
        for process in (known.get(serial) for serial in ordered)
        if process is not None
    ]


def _sites(lives: Lives) -> list[dict[str, Any]]:
    """Totals of each call site over the whole run, by kind of memory, for all devices together."""
    buffers = lives.buffers
    origins = list(lives.origins.numbers)
    rows: dict[tuple[int, int, int], list[int]] = {}
    for row in range(len(buffers)):
        op, site, _, _ = origins[buffers.origin[row]]
        sums = rows.setdefault((site, op, buffers.kind[row]), [0, 0, 0, 0, 0])
        held, end = buffers.held[row], buffers.end[row]
        sums[0] += 1
        sums[1] += held
        sums[2] = max(sums[2], held)
        sums[3] += held if lives.is_left(row) else 0
        sums[4] += (lives.length if end < 0 else end) - buffers.start[row]
    peaks = _highest_sums(lives, origins)
    found = [
        {
            "site": site,
            "op": op,
            "kind": kind,
            "allocations": sums[0],
            "allocated": sums[1],
            "largest": sums[2],
            "at_end": sums[3],
            "peak": peaks.get((site, op, kind), 0),
            "lifetime": sums[4] // sums[0],
        }
        for (site, op, kind), sums in rows.items()
    ]
    return nlargest(MOST_SITES, found, key=lambda row: row["peak"])


def _highest_sums(
    lives: Lives, origins: Sequence[tuple[int, int, int, int]]
) -> dict[tuple[int, int, int], int]:
    """The most that each call site held at one time."""
    buffers = lives.buffers
    now: dict[tuple[int, int, int], int] = {}
    highest: dict[tuple[int, int, int], int] = {}
    for _, sign, row in buffers.changes(range(len(buffers))):
        op, site, _, _ = origins[buffers.origin[row]]
        key = (site, op, buffers.kind[row])
        held = now[key] = now.get(key, 0) + sign * buffers.held[row]
        if held > highest.get(key, 0):
            highest[key] = held
    return highest


def _remarks(end: Snapshot) -> list[str]:
    found = [*end.remarks, *(anomaly for device in end.devices for anomaly in device.anomalies)]
    return sorted({anomaly.text for anomaly in found})
