"""A small recording with known figures: two processes on two devices, with ops, call sites, phases and a failure."""

from __future__ import annotations

from pathlib import Path

from ttmem.events import DeviceDeclaration, Event, Flag, MemoryKind, Notice, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

NOW = 1_800_000_000_000_000_000
MS = 1_000_000
CHIPS = ("1001", "1002")
OPS = {1: "ttnn.matmul", 2: "ttnn.from_torch", 3: "ttnn.add"}
SITES = {
    11: "/src/model.py:42 forward\n/src/model.py:9 main",
    12: "/src/weights.py:7 load",
    13: "/src/model.py:50 forward\n/src/model.py:9 main",
}
PHASES = {21: "prefill", 22: "decode"}
ASKED = 7 << 20  # of the allocation that fails


def declaration(number: int) -> DeviceDeclaration:
    return DeviceDeclaration(
        number,
        unique_id=CHIPS[number],
        board="n300",
        arch="wormhole_b0",
        grid=(8, 8),
        dram_banks=12,
        dram_bank_size=1 << 30,
        dram_base=1 << 20,
        l1_banks=64,
        l1_bank_size=1 << 20,
        l1_small_bank_size=0,
        l1_per_core=1_499_136,
        cb_base=100_000,
    )


def opened(books: Books, pid: int, source: str = "socket") -> ProcessRecord:
    facts = ProcessFacts(pid, pid, "ann", f"python model.py --rank {pid}")
    process = books.open_process(facts, source)
    books.native.follow_table(process.index)  # as a probe: nobody else reports failed allocations
    for number in range(len(CHIPS)):
        books.declare(process, declaration(number))
    for number, text in (OPS | SITES | PHASES).items():
        books.define_string(process, number, text)
    books.define_cores(process, 5, 0b1111)
    return process


def alloc(number: int, kind: MemoryKind, per_bank: int, address: int, **more: int) -> Event:
    banks = 12 if kind in (MemoryKind.DRAM, MemoryKind.TRACE) else 64
    size = per_bank * banks
    return Event(Op.ALLOC, kind, id=number, size=size - 64, extra=size, address=address, **more)


def free(number: int, kind: MemoryKind, **more: int) -> Event:
    return Event(Op.FREE, kind, Flag.KIND_KNOWN, id=number, **more)


def events() -> list[tuple[int, list[Event]]]:
    """Batches, each with the index of its process; every event 1 ms after the one before."""
    weights = [
        alloc(
            n, MemoryKind.DRAM, 4096, (1 << 20) + 4096 * n, device=n % 2, cores=21, name=2, site=12
        )
        for n in range(40)
    ]
    work = []
    for n in range(100, 130):
        work += [
            alloc(n, MemoryKind.L1, 2048, 1_000_000 - 2048 * (n % 7), cores=22, name=1, site=11),
            Event(Op.CB_ALLOC, id=100_000, size=4 * 8192, extra=n, address=100_000, cores=5),
            Event(Op.PROGRAM_DISPATCH, flags=Flag.CACHE_MISS, id=n, name=1, site=11),
        ]
        if n % 3:
            work.append(free(n, MemoryKind.L1, cores=22, name=3, site=13))
    failed = Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, size=ASKED, name=3, site=13, device=0)
    phase = [Event(Notice.PHASE_ENTERED, name=number) for number in (21, 22)]
    return [
        (0, [phase[0], *weights]),
        (1, weights[:10]),
        (0, [phase[1], *work]),
        (0, [failed]),
        (1, [free(n, MemoryKind.DRAM, device=n % 2, name=2, site=12) for n in range(5)]),
    ]


def record(path: Path, source: str = "socket") -> Books:
    """Writes the recording; the books as they are at its end."""
    books = Books()
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    processes = [opened(books, pid, source) for pid in (41, 42)]
    now = NOW
    for index, batch in events():
        timed = []
        for event in batch:
            now += MS
            timed.append(event._replace(time=now).pack())
        books.apply(processes[index], b"".join(timed), 0, 64 * len(timed), now)
        books.tick(now)
        recorder.tick(now)
    recorder.close()
    return books
