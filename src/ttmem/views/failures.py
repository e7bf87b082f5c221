"""Failed allocations, explained: who asked, for how much, who holds the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ttmem.analysis.failures import Explanation, Holder
from ttmem.events import MemoryKind
from ttmem.events.runtime_messages import Verdict
from ttmem.probe.report import Origin
from ttmem.sizes import human, several
from ttmem.text import ELLIPSIS, clean, clip, columns
from ttmem.views.ink import Line, Style, faint, ink, pad, paint
from ttmem.views.names import numbers

UNKNOWN_OP = "outside any op"
UNKNOWN_SITE = "no line of Python"
SITES_OFF = "call sites are off"
CALLERS = 8  # of a stack; the rest is counted


def made_by(origin: Origin, width: int, unknown_op: str = UNKNOWN_OP) -> str:
    """'ttnn.matmul  model.py:42 forward  in decode'. If space is short, file and line are kept longest."""
    if not origin.sought:
        return clip(f"{SITES_OFF}{_in_phase(origin)}", width)
    innermost = (origin.site or UNKNOWN_SITE).split("\n", 1)[0]
    place, function = _parts(clean(innermost.removeprefix(os.getcwd() + os.sep)))
    phase = _in_phase(origin)
    op = clean(origin.op or unknown_op)
    bare_op = op.rpartition(".")[2]
    for head, end in ((op, function + phase), (op, phase), (bare_op, phase), (bare_op, "")):
        for shown in _with_fewer_folders(place):
            text = f"{head}  {shown}{end}".lstrip()
            if columns(text) <= width:
                return text
    left = width - columns(shown) - 2
    return f"{clip(bare_op, left)}  {shown}" if left > 2 else clip(shown, width)


def callers(origin: Origin, width: int) -> list[str]:
    """The rest of a whole stack, innermost first: 'called by model.py:42 forward'; nothing if only a line is known."""
    frames = (origin.site or "").split("\n")[1:]
    lines = [
        f"called by {_short(frame, width - columns('called by '))}" for frame in frames[:CALLERS]
    ]
    if len(frames) > CALLERS:
        lines.append(f"and {several(len(frames) - CALLERS, 'more caller')}")
    return lines


def _short(frame: str, width: int) -> str:
    place, function = _parts(clean(frame.removeprefix(os.getcwd() + os.sep)))
    texts = [f"{shown}{function}" for shown in _with_fewer_folders(place)]
    return next((text for text in texts if columns(text) <= width), clip(texts[-1], width))


def _in_phase(origin: Origin) -> str:
    return f"  in {clean(origin.phase)}" if origin.phase else ""


def _parts(site: str) -> tuple[str, str]:
    """'/src/model.py:42 forward' -> '/src/model.py:42' and ' forward'."""
    place, space, function = site.rpartition(" ")
    return (place, space + function) if ":" in place else (site, "")


def _with_fewer_folders(place: str) -> Iterator[str]:
    yield place
    while os.sep in place:
        place = place.split(os.sep, 1)[1]
        yield f"{ELLIPSIS}{os.sep}{place}"
    yield place


HOLDERS = 5
_LABEL = 11


def render_failure(pid: int, explanation: Explanation, *, width: int, color: bool) -> str:
    """Ten lines at most, and the callers if whole stacks are known."""
    failure = explanation.failure
    lines = [
        ink(f"ttmem: pid {pid}: {headline(explanation)}", Style.ALARM),
        _fact("asked by", _who(failure.origin, "", width)),
        *[_fact("", caller) for caller in callers(failure.origin, width - _LABEL - 2)],
        _fact("asked for", _asked(explanation)),
        _fact("free", _free(explanation, width)),
        _fact("verdict", verdict(explanation), Style.WARN),
    ]
    by = "held by" if failure.of_that_moment else "held now"
    return paint([*lines, *_held(explanation.holders, by, width)], width, color)


def kind_name(kind: int) -> str:
    """'L1_SMALL'."""
    return MemoryKind(kind).name if kind in list(MemoryKind) else f"kind {kind}"


def _fact(label: str, text: str, style: Style = Style.PLAIN) -> Line:
    return (*pad(faint(f"  {label}"), _LABEL + 2), *ink(text, style))


def _who(origin: Origin, before: str, width: int, after: str = "") -> str:
    """Op and line in the space between two texts."""
    room = width - _LABEL - 2 - columns(before) - columns(after)
    return f"{before}{made_by(origin, room)}{after}"


def headline(explanation: Explanation) -> str:
    """What failed, and where."""
    failure, clash = explanation.failure, explanation.clash
    where = numbers(failure.chips) or "an unknown device"
    if clash:
        return f"{failure.what} clash with L1 buffers on {where}"
    one = failure.what == "buffer"
    place = f"in {kind_name(failure.kind) if one else 'L1'} of {where}"
    thing = "a buffer" if one else failure.what
    if explanation.no_room:
        return f"no room for {thing} {place}"
    return f"{thing} {'was' if one else 'were'} refused {place}"


def _asked(explanation: Explanation) -> str:
    needed, clash = human(explanation.needed), explanation.clash
    if clash:
        return f"{needed} on each core of {clash.cores}, up to address {clash.end:,}"
    if explanation.failure.what != "buffer":
        return f"{needed} on each core"
    asked = human(explanation.asked)
    if explanation.at_least:
        return asked if explanation.needed is None else f"{asked}: at least {needed} in a bank"
    if explanation.banks == 1:
        return f"{asked}: {needed} in one bank"
    return f"{asked}: {needed} in each of {_known(explanation.banks)} banks"


def _free(explanation: Explanation, width: int) -> str:
    free, largest, way = explanation.free, explanation.largest, explanation.in_the_way
    if explanation.clash is None:
        of = f"{human(free)} of {human(explanation.size)} in each bank"
        return f"{of}, largest block {human(largest)}"
    all_of_it = f"{human(free)} of {human(explanation.size)} on each core"
    at = f"{all_of_it}, {human(largest)} below {explanation.clash.lowest_buffer:,}"
    return _who(way.origin, f"{at}, ", width) if way else at


def verdict(explanation: Explanation) -> str:
    """'exhausted: 17.1 KiB are missing in each bank'."""
    missing = human((explanation.needed or 0) - (explanation.free or 0))
    if explanation.at_least:
        missing = f"at least {missing}"
    where = "in each bank" if explanation.failure.what == "buffer" else "on each core"
    texts = {
        Verdict.EXHAUSTED: f"exhausted: {missing} are missing {where}",
        Verdict.FRAGMENTED: "fragmented: enough is free, but not in one piece",
        Verdict.TOO_LARGE: "too large: it would not fit into an empty device",
        Verdict.UNKNOWN: f"unknown; the runtime says: {_last_line(explanation.failure.message)}",
    }
    return texts[explanation.verdict]


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def _known(count: int | None) -> str:
    return "N/A" if count is None else f"{count:,}"


def _held(holders: tuple[Holder, ...], by: str, width: int) -> list[Line]:
    if not holders:
        return [_fact(by, "nothing that the probe has seen")]
    sizes = [human(one.bytes) for one in holders[:HOLDERS]]
    widest = max(map(len, sizes))
    lines = []
    for at, (size, one) in enumerate(zip(sizes, holders, strict=False)):
        times = f"{one.count:,} x " if one.count > 1 else ""
        more = len(holders) - HOLDERS
        rest = f"  (and {more:,} more)" if at == HOLDERS - 1 and more > 0 else ""
        before = f"{size:>{widest}}  {times}"
        text = _who(one.origin, before, width, rest)
        lines.append(_fact(by if at == 0 else "", text))
    return lines
