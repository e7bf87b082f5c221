"""The historical records, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.harness import tail_of
from ttmem.events import Op
from ttmem.wire.historical import SIZES, Head, Message, decode_head, encode

GOLDEN = Path(__file__).parent.parent / "data" / "historical"

ALLOC = Head(Op.ALLOC, 3, 2_097_152, 1, 4242, 0x18862C0, 1_760_000_000_123_456_789)
ANSWER = {
    "dram_allocated": 0x0102030405060708,
    "l1_allocated": 0x1112131415161718,
    "l1_small_allocated": 0x2122232425262728,
    "trace_allocated": 0x3132333435363738,
    "cb_allocated": 0x4142434445464748,
    "kernel_allocated": 917_504,
    "total_dram_size": 12_884_901_888,
    "total_l1_size": 95_944_704,
    "arch_type": 2,
    "num_dram_channels": 12,
    "dram_size_per_channel": 1_073_741_824,
    "l1_size_per_core": 1_499_136,
    "is_available": 1,
    "num_devices": 8,
    "ringbuffer_total_size": 4_521_984,
    "ringbuffer_used_bytes": 70_656,
    "ringbuffer_num_programs": 3,
}


def golden(name: str, size: int) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}_{size}.hex").read_text())


@pytest.mark.parametrize("size", SIZES)
def test_a_report_has_the_bytes_of_its_golden_file(size: int) -> None:
    assert encode(size, ALLOC) == golden("alloc", size)
    assert decode_head(golden("alloc", size)) == ALLOC


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_has_the_bytes_of_its_golden_file(size: int) -> None:
    assert encode(size, Head(Message.RESPONSE, 3), ANSWER) == golden("response", size)


@pytest.mark.parametrize(("size", "fields"), [(72, 4), (112, 12), (128, 14), (144, 17)])
def test_each_size_carries_its_own_fields(size: int, fields: int) -> None:
    tail = tail_of(golden("response", size))

    assert len(tail) == fields
    assert all(ANSWER[name] == value for name, value in tail.items())


def test_a_value_too_large_for_its_field_is_cut_to_the_largest() -> None:
    record = encode(144, Head(Message.RESPONSE), {"ringbuffer_used_bytes": 1 << 40})

    assert tail_of(record)["ringbuffer_used_bytes"] == (1 << 32) - 1
