"""What an event says, in words that fit into a cell."""

from __future__ import annotations

from ttmem.events import Flag, Notice, Op
from ttmem.views.monitor.entries import Entry, whole, words

Sort = Op | Notice
_WORDS: dict[Sort, str] = {
    Op.ALLOC: "allocated",
    Op.FREE: "freed",
    Op.CB_ALLOC: "CB allocated",
    Op.CB_FREE: "CB freed",
    Op.KERNEL_LOAD: "kernel loaded",
    Op.KERNEL_UNLOAD: "kernel unloaded",
    Op.PROGRAM_DISPATCH: "dispatched",
    Op.PROGRAM_DESTROY: "program destroyed",
    Op.BINARY_STATUS: "binaries",
    Op.RING: "kernel ring",
    Op.COUNTERS: "counters",
    Op.CACHE_ENTRIES: "cached programs",
    Op.PROGRAM_NAME: "program named",
    Notice.DEVICE_OPENED: "device opened",
    Notice.DEVICE_CLOSED: "device closed",
    Notice.PROGRAM_CREATED: "program created",
    Notice.PROGRAM_COMPILED: "program compiled",
    Notice.PROGRAM_FINALIZED: "program finalized",
    Notice.TRACE_BEGUN: "trace begun",
    Notice.TRACE_CAPTURED: "trace captured",
    Notice.TRACE_REPLAYED: "trace replayed",
    Notice.TRACE_RELEASED: "trace released",
    Notice.ALLOCATION_FAILED: "allocation FAILED",
    Notice.PHASE_ENTERED: "phase entered",
}
_REMARKS = {
    Flag.GLOBAL: "global",
    Flag.DATAFLOW: "dataflow",
    Flag.RESENT: "resent",
    Flag.CACHE_HIT: "cache hit",
    Flag.CACHE_MISS: "cache miss",
    Flag.WITH_DEVICE: "with its device",
}
_SIZED: set[Sort | None] = {Op.ALLOC, Op.FREE, Op.CB_ALLOC, Op.CB_FREE, Op.KERNEL_LOAD}
_SIZED |= {Notice.ALLOCATION_FAILED}
_NAMELESS: set[Sort | None] = {Op.RING, Op.COUNTERS, Op.CACHE_ENTRIES}  # `id` is a figure
_NAMELESS |= {Notice.DEVICE_OPENED, Notice.DEVICE_CLOSED, Notice.PHASE_ENTERED}
_LOWER: set[Sort] = {Op.KERNEL_LOAD, Notice.PROGRAM_CREATED}  # 'fabric', beside 'DRAM'
_NAMED: dict[str, Sort] = {op.name: op for op in (*Op, *Notice)}


def event_op(entry: Entry) -> Sort | None:
    """Its sort; None if this monitor does not know it."""
    return _NAMED.get(words(entry, "op") or "")


def event_words(entry: Entry) -> str:
    """'allocated DRAM', 'dispatched, cache hit', 'binaries Committed'."""
    op = event_op(entry)
    kind = words(entry, "kind")
    if op is None:
        return f"unknown event {words(entry, 'op') or whole(entry, 'op') or ''}".rstrip()
    if kind and op is Op.BINARY_STATUS:
        kind = kind.title().replace("_", "")
    said = [f"{_WORDS[op]} {kind.lower() if op in _LOWER else kind}" if kind else _WORDS[op]]
    flags = entry.get("flags")
    for flag, remark in _REMARKS.items():
        if isinstance(flags, list) and flag.name in flags:
            said.append(remark)
    return ": ".join([", ".join(said), *said_by_runtime(words(entry, "text"))[:1]])


def said_by_runtime(text: str | None) -> list[str]:
    """Its lines, the reason first: that stands below 'info:', after a path and before a page of others."""
    lines = text.strip().splitlines() if text else []
    start = lines.index("info:") + 1 if "info:" in lines else 0
    return [*lines[start:], *lines[: max(start - 1, 0)]]


def event_size(entry: Entry) -> int | None:
    """Bytes that it is about; None where it names none. The ring's is what is in it now."""
    op = event_op(entry)
    if op is Op.RING:
        return whole(entry, "id")
    return whole(entry, "size") or None if op in _SIZED else None


def is_sized(entry: Entry) -> bool:
    """Is it about bytes at all?"""
    return event_op(entry) in _SIZED | {Op.RING}


def event_id(entry: Entry) -> int | None:
    """Which buffer, kernel or program it is about; None if about no single one."""
    return None if event_op(entry) in _NAMELESS else whole(entry, "id")
