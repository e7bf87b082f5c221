"""Why an allocation failed, from the runtime's own words or from what was counted."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.analysis.failures import Explanation, InTheWay, explain, largest_gap, on_all_chips
from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.events.runtime_messages import Verdict
from ttmem.probe.report import FailedAllocation, Holding, Origin
from ttmem.views.analysis.failures import render_failure

DEVICE = DeviceDeclaration(
    logical_id=0,
    l1_banks=100,
    l1_per_core=1_572_864,
    l1_bank_size=1_400_000,
    l1_small_bank_size=16_384,
    cb_base=111_744,
    dram_banks=8,
    dram_bank_size=1 << 32,
)
OUT_OF_MEMORY = (
    "TT_FATAL @ bank_manager.cpp:514: false\ninfo:\nOut of Memory: Not enough space to allocate 67108864 B L1 buffer "
    "across 110 banks, where each bank needs to store 610304 B, but bank size is {size} B "
    "(allocated: 741376 B, free: {free} B, largest free block: {largest} B)."
)


def failed(
    message: str,
    what: str = "buffer",
    kind: int = MemoryKind.L1,
    requested: int | None = 67_108_864,
    holdings: tuple[Holding, ...] = (),
) -> FailedAllocation:
    return FailedAllocation(what, kind, (0,), requested, message, Origin(), holdings, device=DEVICE)


def held(kind: int, address: int, size: int, op: str = "ttnn.add") -> Holding:
    return Holding(kind, (0,), size, address, Origin(op, "model.py:1 f"))


@pytest.mark.parametrize(
    ("free", "largest", "verdict"),
    [
        (600_000, 600_000, Verdict.EXHAUSTED),
        (703_360, 77_824, Verdict.FRAGMENTED),
    ],
)
def test_exhausted_and_fragmented_are_told_apart(free: int, largest: int, verdict: Verdict) -> None:
    why = explain(failed(OUT_OF_MEMORY.format(size=1_444_736, free=free, largest=largest)))

    assert (why.verdict, why.needed, why.free, why.largest) == (verdict, 610_304, free, largest)
    assert (why.banks, why.size) == (110, 1_444_736)


def test_what_would_not_fit_into_an_empty_device_is_too_large() -> None:
    why = explain(failed(OUT_OF_MEMORY.format(size=500_000, free=400_000, largest=400_000)))

    assert why.verdict is Verdict.TOO_LARGE


@pytest.mark.parametrize(
    "message",
    [
        "Out of Memory: Not enough space to allocate 800 B L1 buffer across 100 banks, where each bank needs to store "
        "8 B, but bank size is only 1400000 B",
        "Not enough space after considering dependencies to allocate 800 B L1 across 100 banks (8 B per bank), bank "
        "size is 1400000 B (allocated: 1399996 B, free: 4 B, largest free block: 4 B). After subtracting",
    ],
)
def test_older_and_other_words_are_understood(message: str) -> None:
    full = held(MemoryKind.L1, 111_744, 1_399_996 * 100)

    why = explain(failed(message, requested=800, holdings=(full,)))

    assert (why.verdict, why.needed, why.free, why.banks) == (Verdict.EXHAUSTED, 8, 4, 100)


def test_a_message_without_figures_is_explained_by_counting() -> None:
    holes = tuple(held(MemoryKind.L1, 111_744 + at * 100_000, 50_000 * 100) for at in range(14))

    why = explain(failed("no", requested=60_000 * 100, holdings=holes))

    assert (why.needed, why.free, why.largest) == (60_000, 700_000, 50_000)
    assert why.verdict is Verdict.FRAGMENTED


def test_what_a_bank_needs_is_a_lower_bound_where_nobody_said_how_it_is_spread() -> None:
    counted = explain(failed("no", requested=60_000 * 100))
    told = explain(failed(OUT_OF_MEMORY.format(size=1_444_736, free=8, largest=8)))

    assert (counted.needed, counted.at_least) == (60_000, True)
    assert told.at_least is False


def test_the_runtime_knows_better_what_was_asked_for() -> None:
    message = (
        "Not enough space to allocate 2688 B L1_SMALL buffer across 56 banks, where each bank needs to store 48 B, "
        "but bank size is 4096 B"
    )

    why = explain(failed(message, kind=MemoryKind.L1_SMALL, requested=2240))

    assert (why.asked, why.needed, why.banks) == (2688, 48, 56)


@pytest.mark.parametrize(
    ("message", "requested", "out_of_memory"),
    [
        ("L1_SMALL only supports sharded allocations, see validate_num_banks", 65_536, False),
        ("L1_SMALL only supports sharded allocations, see validate_num_banks", 1 << 30, True),
        ("Out of Memory: not enough space", 65_536, True),
    ],
)
def test_no_room_is_said_only_where_the_runtime_or_the_count_says_so(
    message: str, requested: int, out_of_memory: bool
) -> None:
    why = explain(failed(message, kind=MemoryKind.L1_SMALL, requested=requested))

    assert why.out_of_memory is out_of_memory


def test_a_message_about_an_unknown_device_has_no_verdict() -> None:
    why = explain(replace(failed("no"), device=None))

    assert (why.verdict, why.needed, why.free, why.largest) == (Verdict.UNKNOWN, None, None, None)


@pytest.mark.parametrize("what", ["circular", "dataflow"])
def test_a_clash_names_the_buffer_in_the_way(what: str) -> None:
    message = (
        f"Statically allocated {what} buffers in program 2 clash with L1 buffers on core range [0-0 - 10-9]. "
        f"L1 buffer allocated at 155648 and static {what} buffer region ends at 666752"
    )
    lowest = held(MemoryKind.L1, 155_648, 100_000 * 100, "ttnn.empty")
    others = tuple(held(MemoryKind.L1, 700_000 + at, 100) for at in range(2))

    why = explain(failed(message, f"{what} buffers", requested=None, holdings=(*others, lowest)))

    assert (why.needed, why.largest) == (666_752 - 111_744, 155_648 - 111_744)
    assert (why.in_the_way, why.verdict) == (lowest, Verdict.FRAGMENTED)
    assert [holder.origin.op for holder in why.holders] == ["ttnn.empty", "ttnn.add"]


def test_circular_buffers_beyond_the_end_of_l1_are_too_large() -> None:
    message = (
        "Statically allocated circular buffers on core range [0-0 - 0-0] grow to 1600000 B which is beyond max L1 "
        "size of 1572864 B"
    )

    why = explain(failed(message, "circular buffers", requested=None))

    assert (why.verdict, why.needed) == (Verdict.TOO_LARGE, 1_600_000 - 111_744)


def test_holders_of_other_kinds_and_chips_do_not_count() -> None:
    elsewhere = Holding(MemoryKind.L1, (1,), 100, 200_000, Origin("ttnn.sub"))

    why = explain(failed("no", holdings=(elsewhere, held(MemoryKind.DRAM, 0, 100))))

    assert why.holders == ()


@given(st.text())
def test_any_message_is_explained_somehow(message: str) -> None:
    for what in ("buffer", "circular buffers"):
        assert explain(failed(message, what)).holders == ()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12))
def test_the_largest_gap_is_what_nothing_covers(blocks: list[tuple[int, int]]) -> None:
    covered = {byte for start, length in blocks for byte in range(start, start + length)}
    longest = run = 0
    for byte in range(10, 50):
        run = 0 if byte in covered else run + 1
        longest = max(longest, run)

    assert largest_gap(blocks, 10, 50) == longest


def test_holders_of_the_same_size_are_listed_by_call_site() -> None:
    sites = ["b.py:9 g", "a.py:2 f", "a.py:1 f"]
    held = [
        Holding(MemoryKind.L1, (0,), 64, 4096 * n, Origin("op", site))
        for n, site in enumerate(sites)
    ]

    assert [holder.origin.site for holder in on_all_chips(held)] == sorted(sites)


BASE, SIZE, BANKS = 111_744, 1_400_000, 100


def crowded(*blocks: tuple[int, int, str]) -> tuple[Holding, ...]:
    """(address above the base, bytes in a bank, op), all in L1."""
    return tuple(held(MemoryKind.L1, BASE + at, size * BANKS, op) for at, size, op in blocks)


def refused(needed: int, holdings: tuple[Holding, ...]) -> Explanation:
    return explain(failed("", requested=needed * BANKS, holdings=holdings))


def as_text(why: Explanation) -> str:
    return render_failure(1, why, width=120, color=False)


def only_part(why: Explanation) -> InTheWay:
    assert why.to_free is not None
    ((part,),) = why.to_free
    return part


def ops_to_free(why: Explanation) -> list[set[str | None]]:
    assert why.to_free is not None
    return [{part.site.origin.op for part in way} for way in why.to_free]


def test_the_fewest_sites_make_room_in_one_piece_not_only_enough_bytes() -> None:
    # Free: 100,000 at the bottom, 200,000 in the middle, 100,000 at the top.
    holdings = crowded(
        (100_000, 400_000, "large"), (700_000, 100_000, "small"), (800_000, 500_000, "small")
    )

    why = refused(300_000, holdings)

    assert why.verdict is Verdict.FRAGMENTED
    assert why.short_by == 100_000
    assert ops_to_free(why) == [{"small"}, {"large"}]  # 100,000 bytes to free, or 400,000


def test_two_sites_are_named_if_neither_is_enough() -> None:
    holdings = crowded((100_000, 600_000, "one"), (700_000, 600_000, "other"))

    assert ops_to_free(refused(1_200_000, holdings)) == [{"one", "other"}]


def test_one_of_many_equal_buffers_is_enough() -> None:
    holdings = crowded(*((at * 100_000, 100_000, "ttnn.matmul") for at in range(14)))

    why = refused(100_000, holdings)

    part = only_part(why)
    assert (part.site.count, len(part.addresses), part.any_of_them) == (14, 1, True)
    assert "free any of the 14 of ttnn.matmul" in as_text(why)


def test_buffers_that_only_help_together_are_named_by_address() -> None:
    holdings = crowded(*((at * 100_000, 100_000, "ttnn.matmul") for at in range(13)))

    why = refused(250_000, holdings)  # free: 100,000 at the top

    part = only_part(why)
    assert part.addresses == (BASE + 1_100_000, BASE + 1_200_000)
    lower, upper = (f"{address:#x}" for address in part.addresses)
    assert "free 2 of the 13 of ttnn.matmul" in as_text(why)
    assert f"at {lower} and {upper}" in as_text(why)


def test_what_the_refused_line_allocated_before_comes_last() -> None:
    holdings = crowded((0, 200_000, "ttnn.add"), (200_000, 1_200_000, "ttnn.matmul"))
    failure = failed("", requested=100_000 * BANKS, holdings=holdings)

    why = explain(replace(failure, origin=holdings[0].origin))

    assert ops_to_free(why) == [{"ttnn.matmul"}, {"ttnn.add"}]


def test_nothing_helps_what_is_larger_than_a_bank() -> None:
    why = refused(SIZE + 16, crowded((0, 1_000, "one")))

    assert (why.verdict, why.short_by, why.to_free) == (Verdict.TOO_LARGE, 16, ())


def test_no_site_is_named_if_the_runtime_counts_other_bytes_than_the_probe() -> None:
    message = OUT_OF_MEMORY.format(size=SIZE, free=500, largest=500)

    assert explain(failed(message, holdings=crowded((0, 1_000, "one")))).to_free is None


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.sampled_from("abcd")), max_size=7),
    st.integers(1, 40),
)
def test_no_smaller_set_of_sites_would_do(blocks: list[tuple[int, int, str]], needed: int) -> None:
    at, placed, unit = 0, [], 70_000
    for size, gap, op in blocks:
        if (at + gap + size) * unit <= SIZE:
            placed.append(((at + gap) * unit, size * unit, op))
            at += gap + size
    why = refused(needed * unit, crowded(*placed))

    def fits_without(ops: set[str | None]) -> bool:
        left = [(BASE + start, size) for start, size, op in placed if op not in ops]
        return largest_gap(left, BASE, BASE + SIZE) >= needed * unit

    possible = [
        set(ops) for n in range(5) for ops in combinations("abcd", n) if fits_without(set(ops))
    ]
    fewest = min(map(len, possible), default=0)
    named = ops_to_free(why)
    assert named == [] if fewest == 0 else all(len(ops) == fewest for ops in named) and named != []
    assert all(fits_without(ops) for ops in named)
    for way in why.to_free or ():
        freed = {address for part in way for address in part.addresses}
        left = [(BASE + start, size) for start, size, _ in placed if BASE + start not in freed]
        assert largest_gap(left, BASE, BASE + SIZE) >= needed * unit


def test_bytes_that_only_lock_step_takes_are_the_cause_if_without_them_it_fits() -> None:
    # Each reserves 100 KB in each of 100 banks for 1 MB of data.
    few_pages = tuple(
        replace(holding, requested=1_000_000)
        for holding in crowded(*((at * 100_000, 100_000, "ttnn.empty") for at in range(13)))
    )

    why = refused(200_000, few_pages)

    assert (why.verdict, why.wasted, why.lock_step) == (Verdict.EXHAUSTED, 13 * 90_000, True)


def test_rounding_to_pages_is_no_cause() -> None:
    full = replace(crowded((0, 1_300_000, "ttnn.empty"))[0], requested=BANKS * 1_150_000)

    assert refused(200_000, (full,)).lock_step is False


def test_a_region_that_users_size_is_told_how_large_it_must_be() -> None:
    small = Holding(MemoryKind.L1_SMALL, (0,), 16_000 * BANKS, BASE + SIZE, Origin("ttnn.conv2d"))
    failure = failed("", kind=MemoryKind.L1_SMALL, requested=1_000 * BANKS, holdings=(small,))

    assert explain(failure).region_size == 17_000
