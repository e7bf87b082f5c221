"""Amounts by kind of memory, and the banks of each kind, are defined once for the whole tree."""

from __future__ import annotations

import pytest

from ttmem.events import KINDS, Amounts, Banks, DeviceDeclaration, MemoryKind
from ttmem.hw import device_spec
from ttmem.model.allocator import Allocator

SPEC = device_spec("n300", l1_small_size=32768, trace_region_size=1 << 20)
IN_BANKS = [MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL, MemoryKind.TRACE]


def test_amounts_add_up_kind_by_kind() -> None:
    parts = [Amounts(dram=1, cb=2), Amounts(dram=10, l1=20, l1_small=30, trace=40, cb=50)]

    assert Amounts.total(parts) == Amounts(11, 20, 30, 40, 52)
    assert Amounts.total([]) == Amounts()
    assert (Amounts.total(parts).all, Amounts.total(parts).l1_used) == (153, 102)


def test_host_memory_is_not_counted_for_a_device() -> None:
    per_kind = [1 << kind for kind in MemoryKind]

    assert Amounts.of_kinds(per_kind, cb=100) == Amounts(1, 2, 8, 16, 100)
    assert [name.upper() for name in KINDS[:-1]] == [kind.name for kind in IN_BANKS]


@pytest.mark.parametrize("kind", IN_BANKS)
def test_a_declaration_has_the_banks_that_the_allocator_uses(kind: MemoryKind) -> None:
    banks = DeviceDeclaration.from_spec(SPEC, 0).banks(kind)
    allocator = Allocator(SPEC)
    free = allocator.free_list(kind)

    assert banks == Banks(allocator.num_banks(kind), free.size, free.base)


@pytest.mark.parametrize("kind", [MemoryKind.SYSTEM_MEMORY, 77])
def test_a_device_has_no_banks_of_host_memory_or_of_an_unknown_kind(kind: int) -> None:
    banks = DeviceDeclaration.from_spec(SPEC, 0).banks(kind)

    assert (banks, banks.capacity) == (Banks(None, None, None), None)


def test_a_bank_whose_lower_neighbour_is_unknown_has_a_size_but_no_base() -> None:
    declared = DeviceDeclaration(0, dram_banks=8, trace_bank_size=64, l1_small_bank_size=32)

    assert declared.banks(MemoryKind.TRACE) == Banks(8, 64, None)
    assert declared.banks(MemoryKind.L1_SMALL) == Banks(None, 32, None)


def test_l1_small_ends_where_the_l1_of_a_core_ends() -> None:
    declared = DeviceDeclaration(0, l1_banks=110, l1_per_core=1024, l1_small_bank_size=32)

    assert declared.banks(MemoryKind.L1_SMALL) == Banks(110, 32, 992)
