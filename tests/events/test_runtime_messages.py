"""The runtime's words, as they stand in logs and bug reports of 2024 to 2026."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ttmem.events.runtime_messages import (
    BankFigures,
    Clash,
    LogMessage,
    OperationTooLarge,
    RingTooSmall,
    Said,
    TooLarge,
    TraceRegion,
    UnsafeAllocation,
    found_in,
)

DRAM = BankFigures("DRAM", 1050673152, 12, 87556096, 1073741792, 129800224, 34201600)
WORDS = (
    "Out of Memory: Not enough space to allocate 1050673152 B DRAM buffer across 12 banks, where each bank needs to "
    "store 87556096 B"
)
CLASH = "Statically allocated circular buffers in program 702 clash with L1 buffers"


SIZE = ", but bank size is 1073741792 B"
FREE = " (allocated: 943941568 B, free: 129800224 B, largest free block: 34201600 B)"
ENDS = "L1 buffer allocated at 567488 and static circular buffer region ends at 754528"
WORDINGS: list[tuple[str, Said]] = [
    (
        f"                 Always | FATAL    | {WORDS}",
        replace(DRAM, bank_size=None, free=None, largest=None),
    ),
    (
        f"E       {WORDS}, but bank size is only 1073741792 B (assert.hpp:103)",
        replace(DRAM, free=None, largest=None),
    ),
    (f"| critical |          Always | TT_FATAL: {WORDS}{SIZE}{FREE}", DRAM),
    (
        f"E       {CLASH} on core range [(x=1,y=0) - (x=3,y=9)]. {ENDS}",
        Clash("[(x=1,y=0) - (x=3,y=9)]", 567488, 754528),
    ),
    (
        f"TT_THROW: {CLASH} on core range [0-0 - 7-7]. {ENDS}",
        Clash("[0-0 - 7-7]", 567488, 754528),
    ),
    (
        "Statically allocated circular buffers on core range [(x=0,y=0) - (x=7,y=7)] grow to 1661920 B which is "
        "beyond max L1 size of 1499136 B",
        TooLarge("[(x=0,y=0) - (x=7,y=7)]", 1661920, 1499136),
    ),
    (
        "Creating trace buffers of size 237371392B on MeshDevice 0, but only 235929600B is allocated for trace region.",
        TraceRegion(237371392, 235929600),
    ),
    (
        "Program size (70752) too large for kernel config buffer (70656) on TENSIX",
        RingTooSmall(70752, 70656),
    ),
    (
        "Allocating device buffers is unsafe due to the existence of an active trace",
        UnsafeAllocation(certain=True),
    ),
]


@pytest.mark.parametrize(("line", "said"), WORDINGS)
def test_each_wording_is_understood(line: str, said: Said) -> None:
    assert found_in(["what came before", line]) == [LogMessage(said, 2, 1, ())]


def test_colours_and_the_tags_of_mpi_are_no_part_of_a_message() -> None:
    text = (
        f"\x1b[31m\x1b[1mTT_THROW\x1b[0m: {CLASH} on core range \x1b[33m[0-0 - 7-7]\x1b[0m. L1 buffer allocated at "
        "\x1b[1m104448\x1b[0m and static circular buffer region ends at 107936"
    )

    found = found_in([f"[1,{rank}]<stderr>:{text}" for rank in (3, 0, 3)])

    assert found == [LogMessage(Clash("[0-0 - 7-7]", 104448, 107936), 1, 3, (0, 3))]


def test_a_message_that_was_wrapped_is_one_message() -> None:
    lines = [
        f"TT_THROW: {CLASH}",
        "on core range [0-0 - 7-7]. L1 buffer allocated at 104448 and static circular buffer region ends at 107936",
        "TT_FATAL: Creating trace buffers of size 53616640B on MeshDevice 0,",
        "          but only 50000000B is allocated for trace region.",
    ]

    found = found_in(lines)

    assert [message.said for message in found] == [
        Clash("[0-0 - 7-7]", 104448, 107936),
        TraceRegion(53616640, 50000000),
    ]


def test_what_the_runtime_logs_and_throws_is_told_once() -> None:
    whole = f"{WORDS}{SIZE}{FREE}"

    found = found_in([f"critical | {whole}", "info:", whole, "E   " + whole])

    assert found == [LogMessage(DRAM, 1, 3, ())]


def test_a_log_without_such_a_message_has_none() -> None:
    assert (
        found_in(["allocated 5 tensors", "", "Statically allocated circular buffers in program {}"])
        == []
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "TT_FATAL: LayerNorm streaming circular buffers require 143360 bytes, but only 45600 bytes of the"
            " allocator's L1 span are available",
            OperationTooLarge("LayerNorm", 143360, 45600, ever=False),
        ),
        (
            "K = 64 and V = 64 need 2000000 bytes of L1 per core, only 1400000 are available",
            OperationTooLarge("", 2000000, 1400000, ever=False),
        ),
        (
            "ttnn::slice: required DFB size 1600000 B exceeds per-core L1 budget 1395424 B (row_bytes=1)",
            OperationTooLarge("slice", 1600000, 1395424, ever=True),
        ),
        (
            "unified_routed_expert_ffn: per-core CBs do not fit in L1 even at the smallest config (per_core_M=1,"
            " in0_block_w_gu=1): need 1500000 B but only 1400000 B available (emb=1, hidden=2, grid 8x8).",
            OperationTooLarge("unified_routed_expert_ffn", 1500000, 1400000, ever=False),
        ),
    ],
)
def test_what_an_operation_refuses_itself_is_known(
    message: str, expected: OperationTooLarge
) -> None:
    (found,) = found_in([message])

    assert found.said == expected


def test_dataflow_buffers_are_called_so() -> None:
    message = (
        "Statically allocated dataflow buffers in program 7 clash with L1 buffers on core range [0-0 - 0-0]. L1 buffer"
        " allocated at 159744 and static dataflow buffer region ends at 1158272"
    )

    (found,) = found_in([message])

    assert found.said == Clash("[0-0 - 0-0]", 159744, 1158272, "dataflow")
