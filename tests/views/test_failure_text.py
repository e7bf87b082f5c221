"""The words about an allocation that failed say what is known, and no more."""

from __future__ import annotations

from dataclasses import replace

from ttmem.analysis.failures import explain
from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.report import FailedAllocation, Holding, Origin
from ttmem.views.analysis.failures import render_failure

DEVICE = DeviceDeclaration(
    logical_id=0, l1_banks=110, l1_per_core=1_572_864, l1_small_bank_size=16_384
)


def told(message: str, requested: int, what: str = "buffer") -> list[str]:
    failure = FailedAllocation(
        what, MemoryKind.L1_SMALL, (0,), requested, message, Origin("ttnn.empty"), ()
    )
    return render_failure(
        7, explain(replace(failure, device=DEVICE)), width=120, color=False
    ).splitlines()


def test_a_layout_that_the_runtime_refuses_is_not_called_a_lack_of_room() -> None:
    lines = told("L1_SMALL only supports sharded allocations", 65_536)

    assert lines[0] == "ttmem: pid 7: a buffer was refused in L1_SMALL of device 0"
    assert "  asked for  64.0 KiB: at least 596 B in a bank" in lines


def test_a_program_that_is_refused_for_an_unknown_reason_is_not_called_a_lack_of_room() -> None:
    lines = told("the core grid is odd", 0, "circular buffers")

    assert lines[0] == "ttmem: pid 7: circular buffers were refused in L1 of device 0"


def test_what_is_missing_is_a_lower_bound_where_the_runtime_told_no_figures() -> None:
    device = DeviceDeclaration(logical_id=0, l1_banks=10, l1_bank_size=4_096, cb_base=0)
    held = Holding(MemoryKind.L1, (0,), 30_720, 0, Origin("ttnn.add"))
    failure = FailedAllocation("buffer", MemoryKind.L1, (0,), 20_480, "no", Origin(), (held,))

    lines = render_failure(
        7, explain(replace(failure, device=device)), width=120, color=False
    ).splitlines()

    assert "  verdict    exhausted: at least 1.0 KiB are missing in each bank" in lines


def test_the_size_is_the_one_of_the_runtime_s_message() -> None:
    lines = told(
        "Out of Memory: Not enough space to allocate 2688 B L1_SMALL buffer across 56 banks, where each bank needs to "
        "store 48 B, but bank size is 4096 B (allocated: 4064 B, free: 32 B, largest free block: 32 B).",
        2240,
    )

    assert "  asked for  2.6 KiB: 48 B in each of 56 banks" in lines


def test_what_is_asked_of_a_single_bank_is_asked_of_one() -> None:
    lines = told(
        "Out of Memory: Not enough space to allocate 4096 B L1_SMALL buffer across 1 banks, where each bank needs to "
        "store 4096 B, but bank size is 4096 B (allocated: 4064 B, free: 32 B, largest free block: 32 B).",
        4096,
    )

    assert "  asked for  4.0 KiB: 4.0 KiB in one bank" in lines
