"""The runtime's messages in a log, explained as far as possible without a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ttmem.events.runtime_messages import (
    BankFigures,
    Clash,
    LogMessage,
    OperationTooLarge,
    RingTooSmall,
    Said,
    TooLarge,
    TraceRegion,
    UnsafeAllocation,
    Verdict,
    verdict,
)
from ttmem.sizes import human, several
from ttmem.text import wrap
from ttmem.views.analysis.failures import (
    CLASH,
    EXHAUSTED_L1,
    TOO_MUCH_FOR_A_CORE,
    buffer_advice,
    exact,
    facts,
)
from ttmem.views.ink import Line, Style, ink, paint

MARGIN = 1.25  # all reported overruns of trace regions were below a quarter
TRACE_STEP = 8192  # a bank's share is rounded up to it
LEARN = "ttmem run -- COMMAND explains it with op, line, and what holds the memory"


class Explained(NamedTuple):
    """What a message means."""

    title: str
    verdict: str  # a word for programs
    short_by: (
        int | None
    )  # missing bytes, in a bank, on a core or in a region; None if it does not say
    facts: dict[str, str]  # labelled sentences


def render_said(message: LogMessage, *, width: int, color: bool) -> str:
    title, _, _, told = explained(message.said)
    where = f"line {message.line:,}"
    if message.times > 1:
        where += f", {message.times:,} times"
    if message.ranks:
        where += f", {several(len(message.ranks), 'rank')}: {', '.join(map(str, message.ranks))}"
    lines: list[Line] = [ink(f"{where}: {title}", Style.ALARM)]
    for label, text in told.items():
        style = Style.WARN if label == "verdict" else Style.PLAIN
        lines += facts(label, wrap(text, width - 13), style)
    return paint(lines, width, color)


def explained(said: Said) -> Explained:
    return _EXPLAINED[type(said)](said)


def _buffer(said: BankFigures) -> Explained:
    found = verdict(said.needed, said.free, said.largest, said.bank_size)
    limits = {
        Verdict.EXHAUSTED: said.free,
        Verdict.FRAGMENTED: said.largest,
        Verdict.TOO_LARGE: said.bank_size,
    }
    limit = limits.get(found)
    short_by = None if limit is None else said.needed - limit
    short = exact(short_by)
    why = {
        Verdict.EXHAUSTED: f"exhausted: {short} are missing in each bank",
        Verdict.FRAGMENTED: f"fragmented: enough is free, largest block {short} too small",
        Verdict.TOO_LARGE: f"too large: even an empty bank is {short} too small",
        Verdict.UNKNOWN: "not known: the message, of an older runtime or cut off, does not say what was free, so it "
        "may have been exhausted or fragmented",
    }
    region = _region(said) if found in (Verdict.EXHAUSTED, Verdict.TOO_LARGE) else None
    free = ""
    if said.free is not None:
        of = f"{human(said.free)} of {human(said.bank_size)} in each bank"
        free = f"{of}, largest block {human(said.largest)}"
    told = {
        "asked for": f"{human(said.asked)}: {human(said.needed)} in each of {said.banks:,} banks",
        "free": free,
        "verdict": why[found],
        "advice": region or buffer_advice(found, said.kind == "L1"),
        "missing": "who asked, and what holds the rest",
        "to know": LEARN,
    }
    known = {label: text for label, text in told.items() if text}
    return Explained(f"no space for a buffer in {said.kind}", found.value, short_by, known)


def _region(said: BankFigures) -> str | None:
    """For memory whose size users choose."""
    if said.kind == "L1_SMALL" and said.least_bank_size is not None:
        return f"open the device with l1_small_size={said.least_bank_size} or more"
    if said.kind == "TRACE" and said.least_bank_size is not None:
        needed = said.least_bank_size * said.banks
        return f"open the device with trace_region_size={needed} or more"
    return None


def _clash(said: Clash) -> Explained:
    short_by = said.end - said.lowest_buffer
    told = {
        "asked for": _program(said),
        "in the way": f"an L1 buffer at {said.lowest_buffer:#x} ({said.lowest_buffer})",
        "verdict": f"clash: they overlap by {exact(short_by)} on each core",
        "advice": CLASH,
        "missing": f"which buffer lies at {said.lowest_buffer:#x}, and what allocated it; which op asked",
        "to know": LEARN,
    }
    title = f"{said.buffers} buffers of a program clash with an L1 buffer"
    return Explained(title, "clash", short_by, told)


def _program(said: Clash | TooLarge) -> str:
    return f"{said.buffers} buffers up to {said.end:#x} ({said.end}) on cores {said.cores}"


def _too_large(said: TooLarge) -> Explained:
    short_by = said.end - said.limit
    told = {
        "asked for": _program(said),
        "verdict": f"too large: L1 ends at {said.limit:#x}, {exact(short_by)} below",
        "advice": TOO_MUCH_FOR_A_CORE,
        "missing": "which op asked, and how large each of its buffers is",
        "to know": LEARN,
    }
    title = f"{said.buffers} buffers of a program are larger than L1"
    return Explained(title, Verdict.TOO_LARGE.value, short_by, told)


def _operation(said: OperationTooLarge) -> Explained:
    short_by = said.needed - said.available
    short = f"{exact(short_by)} are missing on each core"
    if said.ever:
        found, why = Verdict.TOO_LARGE.value, f"{short}, even of an empty device"
        advice = TOO_MUCH_FOR_A_CORE
    else:
        found, why = Verdict.EXHAUSTED.value, f"{short}; L1 buffers take the rest"
        advice = f"{EXHAUSTED_L1}; or {TOO_MUCH_FOR_A_CORE}"
    told = {
        "asked for": f"{said.needed} B on each core; {said.available} B are available",
        "verdict": f"{found}: {why}",
        "advice": advice,
        "missing": "what holds the rest: the operation refused before anything was allocated",
        "to know": "ttmem run -o FILE -- COMMAND, then `ttmem peak FILE --memory l1`",
    }
    title = f"{said.name or 'an operation'} needs more L1 than there is"
    return Explained(title, found, short_by, told)


def _trace(said: TraceRegion) -> Explained:
    short_by = said.needed - said.size
    share = f" ({100 * short_by / said.size:.1f} %)" if said.size else ""
    with_margin = -(-int(said.needed * MARGIN) // TRACE_STEP) * TRACE_STEP
    told = {
        "asked for": f"{said.needed} B of traces; trace_region_size is {said.size}",
        "verdict": f"region too small: {exact(short_by)} are missing{share}",
        "advice": f"trace_region_size={said.needed} fits what was captured so far; other batch sizes and sequence "
        f"lengths need more, {with_margin} leaves a quarter for them. It is the size in all banks together",
        "to know": "ttmem run -- COMMAND shows what traces really take, once they fit",
    }
    return Explained("the trace region is too small", "region too small", short_by, told)


def _ring(said: RingTooSmall) -> Explained:
    short_by = said.needed - said.size
    told = {
        "asked for": f"{said.needed} B for kernels, arguments and semaphores; the ring has {said.size}",
        "verdict": f"too large: {exact(short_by)} are missing on each core",
        "advice": "fewer or smaller kernels and runtime arguments; worker_l1_size smaller than the default makes the "
        "ring larger",
        "to know": "ttmem ps --kernels shows the size of each kernel while it runs",
    }
    title = "a program is too large for the kernel-config ring"
    return Explained(title, Verdict.TOO_LARGE.value, short_by, told)


def _unsafe(_: UnsafeAllocation) -> Explained:
    told = {
        "verdict": "unsafe: when the trace is replayed, it writes where its own buffers were, and may overwrite these",
        "advice": "allocate everything before a trace is captured, or release the trace first",
        "to know": LEARN,
    }
    return Explained("buffers are allocated while a trace exists", "unsafe", None, told)


_EXPLAINED: dict[type[Said], Callable[[Any], Explained]] = {
    BankFigures: _buffer,
    Clash: _clash,
    TooLarge: _too_large,
    OperationTooLarge: _operation,
    TraceRegion: _trace,
    RingTooSmall: _ring,
    UnsafeAllocation: _unsafe,
}
