"""The runtime's messages in a log, explained as far as possible without a recording."""

from __future__ import annotations

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
    EXHAUSTED_DRAM,
    EXHAUSTED_L1,
    FRAGMENTED,
    TOO_LARGE,
    TOO_LARGE_DRAM,
    TOO_MUCH_FOR_A_CORE,
    exact,
    fact,
)
from ttmem.views.ink import Line, Style, ink, paint

MARGIN = 1.25  # all reported overruns of trace regions were below a quarter
TRACE_STEP = 8192  # a bank's share is rounded up to it
LEARN = "ttmem run -- COMMAND explains it with op, line, and what holds the memory"
Facts = list[tuple[str, str]]


def render_said(message: LogMessage, *, width: int, color: bool) -> str:
    """What a message means."""
    title, facts = explained(message.said)
    where = f"line {message.line:,}"
    if message.times > 1:
        where += f", {message.times:,} times"
    if message.ranks:
        where += f", {several(len(message.ranks), 'rank')}: {', '.join(map(str, message.ranks))}"
    lines: list[Line] = [ink(f"{where}: {title}", Style.ALARM)]
    for label, text in facts:
        style = Style.WARN if label == "verdict" else Style.PLAIN
        for at, part in enumerate(wrap(text, width - 13)):
            lines.append(fact(label if at == 0 else "", part, style))
    return paint(lines, width, color)


def explained(said: Said) -> tuple[str, Facts]:
    """A title, and labelled sentences."""
    if isinstance(said, BankFigures):
        return _buffer(said)
    if isinstance(said, Clash):
        return _clash(said)
    if isinstance(said, TooLarge):
        return _too_large(said)
    if isinstance(said, TraceRegion):
        return _trace(said)
    if isinstance(said, RingTooSmall):
        return _ring(said)
    if isinstance(said, OperationTooLarge):
        return _operation(said)
    return _unsafe(said)


def verdict_of(said: Said) -> str:
    """A word for programs."""
    if isinstance(said, BankFigures):
        return verdict(said.needed, said.free, said.largest, said.bank_size).value
    if isinstance(said, OperationTooLarge):
        return Verdict.TOO_LARGE.value if said.ever else Verdict.EXHAUSTED.value
    names: dict[type[Said], str] = {
        Clash: "clash",
        TooLarge: Verdict.TOO_LARGE.value,
        TraceRegion: "region too small",
        RingTooSmall: Verdict.TOO_LARGE.value,
        UnsafeAllocation: "unsafe",
    }
    return names[type(said)]


def short_by(said: Said) -> int | None:
    """Missing bytes, in a bank, on a core or in a region; None if the message does not say."""
    if isinstance(said, BankFigures):
        limit = {
            Verdict.EXHAUSTED: said.free,
            Verdict.FRAGMENTED: said.largest,
            Verdict.TOO_LARGE: said.bank_size,
        }.get(verdict(said.needed, said.free, said.largest, said.bank_size))
        return None if limit is None else said.needed - limit
    if isinstance(said, Clash):
        return said.end - said.lowest_buffer
    if isinstance(said, TooLarge):
        return said.end - said.limit
    if isinstance(said, OperationTooLarge):
        return said.needed - said.available
    if isinstance(said, TraceRegion | RingTooSmall):
        return said.needed - said.size
    return None


def _buffer(said: BankFigures) -> tuple[str, Facts]:
    facts = [
        ("asked for", f"{human(said.asked)}: {human(said.needed)} in each of {said.banks:,} banks"),
    ]
    if said.free is not None:
        of = f"{human(said.free)} of {human(said.bank_size)} in each bank"
        facts.append(("free", f"{of}, largest block {human(said.largest)}"))
    short = exact(short_by(said))
    found = verdict(said.needed, said.free, said.largest, said.bank_size)
    texts = {
        Verdict.EXHAUSTED: (f"exhausted: {short} are missing in each bank", _exhausted(said)),
        Verdict.FRAGMENTED: (
            f"fragmented: enough is free, largest block {short} too small",
            FRAGMENTED,
        ),
        Verdict.TOO_LARGE: (
            f"too large: even an empty bank is {short} too small",
            _beyond_all(said),
        ),
        Verdict.UNKNOWN: (
            "not known: the message, of an older runtime or cut off, does not say what was free, so it may have been "
            "exhausted or fragmented",
            "",
        ),
    }
    facts += [("verdict", texts[found][0]), ("advice", texts[found][1])]
    facts += [("missing", "who asked, and what holds the rest"), ("to know", LEARN)]
    return f"no space for a buffer in {said.kind}", [one for one in facts if one[1]]


