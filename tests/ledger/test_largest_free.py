"""The largest free block, held to the model's allocator: equal to the byte, or not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from ttmem.events import DeviceDeclaration, Event, Flag, MemoryKind, Op
from ttmem.hw import DeviceSpec, device_spec
from ttmem.ledger import Books, ProcessRecord
from ttmem.model.allocator import Allocator
from ttmem.model.errors import OutOfMemory
from ttmem.model.layouts import Sizing
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import MemoryUse

KINDS = (MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL, MemoryKind.TRACE)


def opened(spec: DeviceSpec, books: Books, pid: int = 1) -> ProcessRecord:
    process = books.open_process(ProcessFacts(pid, None, None, None))
    books.declare(process, DeviceDeclaration.from_spec(spec, 0, "chip"))
    return process


def use(books: Books, kind: MemoryKind) -> MemoryUse:
    found: MemoryUse = getattr(books.snapshot(1).devices[0].memory, kind.name.lower())
    return found


def tell(books: Books, process: ProcessRecord, *events: Event) -> None:
    data = b"".join(event.pack() for event in events)
    books.apply(process, data, 0, len(data), 1)


def alloc(kind: MemoryKind, id: int, address: int, reserved: int) -> Event:
    return Event(Op.ALLOC, kind=kind, id=id, size=reserved or 64, extra=reserved, address=address)


def free(kind: MemoryKind, id: int) -> Event:
    return Event(Op.FREE, kind=kind, id=id, flags=Flag.KIND_KNOWN)


class History:
    """A random application: its allocator, and the events that it reports."""

    def __init__(self, spec: DeviceSpec, seed: int) -> None:
        self.allocator = Allocator(spec)
        self._random = Random(seed)
        self._live: list[tuple[MemoryKind, int, int]] = []
        self._ids = iter(range(1, 1 << 30))

    def events(self, count: int) -> Iterator[Event]:
        for _ in range(count):
            if self._live and self._random.random() < 0.47:
                kind, id, address = self._live.pop(self._random.randrange(len(self._live)))
                self.allocator.free(kind, address)
                yield free(kind, id)
            else:
                yield from self._allocate(self._random.choice(KINDS))

    def _allocate(self, kind: MemoryKind) -> Iterator[Event]:
        block = 64 * self._random.randrange(1, 200)
        banks = self.allocator.num_banks(kind)
        sizing = Sizing(block, banks, banks, block, block, block * banks)
        try:
            address = self.allocator.allocate(kind, sizing, self._random.choice([None, True]))
        except OutOfMemory:
            return
        id = next(self._ids)
        self._live.append((kind, id, address))
        yield alloc(kind, id, address, block * banks)

    def largest(self, kind: MemoryKind) -> int:
        view = self.allocator.memory_view(kind)
        return view.largest_contiguous_bytes_free_per_bank * view.num_banks


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("step", [1, 70, 6000])  # 6000: the journal is dropped, and begins anew
def test_it_is_what_the_allocator_has_after_any_history(seed: int, step: int) -> None:
    spec = device_spec("p150", l1_small_size=32_768, trace_region_size=8 << 20)
    books = Books()
    process, history = opened(spec, books), History(spec, seed)
    for _ in range(4 if step > 1000 else 40):
        tell(books, process, *history.events(step))

        seen = {kind: use(books, kind).largest_free for kind in KINDS}
        assert seen == {kind: history.largest(kind) for kind in KINDS}


def test_nothing_allocated_is_all_of_it_and_a_memory_of_no_size_has_none() -> None:
    books = Books()
    opened(device_spec("n150"), books)

    for kind in KINDS:
        assert use(books, kind).largest_free == use(books, kind).capacity
    assert use(books, MemoryKind.TRACE).largest_free == 0


SPEC = device_spec("p150")
BLOCK = 4096 * SPEC.dram_banks


@pytest.mark.parametrize(
    "odd",
    [
        alloc(MemoryKind.DRAM, 9, 0, BLOCK),  # no address
        alloc(MemoryKind.DRAM, 9, SPEC.dram_reserved + 8192, 0),  # no reserved size
        alloc(MemoryKind.DRAM, 9, SPEC.dram_reserved + 8192, BLOCK + 1),  # not in all banks alike
        alloc(MemoryKind.DRAM, 9, SPEC.dram_reserved + 64, BLOCK),  # over another
        alloc(MemoryKind.DRAM, 9, 64, BLOCK),  # below the region
        alloc(MemoryKind.DRAM, 9, SPEC.dram_view_size - 64, BLOCK),  # beyond its end
        alloc(MemoryKind.DRAM, 9, 2**64 - 64, BLOCK),
    ],
)
def test_a_block_that_no_allocator_gave_makes_it_unknown_until_it_is_gone(odd: Event) -> None:
    books = Books()
    process = opened(SPEC, books)
    tell(books, process, alloc(MemoryKind.DRAM, 1, SPEC.dram_reserved, BLOCK))
    before = use(books, MemoryKind.DRAM).largest_free
    assert before == SPEC.dram_capacity - BLOCK

    tell(books, process, odd)
    assert use(books, MemoryKind.DRAM).largest_free is None
    assert use(books, MemoryKind.L1).largest_free == SPEC.l1_banks * SPEC.l1_bank_size
    tell(books, process, free(MemoryKind.DRAM, 9))
    assert use(books, MemoryKind.DRAM).largest_free == before


def test_processes_that_split_the_banks_differently_make_it_unknown_while_both_live() -> None:
    books = Books()
    opened(SPEC, books)
    other = opened(replace(SPEC, l1_small_bank_size=1024), books, pid=2)
    assert use(books, MemoryKind.L1).largest_free is None
    assert books.snapshot(1).devices[0].l1_map is None

    books.release(other, 2)
    assert use(books, MemoryKind.L1).largest_free == SPEC.l1_banks * SPEC.l1_bank_size


def test_a_client_that_declares_no_base_has_none() -> None:
    books = Books()
    process = books.open_process(ProcessFacts(1, None, None, None))
    declared = replace(DeviceDeclaration.from_spec(SPEC, 0, "chip"), dram_base=None, cb_base=None)
    books.declare(process, declared)

    assert [use(books, kind).largest_free for kind in KINDS] == [None] * 4
