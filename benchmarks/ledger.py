"""The ledger alone: memory of a million live buffers, the cost of one more program, events per second."""

from __future__ import annotations

import os
import time
from statistics import median

from benchmarks.ground import amount
from benchmarks.table import Row
from ttmem.events import EVENT_SIZE, Event, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.ledger.details import LAST_BYTES
from ttmem.procfs import process_facts

MILLION = amount(1_000_000, 20_000)
CORES = 110
LIVE_PROGRAMS = amount(4096, 64)
SAMPLES = amount(1000, 5)


def _books() -> tuple[Books, ProcessRecord]:
    books = Books()
    return books, books.open_process(process_facts(os.getpid()))


def _apply(books: Books, process: ProcessRecord, events: bytes) -> None:
    books.apply(process, events, 0, len(events), 1)


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bytes_per_buffer() -> float:
    """Resident memory that a million live buffers add."""
    books, process = _books()
    batch = 10_000
    before = _resident_bytes()
    for first in range(0, MILLION, batch):
        events = b"".join(
            Event(Op.ALLOC, n % 2, id=n, size=2048, extra=4096, address=64 * n).pack()
            for n in range(first, first + batch)
        )
        _apply(books, process, events)
    return (_resident_bytes() - before) / MILLION


def _program(number: int) -> bytes:
    """A program with three circular buffers, of sizes that no other program has, on 110 cores."""
    sizes = (2048 + 64 * number, 4096 + 64 * number, 1024 + 64 * number)
    events, address = [], 111_744
    for size in sizes:
        events.append(
            Event(
                Op.CB_ALLOC, id=address, size=size * CORES, extra=number, address=address, cores=1
            ).pack()
        )
        address += size
    return b"".join(events)


def _with_programs(live: int) -> tuple[Books, ProcessRecord]:
    books, process = _books()
    books.define_cores(process, 1, sum(1 << (y * 32 + x) for x in range(11) for y in range(10)))
    for number in range(1, live + 1):
        _apply(books, process, _program(number))
    books.recent.add(
        process, bytes(LAST_BYTES), 1
    )  # full in either case: a new event ends an old one
    return books, process


def _register_one(books: Books, process: ProcessRecord, number: int) -> int:
    """Nanoseconds; the program is gone again afterwards."""
    events = _program(number)
    begun = time.perf_counter_ns()
    _apply(books, process, events)
    taken = time.perf_counter_ns() - begun
    frees = (
        Event.unpack(events, at)._replace(op=Op.CB_FREE) for at in range(0, len(events), EVENT_SIZE)
    )
    _apply(books, process, b"".join(event.pack() for event in frees))
    return taken


def program_costs() -> tuple[float, float]:
    """Microseconds to register one more program with one and with thousands alive, taken in turn."""
    books = [_with_programs(live) for live in (1, LIVE_PROGRAMS)]
    rounds = [
        [_register_one(*each, 10_000 + number) for each in books] for number in range(SAMPLES)
    ]
    alone, crowded = (median(times) / 1000 for times in zip(*rounds, strict=True))
    return alone, crowded


def _pairs() -> bytes:
    return b"".join(
        Event(Op.ALLOC, 1, id=n, size=2048).pack() + Event(Op.FREE, id=n).pack()
        for n in range(20_000)
    )


def ledger_rate(events: bytes) -> float:
    """Events per second of alloc and free, in batches as the server gets them."""
    books, process = _books()
    begun = time.perf_counter()
    for at in range(0, len(events), EVENT_SIZE * 1000):
        books.apply(process, events, at, min(EVENT_SIZE * 1000, len(events) - at), 1)
    return len(events) / EVENT_SIZE / (time.perf_counter() - begun)


def dictionary_rate(events: bytes) -> float:
    """The peer: the least that Python itself would do, one dictionary and two sums."""
    live: dict[tuple[int, int], int] = {}
    held = count = 0
    begun = time.perf_counter()
    for at in range(0, len(events), EVENT_SIZE):
        event = Event.unpack(events, at)
        key = (event.device, event.id)
        if event.op == Op.ALLOC:
            live[key] = event.size
            held += event.size
            count += 1
        else:
            held -= live.pop(key)
            count -= 1
    return len(events) / EVENT_SIZE / (time.perf_counter() - begun)


def measure() -> list[Row]:
    """All figures of the ledger."""
    events = _pairs()
    mine = median(ledger_rate(events) for _ in range(5))
    peer = median(dictionary_rate(events) for _ in range(5))
    alone, crowded = program_costs()
    note = f"{alone:.1f} us with 1, {crowded:.1f} us with {LIVE_PROGRAMS:,} live programs"
    return [
        Row("ledger, one million live buffers, bytes each", bytes_per_buffer(), "B", 100),
        Row("ledger, one more program, 4,096 live against 1", crowded / alone, "x", 1.3, note=note),
        Row(
            "ledger, of a Python dictionary loop",
            mine / peer,
            "x",
            2,
            True,
            f"{mine:,.0f} events/s",
        ),
    ]
