"""Peaks stand beside sizes, and sizes beside the arguments that decide them."""

from __future__ import annotations

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.layout import Counted
from ttmem.probe.report import DeviceReport, HighWater, Origin, Refusal, Setting, peaks

WHO = Origin("ttnn.conv2d", "model.py:7 forward")


def device(
    chip: int, *marks: HighWater, trace: int = 131_072, refusals: tuple[Refusal, ...] = ()
) -> DeviceReport:
    declared = DeviceDeclaration(
        logical_id=chip,
        l1_banks=110,
        l1_bank_size=1_444_736,
        l1_small_bank_size=16_384,
        dram_banks=8,
        dram_bank_size=1 << 32,
        trace_bank_size=trace,
    )
    return DeviceReport(declared, marks, refusals)


def setting(mark: HighWater, *refusals: Refusal) -> Setting | None:
    (found,) = peaks([device(0, mark, refusals=refusals)])
    return found.setting


def test_l1_small_is_sized_for_a_core_and_trace_for_a_device() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 4_096 + 1, WHO)
    trace = HighWater(MemoryKind.TRACE, 300_000, WHO)

    found = peaks([device(0, small, trace)])

    assert [peak.setting for peak in found] == [
        Setting("l1_small_size", 16_384, 4_097),
        Setting("trace_region_size", 1_048_576, 300_000, rounded=True),
    ]
    assert [peak.size for peak in found] == [110 * 16_384, 1_048_576]


def test_devices_with_the_same_peak_are_one() -> None:
    same, other = HighWater(MemoryKind.DRAM, 64, WHO), HighWater(MemoryKind.DRAM, 65, WHO)

    found = peaks([device(0, same), device(1, other), device(2, same)])

    assert [(peak.chips, peak.high_water.bytes) for peak in found] == [((0, 2), 64), ((1,), 65)]


def test_a_region_that_nobody_made_is_not_told() -> None:
    unused = HighWater(MemoryKind.TRACE, 0, Origin())

    assert peaks([device(0, unused, trace=0)]) == []


def test_what_is_not_a_memory_has_no_size() -> None:
    (peak,) = peaks([device(0, HighWater(Counted.CB_DEMAND, 99, WHO))])

    assert (peak.size, peak.setting) == (None, None)


def test_a_peak_stands_beside_the_size_that_was_in_force_when_it_was_reached() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 20_000, WHO, size=110 * 65_536)

    (peak,) = peaks([device(0, small)])

    assert peak.size == 110 * 65_536
    assert peak.setting == Setting("l1_small_size", 65_536, 20_000)


def test_a_peak_whose_size_is_not_known_stands_beside_none() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 20_000, WHO, size=0)

    (peak,) = peaks([device(0, small)])

    assert (peak.size, peak.setting) == (None, None)


def test_what_was_refused_was_needed_too() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 16_000, WHO)
    refused = Refusal(MemoryKind.L1_SMALL, least=17_000, bank_size=16_384)

    assert setting(small, refused) == Setting("l1_small_size", 16_384, 17_000, at_least=True)


def test_a_trace_that_was_refused_is_told_for_all_banks() -> None:
    unused = HighWater(MemoryKind.TRACE, 0, Origin())
    refused = Refusal(MemoryKind.TRACE, least=200_000, bank_size=131_072)

    found = setting(unused, refused)

    assert found == Setting("trace_region_size", 1_048_576, 1_600_000, at_least=True, rounded=True)


def test_a_refusal_without_figures_says_only_that_it_was_not_enough() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 4_096, WHO)

    found = setting(small, Refusal(MemoryKind.L1_SMALL))

    assert found == Setting("l1_small_size", 16_384, 4_096, at_least=True)


def test_a_refusal_by_a_smaller_region_is_outdone_by_a_later_peak() -> None:
    small = HighWater(MemoryKind.L1_SMALL, 110 * 4_096, WHO)
    refused = Refusal(MemoryKind.L1_SMALL, least=300, bank_size=256)

    assert setting(small, refused) == Setting("l1_small_size", 16_384, 4_096)


def test_a_region_that_nobody_made_but_somebody_needed_is_told() -> None:
    unused = HighWater(MemoryKind.TRACE, 0, Origin())
    refused = Refusal(MemoryKind.TRACE, least=100, bank_size=0)

    (found,) = peaks([device(0, unused, trace=0, refusals=(refused,))])

    assert found.setting == Setting("trace_region_size", 0, 800, at_least=True, rounded=True)
