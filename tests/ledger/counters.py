"""Readings of counters, made by hand."""

from __future__ import annotations

from ttmem.events import (
    EVENT_SIZE,
    Amounts,
    DeviceSample,
    Event,
    MemoryKind,
    Op,
    Owner,
    ProcessSample,
    Remark,
)
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts

BORN = 1_700_000_000_000_000_000
NOW = BORN + 1_000_000_000


def facts(pid: int) -> ProcessFacts:
    return ProcessFacts(pid, BORN, "alice", f"python worker.py {pid}")


def alloc(size: int, id: int = 1, device: int = 0, kind: MemoryKind = MemoryKind.DRAM) -> Event:
    return Event(Op.ALLOC, kind, device=device, id=id, size=size)


def slot(
    pid: int,
    held: Amounts,
    owner: Owner = Owner.LIVE,
    *,
    started: int | None = BORN,
    name: str = "python",
) -> ProcessSample:
    known = owner in (Owner.LIVE, Owner.ROOT, Owner.UNVERIFIED)
    return ProcessSample(pid, started if known else None, name, owner, held, BORN + 9)


def region(
    unique_id: str,
    *slots: ProcessSample,
    version: int = 3,
    number: int | None = 0,
    remarks: tuple[Remark, ...] = (),
) -> DeviceSample:
    return DeviceSample(
        unique_id=unique_id,
        declaration=None,
        path=f"tt_device_{unique_id}_memory",
        version=version,
        logical_id=number,
        processes=slots,
        stored=Amounts(),
        chips=None,
        cb_method="what its version means",
        misses="other threads",
        remarks=remarks,
    )


def report(books: Books, process: ProcessRecord, *events: Event) -> None:
    data = b"".join(event.pack() for event in events)
    books.apply(process, data, 0, len(events) * EVENT_SIZE, BORN + 10)
