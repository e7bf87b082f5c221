"""`ttmem peak`: what was alive at each peak."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ttmem.analysis.composition import Composition, Holder, Part, ProgramCircularBuffers
from ttmem.analysis.free_space import LeastFree
from ttmem.analysis.history import L1_USED, History
from ttmem.probe.report import Origin
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.analysis.call_sites import callers, made_by
from ttmem.views.ink import Line, Style, faint, flow, indent, ink
from ttmem.views.meter import share_text
from ttmem.views.names import DeviceNames
from ttmem.views.notes import Note, note_lines
from ttmem.views.selection import TITLES
from ttmem.views.table import Column, page, section, table_of

SCHEMA = "ttmem.peak/1"
PROGRAMS = 3
PARTS = {
    Part.CIRCULAR: "circular and dataflow buffers",
    Part.INTERMEDIATE: "intermediates of the running op",
    Part.PERSISTENT: "persistent",
    Part.STALE: "stale",
    Part.COUNTED: "of processes known only from counters",
}
SHARED = (
    "Circular buffers of cached programs share addresses: together they take what the row CB says, which is less than"
    " the sum of the programs."
)
OVERLAP = (
    "L1 used exceeds the capacity because L1 buffers may lie where cached programs have circular buffers, and both"
    " count"
)
UNTOUCHED = "which buffers an op reads is not recorded, so 'stale' means old, not unused"
OUTSIDE = "outside any phase"


def memory_name(memory: str) -> str:
    """'L1 used', 'DRAM'."""
    return "L1 used" if memory == L1_USED else memory.upper()


def peak_document(
    history: History, found: Sequence[Composition], least: Sequence[LeastFree], by: Sequence[str]
) -> dict[str, Any]:
    """Bytes are integers; what is unknown is null."""
    windows = history.windows()
    return {
        "schema": SCHEMA,
        "recording": history.info.name,
        "losses": list(history.losses),
        "totals_only": list(history.sums_only),
        "iterations": {
            "by": windows.by,
            "what": windows.what,
            "number": len(windows.windows) if windows.repeats else None,
        },
        "peaks": [_peak_document(one, by) for one in found],
        "least_free": [one._asdict() for one in least],
    }


def _peak_document(found: Composition, by: Sequence[str]) -> dict[str, Any]:
    op, site = found.running or (None, None)
    return {
        "devices": [
            {"unique_id": one.unique_id, "logical_id": one.logical_id, "board": one.board}
            for one in found.devices
        ],
        "memory": found.memory,
        "bytes": found.bytes,
        "at_least": found.at_least,
        "capacity": found.capacity,
        "position": found.position,
        "time_ns": found.time_ns,
        "parts": {part.value: found.part(part) for part in Part},
        "running": {"op": op, "site": site},
        "stale_unknown": found.stale_unknown,
        "holders": [
            {**one._asdict(), "part": one.part.value, "number": one.number or None}
            for one in (found.by(*by) if by else found.holders)
        ],
        "programs": [one._asdict() for one in found.programs],
    }


def render_peaks(
    history: History,
    found: Sequence[Composition],
    least: Sequence[LeastFree],
    *,
    by: Sequence[str],
    top: int,
    width: int,
    color: bool,
) -> str:
    """A block for each peak, then how small the largest free block became in each phase."""
    names = DeviceNames(history.end.devices)
    order = (L1_USED, "l1", "l1_small", "cb", "dram", "trace")
    ranked = sorted(found, key=lambda one: (order.index(one.memory), one.devices[0].unique_id))
    blocks = [_block(history, one, names, by, top, width) for one in ranked]
    return page(
        [
            note_lines(_warnings(history), width),
            *blocks,
            _least(least, names, width),
            note_lines(_notes(ranked), width),
        ],
        width,
        color,
    )


def _block(
    history: History,
    found: Composition,
    names: DeviceNames,
    by: Sequence[str],
    top: int,
    width: int,
) -> list[Line]:
    of = f" of {human(found.capacity)}" if found.capacity else ""
    share = share_text(found.bytes / found.capacity) if found.capacity else None
    when = history.recording.since_start(found.position, found.time_ns)
    least = "at least " if found.at_least else ""
    head = f"PEAK OF {memory_name(found.memory)}  {least}{human(found.bytes)}{of}"
    where = names.sentence(device.unique_id for device in found.devices)
    at = f"@{found.time_ns}" if found.counted else f"#{found.position}"
    remark = f"{share + ', ' if share else ''}{where}, at {when} (--at '{at}')"
    return [
        *section(head, remark, indent(_parts(found, width - 2), 2)),
        *_holders(found, by, top, width),
        *_programs(found.programs, width),
    ]


def _parts(found: Composition, width: int) -> list[Line]:
    parts = ((found.part(part), name) for part, name in PARTS.items())
    facts = [(*ink(human(size)), *faint(f" {name}")) for size, name in parts if size != 0]
    return flow(facts, width, "   ")


def _holders(found: Composition, by: Sequence[str], top: int, width: int) -> list[Line]:
    holders = found.by(*by) if by else list(found.holders)
    shown = holders[:top] if top else holders
    columns: list[Column[Holder]] = [
        Column("  BYTES", lambda one: f"  {human(one.bytes)}", right=True),
        Column("SHARE", lambda one: share_text(one.bytes / found.bytes), right=True),
        Column("NUMBER", lambda one: f"{one.number:,}" if one.number else None, right=True),
        Column("MEMORY", lambda one: one.kind),
    ]
    if not by:
        columns.append(Column("PART", lambda one: one.part.value))
    title = TITLES[by[0]] if by else "ALLOCATED BY"
    columns.append(Column(title, lambda one: partial(_name, one, by), grow=1))
    stacks = [_callers(one, width) for one in shown] if "stack" in by else ()
    lines = table_of(columns, shown).fitted_lines(width, stacks)
    if rest := holders[len(shown) :]:
        bytes_ = human(sum(one.bytes for one in rest))
        lines.append(
            faint(f"   and {bytes_} of {several(len(rest), 'more holder')}; --top 0 shows all")
        )
    return lines


def _callers(one: Holder, width: int) -> list[Line]:
    origin = Origin(one.op, one.site, one.phase)
    return indent(map(faint, callers(origin, width - 10)), 10)


def _name(one: Holder, by: Sequence[str], width: int) -> Line:
    if one.kind == "CB":
        return faint(f"circular buffers of {several(one.number, 'program')}")
    if one.part is Part.COUNTED:
        return faint(f"pid {one.pid}: only its counters are known")
    if not by or by[0] in ("site", "stack"):
        shown = Origin(one.op if not by else "", one.site, one.phase if not by else None)
        return ink(made_by(shown, width, "" if by or one.site else "outside any op").strip())
    value = getattr(one, by[0])
    if value is None:
        return faint(OUTSIDE if by[0] == "phase" else "N/A")
    return ink(clean(str(value)))


def _programs(programs: Sequence[ProgramCircularBuffers], width: int) -> list[Line]:
    if not programs:
        return []
    title = f"LARGEST OF {several(len(programs), 'PROGRAM').upper()}"
    columns: list[Column[ProgramCircularBuffers]] = [
        Column("  BYTES", lambda one: f"  {human(one.bytes)}", right=True),
        Column("CBS", lambda one: f"{one.buffers:,}", right=True),
        Column(title, lambda one: partial(_origin, Origin(one.name, one.site)), grow=1),
    ]
    return table_of(columns, programs[:PROGRAMS]).fitted_lines(width)


def _origin(origin: Origin, width: int) -> Line:
    return ink(made_by(origin, width, "N/A"))


def _least(least: Sequence[LeastFree], names: DeviceNames, width: int) -> list[Line]:
    """Devices with the same figures share a row."""
    rows: dict[LeastFree, list[str]] = {}
    for one in least:
        rows.setdefault(one._replace(device="", position=0, time_ns=0), []).append(one.device)
    columns: list[Column[LeastFree]] = [
        Column("MEMORY", lambda one: one.kind),
        Column("ALL BANKS", lambda one: human(one.largest_free), right=True),
        Column("PER BANK", lambda one: human(one.per_bank), right=True),
        Column("DEVICES", lambda one: names.some(rows[one])),
        Column("PHASE", lambda one: one.phase or faint(OUTSIDE), grow=1),
    ]
    ordered = sorted(rows, key=lambda one: (one.kind, one.largest_free))
    lines = table_of(columns, ordered).fitted_lines(width) if rows else []
    return section("LARGEST FREE BLOCK", "at its smallest, in each phase", lines)


def _warnings(history: History) -> list[Note]:
    """Before the figures: they are lower bounds."""
    notes = [
        Note("!", Style.WARN, f"this recording is not complete: {loss}") for loss in history.losses
    ]
    if history.sums_only:
        pids = ", ".join(map(str, history.sums_only))
        text = f"of pid {pids} only counters are known; `ttmem run` records each buffer"
        notes.append(Note("!", Style.WARN, text))
    return notes


def _notes(found: Sequence[Composition]) -> list[Note]:
    notes = []
    if any(one.memory == L1_USED and one.bytes > (one.capacity or one.bytes) for one in found):
        notes.append(Note("-", Style.FAINT, OVERLAP))
    if any(len(one.programs) > 1 for one in found):
        notes.append(Note("-", Style.FAINT, SHARED))
    if any(one.part(Part.INTERMEDIATE) is None for one in found):
        text = "intermediates N/A: which op was running is not recorded"
        notes.append(Note("-", Style.FAINT, text))
    reasons = {one.stale_unknown for one in found if one.stale_unknown}
    notes += [Note("-", Style.FAINT, f"stale N/A: {reason}") for reason in sorted(reasons)]
    if found and not reasons:
        notes.append(Note("-", Style.FAINT, UNTOUCHED))
    return notes
