"""The event record is the same in Python, in native code and on the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.events import EVENT_SIZE, DeviceDeclaration, Event, KernelType, MemoryKind, Op
from ttmem.hw import device_spec
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.wire.rows import BufferRow, KernelRow, flat_rows

U8, U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))


@given(st.tuples(U8, U8, U16, U32, U64, U64, U64, U64, U64, U32, U32, U32, U32))
def test_unpacking_is_the_inverse_of_packing(values: tuple[int, ...]) -> None:
    event = Event(*values)

    assert len(event.pack()) == EVENT_SIZE == 64
    assert Event.unpack(event.pack()) == event


def test_native_code_reads_every_field_where_python_writes_it() -> None:
    books = Books()
    process = books.open_process(ProcessFacts(1, 0, None, None))
    buffer = Event(Op.ALLOC, MemoryKind.L1, 0, 3, 11, 22, 33, 44, 55, 2, 88, 66, 77)
    kernel = Event(Op.KERNEL_LOAD, KernelType.DISPATCH, 0, 3, 12, 23, 34, 45, 56, 7, 0, 67, 78)
    for event in (buffer, kernel):
        books.apply(process, event.pack(), 0, EVENT_SIZE, 1000)

    (row,) = flat_rows(BufferRow, books.native.buffers())
    assert row == BufferRow(0, 0, MemoryKind.L1, 22, 33, 44, 55, 11, 2, 66, 77, 88)
    (loaded,) = flat_rows(KernelRow, books.native.kernels())
    facts = (0, 0, KernelType.DISPATCH, 23, 34, 1, 7, 238, 56, 45, 0, 12, 67, 78, 1)
    assert loaded == KernelRow._make(facts)


def test_a_declaration_survives_its_way_over_the_wire() -> None:
    declared = DeviceDeclaration.from_spec(
        device_spec("p150", l1_small_size=32768), 2, "4476187513037", "0000:01:00.0"
    )

    assert DeviceDeclaration.from_json(declared.to_json()) == declared
    placed = replace(declared, remote=False, position="T2:N8")
    assert DeviceDeclaration.from_json(placed.to_json()) == placed
    assert declared.l1_capacity == 110 * 1_461_120


@pytest.mark.parametrize(
    ("key", "value"), [("remote", 1), ("remote", "no"), ("position", "0"), ("position", ["T1:N1"])]
)
def test_a_place_that_is_none_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        DeviceDeclaration.from_json({"logical_id": 0, key: value})


@pytest.mark.parametrize(
    "declared",
    [
        {"dram_base": 1 << 44, "dram_bank_size": 1},
        {"cb_base": 1, "l1_bank_size": 1 << 43, "l1_small_bank_size": 1 << 43},
        {"dram_banks": 1 << 30, "dram_bank_size": 1 << 30},
        {"l1_banks": 1 << 30, "ring_per_core": 1 << 30},
    ],
)
def test_a_declaration_whose_numbers_are_sound_one_by_one_but_not_together_is_refused(
    declared: dict[str, int],
) -> None:
    with pytest.raises(ValueError, match="must be a whole number from 0 to"):
        DeviceDeclaration.from_json({"logical_id": 0, **declared})
