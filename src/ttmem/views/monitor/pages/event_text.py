"""What an event says: its name in words, its size, its id."""

from __future__ import annotations

from ttmem.events import Flag, Notice, Op
from ttmem.snapshots import LoggedEvent

Sort = Op | Notice
_WORDS: dict[Sort, str] = {  # of those whose name does not say it
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
    Op.CACHE_ENTRIES: "cached programs",
    Op.PROGRAM_NAME: "program named",
    Notice.ALLOCATION_FAILED: "allocation FAILED",
    Notice.CB_REFUSED: "CB did not fit",
    Notice.MARKED: "mark",
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
_SIZED |= {Notice.ALLOCATION_FAILED, Notice.CB_REFUSED}
_NAMELESS: set[Sort | None] = {Op.RING, Op.COUNTERS, Op.CACHE_ENTRIES}  # `id` is a figure
_NAMELESS |= {Notice.DEVICE_OPENED, Notice.DEVICE_CLOSED, Notice.PHASE_ENTERED, Notice.MARKED}
_LOWER: set[Sort] = {Op.KERNEL_LOAD, Notice.PROGRAM_CREATED}  # 'fabric', beside 'DRAM'
_NAMED: dict[str, Sort] = {op.name: op for op in (*Op, *Notice)}


def event_op(event: LoggedEvent) -> Sort | None:
    """Its sort; None if this monitor does not know it."""
    return _NAMED.get(str(event.op))


def event_text(event: LoggedEvent) -> str:
    """'allocated DRAM', 'dispatched, cache hit', 'binaries Committed'."""
    op, kind = event_op(event), event.kind
    if op is None:
        return f"unknown event {event.op}"
    if kind and op is Op.BINARY_STATUS:
        kind = kind.title().replace("_", "")
    words = _WORDS.get(op) or op.name.lower().replace("_", " ")
    said = [f"{words} {kind.lower() if op in _LOWER else kind}" if kind else words]
    said += [remark for flag, remark in _REMARKS.items() if flag.name in event.flags]
    return ": ".join([", ".join(said), *said_by_runtime(event.text)[:1]])


def said_by_runtime(text: str | None) -> list[str]:
    """Its lines, the reason first: that stands below 'info:', after a path and before a page of others."""
    lines = text.strip().splitlines() if text else []
    start = lines.index("info:") + 1 if "info:" in lines else 0
    return [*lines[start:], *lines[: max(start - 1, 0)]]


def event_size(event: LoggedEvent) -> int | None:
    """Bytes that it is about; None where it names none. The ring's is what is in it now."""
    op = event_op(event)
    if op is Op.RING:
        return event.id
    return event.size or None if op in _SIZED else None


def is_sized(event: LoggedEvent) -> bool:
    return event_op(event) in _SIZED | {Op.RING}


def event_id(event: LoggedEvent) -> int | None:
    """Which buffer, kernel or program it is about; None if about no single one."""
    return None if event_op(event) in _NAMELESS else event.id
