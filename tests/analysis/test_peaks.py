"""Peaks stand beside sizes, and sizes beside the arguments that decide them."""

from __future__ import annotations

from ttmem.analysis.peaks import Setting, peaks
from ttmem.analysis.process_picture import DeviceUse, HighWater, Origin
from ttmem.events.device import DeviceDeclaration
from ttmem.events.kinds import MemoryKind
from ttmem.probe.layout import Counted

WHO = Origin("ttnn.conv2d", "model.py:7 forward")


def device(chip: int, *marks: HighWater, trace: int = 131_072) -> DeviceUse:
    declared = DeviceDeclaration(
        logical_id=chip,
        l1_banks=110,
        l1_bank_size=1_444_736,
        l1_small_bank_size=16_384,
        dram_banks=8,
        dram_bank_size=1 << 32,
        trace_bank_size=trace,
    )
    return DeviceUse(declared, marks)


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
