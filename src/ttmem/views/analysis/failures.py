"""Explained failures: what was requested and by whom, and what holds the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ttmem.analysis.failures import Explanation, InTheWay, SiteTotal
from ttmem.events import MemoryKind
from ttmem.events.runtime_messages import Verdict
from ttmem.probe.report import Holding, Origin, WantedBuffer
from ttmem.sizes import human, several
from ttmem.text import columns, wrap
from ttmem.views.analysis.call_sites import callers, in_phase, made_by
from ttmem.views.ink import Line, Style, faint, ink, pad, paint
from ttmem.views.names import numbers

HOLDERS = 5
WANTED = 8  # circular buffers
_LABEL = 11


def render_failure(
    pid: int, explanation: Explanation, *, width: int, color: bool, times: int = 1
) -> str:
    """About a dozen lines, and the callers if whole stacks are known. `times`: how often the same happened."""
    failure = explanation.failure
    columns = width - _LABEL - 2
    more = several(times - 1, "more time")
    repeated = f"{more}, by the same line, with the same size and verdict; this is the first"
    lines = [
        ink(f"ttmem: pid {pid}: {headline(explanation)}", Style.ALARM),
        fact("asked by", _who(failure.origin, "", width)),
        *facts("", callers(failure.origin, columns)),
        fact("asked for", _asked(explanation)),
        *([fact("repeated", repeated)] if times > 1 else []),
        *facts("", _wanted(failure.wanted)),
        fact("free", _free(explanation, width)),
        fact("verdict", verdict(explanation), Style.WARN),
        *([fact("lock-step", _wasted(explanation))] if explanation.lock_step else []),
        *_to_free(explanation, width),
        *facts("advice", wrap(advice(explanation), columns)),
    ]
    by = "held by" if failure.of_that_moment else "held now"
    held = _held(explanation.holders, by, width, requested=explanation.lock_step)
    return paint([*lines, *held], width, color)


def kind_name(kind: int) -> str:
    """'L1_SMALL'."""
    return MemoryKind(kind).name if kind in list(MemoryKind) else f"kind {kind}"


def fact(label: str, text: str, style: Style = Style.PLAIN) -> Line:
    return (*pad(faint(f"  {label}"), _LABEL + 2), *ink(text, style))


def facts(label: str, texts: Iterable[str], style: Style = Style.PLAIN) -> list[Line]:
    """Under one label; nothing for empty texts."""
    return [fact("" if at else label, text, style) for at, text in enumerate(texts) if text]


def _who(origin: Origin, before: str, width: int, after: str = "") -> str:
    """Op and line in the space between two texts."""
    space = width - _LABEL - 2 - columns(before) - columns(after)
    return f"{before}{made_by(origin, space)}{after}"


def headline(explanation: Explanation) -> str:
    """What failed, and where."""
    failure, clash = explanation.failure, explanation.clash
    where = numbers(failure.chips) or "an unknown device"
    if clash:
        return f"{failure.what} clash with L1 buffers on {where}"
    one = failure.what == "buffer"
    place = f"in {kind_name(failure.kind) if one else 'L1'} of {where}"
    thing = "a buffer" if one else failure.what
    if explanation.out_of_memory:
        return f"no space for {thing} {place}"
    return f"{thing} {'was' if one else 'were'} refused {place}"


def _asked(explanation: Explanation) -> str:
    needed, clash = human(explanation.needed), explanation.clash
    if clash:
        return f"{needed} on each core of {clash.cores}, up to {clash.end:#x}"
    if explanation.failure.what != "buffer":
        return f"{needed} on each core"
    asked = human(explanation.asked)
    if explanation.at_least:
        return asked if explanation.needed is None else f"{asked}: at least {needed} in a bank"
    if explanation.banks == 1:
        return f"{asked}: {needed} in one bank"
    banks = "N/A" if explanation.banks is None else f"{explanation.banks:,}"
    return f"{asked}: {needed} in each of {banks} banks"


def _free(explanation: Explanation, width: int) -> str:
    free, largest, way = explanation.free, explanation.largest, explanation.in_the_way
    if explanation.clash is None:
        of = f"{human(free)} of {human(explanation.size)} in each bank"
        return f"{of}, largest block {human(largest)}"
    all_of_it = f"{human(free)} of {human(explanation.size)} on each core"
    at = f"{all_of_it}, {human(largest)} below {explanation.clash.lowest_buffer:#x}"
    return _who(way.origin, f"{at}, ", width) if way else at


def verdict(explanation: Explanation) -> str:
    """'exhausted: 17.1 KiB are missing in each bank'."""
    short, clash = exact(explanation.short_by), explanation.clash
    if explanation.at_least:
        short = f"at least {short}"
    where = "in each bank" if explanation.failure.what == "buffer" else "on each core"
    pieces = f"enough is free, largest block {short} too small"
    if clash:
        pieces = f"{short} are missing below {clash.lowest_buffer:#x}; the rest is free above it"
    said = ["nothing", *filter(None, map(str.strip, explanation.failure.message.splitlines()))]
    texts = {
        Verdict.EXHAUSTED: f"exhausted: {short} are missing {where}",
        Verdict.FRAGMENTED: f"fragmented: {pieces}",
        Verdict.TOO_LARGE: f"too large: even an empty device is {short} too small {where}",
        Verdict.UNKNOWN: f"unknown; the runtime says: {said[-1]}",
    }
    return texts[explanation.verdict]


def exact(size: int | None) -> str:
    """Shows a small shortfall to the byte."""
    odd = size is not None and size < 10_000 and size % 1024
    return f"{size:,} B" if odd else human(size)


def advice(explanation: Explanation) -> str:
    """What to change; empty where nothing is known."""
    failure, needed = explanation.failure, explanation.region_size
    if needed is not None:
        return _region_advice(failure.kind, needed, explanation.banks)
    if explanation.verdict is Verdict.UNKNOWN:
        return ""
    if failure.what != "buffer":
        return TOO_MUCH_FOR_A_CORE if explanation.clash is None else CLASH
    if explanation.lock_step:
        return LOCK_STEP
    return buffer_advice(explanation.verdict, failure.kind == MemoryKind.L1)


CLASH = (
    "free the buffer before this op, or keep it in DRAM; or give the op smaller blocks or more cores, so that its "
    "circular buffers end lower"
)
TOO_MUCH_FOR_A_CORE = (
    "smaller blocks or shards (in0_block_w, per_core_M, act_block_h), a smaller data type such as bfloat8_b, or more "
    "cores"
)
LOCK_STEP = (
    "each buffer takes the same block in every bank, also where it has no data: keep tensors of few pages in DRAM, or "
    "combine them"
)
FRAGMENTED = "allocate long-lived tensors first, free adjacent ones together, or move one with ttnn.reallocate"
EXHAUSTED_L1 = (
    "free what is no longer needed (ttnn.deallocate), or keep long-lived tensors in DRAM "
    "(memory_config=ttnn.DRAM_MEMORY_CONFIG)"
)
_BUFFER = {  # in L1, and elsewhere
    Verdict.EXHAUSTED: (
        EXHAUSTED_L1,
        "free what is no longer needed, use a smaller data type such as bfloat8_b, reduce batch or context, or divide "
        "it among more devices",
    ),
    Verdict.FRAGMENTED: (FRAGMENTED, FRAGMENTED),
    Verdict.TOO_LARGE: (
        "keep it in DRAM, divide it among more devices, or make it smaller",
        "divide it among more devices, use a smaller data type such as bfloat8_b, or make it smaller",
    ),
    Verdict.UNKNOWN: ("", ""),
}


def buffer_advice(found: Verdict, in_l1: bool) -> str:
    """What to change where a buffer did not fit; empty where nothing is known."""
    return _BUFFER[found][0 if in_l1 else 1]


def _region_advice(kind: int, per_bank: int, banks: int | None) -> str:
    """The argument of `open_device` that decides the size."""
    if kind == MemoryKind.L1_SMALL:
        return (
            f"open the device with l1_small_size={per_bank} or more; what comes later may need more"
        )
    if banks is None:
        return "open the device with a larger trace_region_size"
    return f"open the device with trace_region_size={per_bank * banks} or more; what comes later may need more"


def _wanted(buffers: tuple[WantedBuffer, ...]) -> list[str]:
    """'512.0 KiB at 0x1b480 on each of 110 cores', one line each, the largest first."""
    lines = []
    largest = sorted(buffers, key=lambda one: -(one.per_core or one.size))
    for one in largest[:WANTED]:
        size = human(one.size if one.per_core is None else one.per_core)
        where = "" if one.cores is None else f" on each of {one.cores:,} cores"
        where = " on one core" if one.cores == 1 else where
        inside = ", inside an L1 buffer" if one.aliased else ""
        lines.append(f"{size} at {one.address:#x}{where}{inside}")
    if rest := largest[WANTED:]:
        lines.append(f"and {several(len(rest), 'smaller one')}")
    return lines


def _wasted(explanation: Explanation) -> str:
    """Reserved and requested bytes, if lock-step allocation caused the failure."""
    reserved = sum(one.bytes for one in explanation.holders)
    requested = sum(one.requested or 0 for one in explanation.holders)
    return f"{human(requested)} were requested, {human(reserved)} are reserved for it"


def _to_free(explanation: Explanation, width: int) -> list[Line]:
    """The fewest call sites to free; if one is enough, also the others that would be."""
    ways = explanation.to_free or ()
    alone = bool(ways) and len(ways[0]) == 1
    parts = [part for way in ways for part in way] if alone else [*ways[0]] if ways else []
    texts = []
    for at, part in enumerate(parts[:HOLDERS]):
        count, where = _how_many(part)
        more = len(parts) - HOLDERS
        rest = f"  (and {more:,} more)" if at == HOLDERS - 1 and more > 0 else ""
        first = "free " if at == 0 else "or " if alone else "and "
        if part.site.origin.sought:
            text = _who(part.site.origin, f"{first}{count}", width, f"{where}{rest}")
        else:
            which = f"{count.removesuffix('of ')}buffers" if count else "the only buffer"
            text = f"{first}{which}{in_phase(part.site.origin)}{where}{rest}"
        texts.append(text)
    return facts("to fit", texts)


def _how_many(part: InTheWay) -> tuple[str, str]:
    """'2 of the 16 of ', '  at 0x1b480 and 0x2c480'."""
    all_of_it, freed = part.site.count, len(part.addresses)
    if freed == all_of_it:
        return (f"all {freed:,} of " if freed > 1 else ""), ""
    if part.any_of_them:
        return f"any of the {all_of_it:,} of ", ""
    first, last = part.addresses[0], part.addresses[-1]
    where = f"{first:#x}" if freed == 1 else f"{first:#x} {'and' if freed == 2 else 'to'} {last:#x}"
    return f"{freed:,} of the {all_of_it:,} of ", f"  at {where}"


def _held(
    holders: tuple[SiteTotal, ...], by: str, width: int, *, requested: bool = False
) -> list[Line]:
    if not holders:
        return [fact(by, "nothing that the probe has seen")]
    sizes = [human(one.bytes) for one in holders[:HOLDERS]]
    widest = max(map(len, sizes))
    texts = []
    for at, (size, one) in enumerate(zip(sizes, holders, strict=False)):
        times = f"{one.count:,} x " if one.count > 1 else ""
        asked = f"for {human(one.requested)}  " if requested else ""
        more = len(holders) - HOLDERS
        rest = f"  (and {more:,} more)" if at == HOLDERS - 1 and more > 0 else ""
        before = f"{size:>{widest}}  {asked}"
        if one.origin.sought:
            text = _who(one.origin, f"{before}{times}", width, rest)
        else:
            text = f"{before}{several(one.count, 'buffer')}{in_phase(one.origin)}{rest}"
        texts.append(text)
    return facts(by, texts)


def as_document(explanation: Explanation) -> dict[str, Any]:
    """For programs; bytes in a bank, or on a core."""
    failure, way = explanation.failure, explanation.in_the_way
    return {
        "pid": failure.pid,
        "time_ns": failure.time_ns,
        "what": failure.what,
        "kind": kind_name(failure.kind),
        "devices": list(failure.chips),
        **_origin_document(failure.origin),
        "requested": failure.requested,
        "needed": explanation.needed,
        "needed_at_least": explanation.at_least,
        "free": explanation.free,
        "largest_free": explanation.largest,
        "bank_size": explanation.size,
        "banks": explanation.banks,
        "verdict": explanation.verdict.value,
        "short_by": explanation.short_by,
        "lock_step_waste": explanation.wasted,
        "lock_step": explanation.lock_step,
        "clash": asdict(explanation.clash) if explanation.clash else None,
        "in_the_way": None if way is None else _document(way, address=way.address, held=way.held),
        "wanted": [asdict(one) for one in failure.wanted],
        "to_free": None
        if explanation.to_free is None
        else [[_in_the_way(part) for part in way] for way in explanation.to_free],
        "held_by": [_holder_document(one) for one in explanation.holders],
        "of_that_moment": failure.of_that_moment,
        "advice": advice(explanation) or None,
        "message": failure.message or None,
    }


def _origin_document(origin: Origin) -> dict[str, str | None]:
    return {"op": origin.op, "site": origin.site, "phase": origin.phase}


def _document(one: Holding | SiteTotal, **figures: int) -> dict[str, Any]:
    who = {"kind": kind_name(one.kind), **_origin_document(one.origin)}
    return {**who, **figures, "requested": one.requested}


def _holder_document(one: SiteTotal) -> dict[str, Any]:
    return _document(one, count=one.count, held=one.bytes)


def _in_the_way(part: InTheWay) -> dict[str, Any]:
    which = {"addresses": list(part.addresses), "any_of_them": part.any_of_them}
    return {**_holder_document(part.site), **which}
