"""A probe's live table, taken into the books in place of events that nobody has seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ttmem.events import EVENT_SIZE, Op
from ttmem.events.record import EVENT
from ttmem.ledger.process_record import ProcessRecord

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeNews
    from ttmem.ledger.books import Books

_DEVICE, _ID, _CORES = 3, 5, 10  # places in an event


def take_table(books: Books, process: ProcessRecord, news: ProbeNews, now: int) -> None:
    """What is alive; then of the events before, which are in the table, the dispatches, which are not."""
    if news.live is None:
        return
    native = books.native
    books.remember(process, news.earlier, now)
    native.begin_resync(process.index)
    if news.missed:
        # All anew: what went unseen must not make a peak together with what came, nor lie on cores as resident.
        native.end_resync(process.index)
        native.begin_resync(process.index)
        process.probe.missed = True
        process.probe.uncounted |= news.live_programs
    books.account(process, news.live, now)
    native.end_resync(process.index)
    process.probe.uncounted &= news.live_programs
    books.account(process, _dispatches(news), now)


def _dispatches(news: ProbeNews) -> bytes:
    """Of programs that are alive. Where counts are unknown anyway, the last ones tell who runs on which core."""
    events, ops = news.earlier, news.earlier[::EVENT_SIZE]
    found: dict[object, int] = {}
    at = ops.find(Op.PROGRAM_DISPATCH)
    while at >= 0:
        values = EVENT.unpack_from(events, at * EVENT_SIZE)
        if values[_ID] in news.live_programs:
            key = (values[_DEVICE], values[_ID], values[_CORES]) if news.missed else at
            found.pop(key, None)
            found[key] = at
        at = ops.find(Op.PROGRAM_DISPATCH, at + 1)
    return b"".join(events[at * EVENT_SIZE : (at + 1) * EVENT_SIZE] for at in found.values())


def residency_known(books: Books, process: ProcessRecord, device: int) -> bool:
    """Has every core on which its cached programs have circular buffers been seen to run something since?"""
    if not process.probe.missed:
        return True
    cached = _union(row[1] for row in books.native.core_map(device) if row[0] == process.index)
    return not cached & ~_union(row[2] for row in books.native.resident_map(device))


def _union(masks: Iterable[bytes]) -> int:
    union = 0
    for mask in masks:
        union |= int.from_bytes(mask, "little")
    return union