def _region(said: BankFigures) -> str | None:
    """For memory whose size users choose."""
    if said.kind == "L1_SMALL" and said.least_bank_size is not None:
        return f"open the device with l1_small_size={said.least_bank_size} or more"
    if said.kind == "TRACE" and said.least_bank_size is not None:
        needed = said.least_bank_size * said.banks
        return f"open the device with trace_region_size={needed} or more"
    return None


def _beyond_all(said: BankFigures) -> str:
    return _region(said) or (TOO_LARGE if said.kind == "L1" else TOO_LARGE_DRAM)


def _exhausted(said: BankFigures) -> str:
    if advice := _region(said):
        return advice
    return EXHAUSTED_L1 if said.kind == "L1" else EXHAUSTED_DRAM


def _clash(said: Clash) -> tuple[str, Facts]:
    short = exact(said.end - said.lowest_buffer)
    return f"{said.buffers} buffers of a program clash with an L1 buffer", [
        (
            "asked for",
            f"{said.buffers} buffers up to {said.end:#x} ({said.end}) on cores {said.cores}",
        ),
        ("in the way", f"an L1 buffer at {said.lowest_buffer:#x} ({said.lowest_buffer})"),
        ("verdict", f"clash: they overlap by {short} on each core"),
        ("advice", CLASH),
        (
            "missing",
            f"which buffer lies at {said.lowest_buffer:#x}, and what allocated it; which op asked",
        ),
        ("to know", LEARN),
    ]


def _too_large(said: TooLarge) -> tuple[str, Facts]:
    return f"{said.buffers} buffers of a program are larger than L1", [
        (
            "asked for",
            f"{said.buffers} buffers up to {said.end:#x} ({said.end}) on cores {said.cores}",
        ),
        ("verdict", f"too large: L1 ends at {said.limit:#x}, {exact(said.end - said.limit)} below"),
        ("advice", TOO_MUCH_FOR_A_CORE),
        ("missing", "which op asked, and how large each of its buffers is"),
        ("to know", LEARN),
    ]


def _operation(said: OperationTooLarge) -> tuple[str, Facts]:
    short = exact(said.needed - said.available)
    facts = [
        ("asked for", f"{said.needed} B on each core; {said.available} B are available"),
        (
            "verdict",
            f"too large: {short} are missing on each core, even of an empty device"
            if said.ever
            else f"exhausted: {short} are missing on each core; L1 buffers take the rest",
        ),
        (
            "advice",
            TOO_MUCH_FOR_A_CORE if said.ever else f"{EXHAUSTED_L1}; or {TOO_MUCH_FOR_A_CORE}",
        ),
        ("missing", "what holds the rest: the operation refused before anything was allocated"),
        (
            "to know",
            "ttmem run -o FILE -- COMMAND, then `ttmem peak FILE --memory l1`",
        ),
    ]
    return f"{said.name or 'an operation'} needs more L1 than there is", facts


def _trace(said: TraceRegion) -> tuple[str, Facts]:
    over = 100 * (said.needed - said.size) / said.size if said.size else None
    share = "" if over is None else f" ({over:.1f} %)"
    with_margin = -(-int(said.needed * MARGIN) // TRACE_STEP) * TRACE_STEP
    return "the trace region is too small", [
        ("asked for", f"{said.needed} B of traces; trace_region_size is {said.size}"),
        ("verdict", f"region too small: {exact(said.needed - said.size)} are missing{share}"),
        (
            "advice",
            f"trace_region_size={said.needed} fits what was captured so far; other batch sizes and sequence lengths "
            f"need more, {with_margin} leaves a quarter for them. It is the size in all banks together",
        ),
        ("to know", "ttmem run -- COMMAND shows what traces really take, once they fit"),
    ]


def _ring(said: RingTooSmall) -> tuple[str, Facts]:
    return "a program is too large for the kernel-config ring", [
        (
            "asked for",
            f"{said.needed} B for kernels, arguments and semaphores; the ring has {said.size}",
        ),
        ("verdict", f"too large: {exact(said.needed - said.size)} are missing on each core"),
        (
            "advice",
            "fewer or smaller kernels and runtime arguments; worker_l1_size smaller than the default makes the ring "
            "larger",
        ),
        ("to know", "ttmem ps --kernels shows the size of each kernel while it runs"),
    ]


def _unsafe(_: UnsafeAllocation) -> tuple[str, Facts]:
    return "buffers are allocated while a trace exists", [
        (
            "verdict",
            "unsafe: when the trace is replayed, it writes where its own buffers were, and may overwrite these",
        ),
        ("advice", "allocate everything before a trace is captured, or release the trace first"),
        ("to know", LEARN),
    ]
