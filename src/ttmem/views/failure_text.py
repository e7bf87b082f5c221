"""An allocation that failed, in ten lines: asked for, free, exhausted or fragmented, and who holds the memory."""

from __future__ import annotations

from ttmem.analysis.explanation import Explanation, Verdict
from ttmem.analysis.holders import Holder
from ttmem.events.kinds import MemoryKind
from ttmem.sizes import human
from ttmem.views.ink import Line, Style, faint, ink, pad, paint
from ttmem.views.names import numbers
from ttmem.views.origins import operation, place

HOLDERS = 5
_LABEL = 11


def render_failure(pid: int, explanation: Explanation, *, width: int, color: bool) -> str:
    """Ten lines at most."""
    failure = explanation.failure
    lines = [
        ink(f"ttmem: pid {pid}: {_headline(explanation)}", Style.ALARM),
        _fact("asked by", f"{operation(failure.origin)}  {place(failure.origin)}"),
        _fact("asked for", _asked(explanation)),
        _fact("free", _free(explanation)),
        _fact("verdict", _verdict(explanation), Style.WARN),
    ]
    return paint([*lines, *_held(explanation.holders)], width, color)


def kind_name(kind: int) -> str:
    """'L1_SMALL'."""
    return MemoryKind(kind).name if kind in list(MemoryKind) else f"kind {kind}"


def _fact(label: str, text: str, style: Style = Style.PLAIN) -> Line:
    return (*pad(faint(f"  {label}"), _LABEL + 2), *ink(text, style))


def _headline(explanation: Explanation) -> str:
    failure, clash = explanation.failure, explanation.clash
    where = numbers(failure.chips) or "an unknown device"
    if failure.what == "buffer":
        return f"no room for a buffer in {kind_name(failure.kind)} of {where}"
    if clash:
        return f"{failure.what} clash with L1 buffers on {where}, cores {clash.cores}"
    return f"no room for {failure.what} in L1 of {where}"


def _asked(explanation: Explanation) -> str:
    requested, needed = explanation.failure.requested, explanation.needed
    if explanation.failure.what != "buffer":
        end = f", up to address {explanation.clash.end:,}" if explanation.clash else ""
        return f"{human(needed)} on each core{end}"
    return f"{human(requested)}: {human(needed)} in each of {_known(explanation.banks)} banks"


def _free(explanation: Explanation) -> str:
    free, largest, way = explanation.free, explanation.largest, explanation.in_the_way
    if explanation.clash is None:
        of = f"{human(free)} of {human(explanation.size)} in each bank"
        return f"{of}, largest block {human(largest)}"
    all_of_it = f"{human(free)} of {human(explanation.size)} on each core"
    who = f": {operation(way.origin)}  {place(way.origin)}" if way else ""
    below = f"{human(largest)} below the lowest buffer"
    return f"{all_of_it}, {below} (at {explanation.clash.lowest_buffer:,}{who})"


def _verdict(explanation: Explanation) -> str:
    missing = human((explanation.needed or 0) - (explanation.free or 0))
    where = "in each bank" if explanation.failure.what == "buffer" else "on each core"
    texts = {
        Verdict.EXHAUSTED: f"exhausted: {missing} are missing {where}; free some of what is below",
        Verdict.FRAGMENTED: "fragmented: enough is free, but not in one piece; allocate what lives long first",
        Verdict.TOO_LARGE: "too large: it would not fit if nothing else were there; use a smaller block or DRAM",
        Verdict.UNKNOWN: f"unknown; the runtime says: {_last_line(explanation.failure.message)}",
    }
    return texts[explanation.verdict]


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def _known(count: int | None) -> str:
    return "N/A" if count is None else f"{count:,}"


def _held(holders: tuple[Holder, ...]) -> list[Line]:
    if not holders:
        return [_fact("held by", "nothing that the probe has seen")]
    sizes = [human(one.bytes) for one in holders[:HOLDERS]]
    widest = max(map(len, sizes))
    lines = []
    for at, (size, one) in enumerate(zip(sizes, holders, strict=False)):
        times = f"{one.count:,} x " if one.count > 1 else ""
        more = len(holders) - HOLDERS
        rest = f"  (and {more:,} more)" if at == HOLDERS - 1 and more > 0 else ""
        text = f"{size:>{widest}}  {times}{operation(one.origin)}  {place(one.origin)}{rest}"
        lines.append(_fact("held by" if at == 0 else "", text))
    return lines
