from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import BadInput
from ttmem.hw import NEWEST, VERSIONS, Arch, l1_map


@pytest.mark.parametrize(
    ("arch", "version", "l1_size", "config_base", "unreserved_base", "default_size", "max_size"),
    [
        (Arch.WORMHOLE, "0.70.1", 1_499_136, 33_056, 103_712, 1_395_424, 1_466_080),
        (Arch.WORMHOLE, "0.71.2", 1_499_136, 33_088, 103_744, 1_395_392, 1_466_048),
        (Arch.WORMHOLE, "0.72.0", 1_499_136, 33_184, 103_840, 1_395_296, 1_465_952),
        (Arch.WORMHOLE, "0.73.1", 1_499_136, 33_568, 104_224, 1_394_912, 1_465_568),
        (Arch.WORMHOLE, "0.74.0", 1_499_136, 34_880, 105_536, 1_393_600, 1_464_256),
        (Arch.WORMHOLE, "0.75.0", 1_499_136, 34_880, 105_536, 1_393_600, 1_464_256),
        (Arch.WORMHOLE, "0.76.0", 1_499_136, 35_008, 105_664, 1_393_472, 1_464_128),
        (Arch.WORMHOLE, "0.80.0", 1_499_136, 35_040, 105_696, 1_393_440, 1_464_096),
        (Arch.BLACKHOLE, "0.72.0", 1_572_864, 40_448, 111_104, 1_461_760, 1_532_416),
        (Arch.BLACKHOLE, "0.75.0", 1_572_864, 40_704, 111_360, 1_461_504, 1_532_160),
        (Arch.BLACKHOLE, "0.77.0", 1_572_864, 40_832, 111_488, 1_461_376, 1_532_032),
        (Arch.BLACKHOLE, "0.80.0", 1_572_864, 40_960, 111_616, 1_461_248, 1_531_904),
        (Arch.WORMHOLE, "0.78-dev", 1_499_136, 35_008, 105_664, 1_393_472, 1_464_128),
        (Arch.WORMHOLE, "0.81.1", 1_499_136, 35_168, 105_824, 1_393_312, 1_463_968),
        (Arch.BLACKHOLE, "0.78-dev", 1_572_864, 40_960, 111_616, 1_461_248, 1_531_904),
        (Arch.BLACKHOLE, "0.81.1", 1_572_864, 41_088, 111_744, 1_461_120, 1_531_776),
    ],
)
def test_the_map_of_each_known_version_is_exact_to_the_byte(
    arch: Arch,
    version: str,
    l1_size: int,
    config_base: int,
    unreserved_base: int,
    default_size: int,
    max_size: int,
) -> None:
    found = l1_map(arch, version)
    assert (found.l1_size, found.kernel_config_base) == (l1_size, config_base)
    assert (found.unreserved_base, found.ring_bytes) == (unreserved_base, 70_656)
    assert (found.default_worker_l1_size, found.max_worker_l1_size) == (default_size, max_size)
    assert (found.version, found.exact, found.note) == (version, True, None)


def test_without_a_version_the_newest_map_is_taken() -> None:
    assert l1_map(Arch.WORMHOLE) == l1_map(Arch.WORMHOLE, "0.81.1")


@pytest.mark.parametrize(
    ("requested", "used"),
    [("v0.81.1", "0.81.1"), ("0.81.1+g1a2b3c", "0.81.1"), ("0.78.0-dev20260822", "0.78-dev")],
)
def test_another_spelling_of_a_known_version_is_exact(requested: str, used: str) -> None:
    found = l1_map(Arch.BLACKHOLE, requested)
    assert (found.version, found.exact) == (used, True)


@pytest.mark.parametrize(
    ("requested", "used"),
    [
        ("0.9", "0.70.1"),  # 9 is less than 78, whatever the letters say
        ("0.65.1", "0.70.1"),
        ("0.74.1", "0.74.0"),
        ("0.79.9", "0.79.0"),
        ("0.81.1rc2", "0.81.1"),
        ("0.100.0", "0.81.1"),
        ("1.0", "0.81.1"),
    ],
)
def test_an_unknown_version_takes_the_nearest_map_and_says_so(requested: str, used: str) -> None:
    found = l1_map(Arch.BLACKHOLE, requested)
    assert (found.version, found.requested, found.exact) == (used, requested, False)
    assert found.note is not None
    assert f"'{requested}'" in found.note
    assert used in found.note


@pytest.mark.parametrize("requested", ["", "main", "dev-0.78", "9" * 10])
def test_what_is_no_version_takes_the_newest_map_and_says_so(requested: str) -> None:
    found = l1_map(Arch.WORMHOLE, requested)
    assert found.version == NEWEST
    assert found.note is not None
    assert "is not a version number" in found.note


def test_a_smaller_worker_l1_size_makes_the_ring_grow() -> None:
    found = l1_map(Arch.BLACKHOLE).with_worker_l1_size(1_400_000)
    # 1,572,864 - 1,400,000 = 172,864, a multiple of 64 already
    assert (found.unreserved_base, found.ring_bytes) == (172_864, 172_864 - 41_088)


def test_the_ring_ends_on_the_larger_alignment() -> None:
    found = l1_map(Arch.WORMHOLE).with_worker_l1_size(1_393_311)
    assert (found.unreserved_base, found.worker_l1_size) == (105_856, 1_393_280)


def test_a_worker_l1_size_of_zero_is_the_default() -> None:
    assert l1_map(Arch.WORMHOLE).with_worker_l1_size(0) == l1_map(Arch.WORMHOLE)


def test_the_largest_worker_l1_size_leaves_no_ring() -> None:
    assert l1_map(Arch.BLACKHOLE).with_worker_l1_size(1_531_776).ring_bytes == 0


@pytest.mark.parametrize("size", [-1, 1_531_777])
def test_an_impossible_worker_l1_size_is_refused_with_the_limit(size: int) -> None:
    with pytest.raises(BadInput, match="1 to 1531776 bytes on blackhole"):
        l1_map(Arch.BLACKHOLE).with_worker_l1_size(size)


@given(
    arch=st.sampled_from(Arch),
    version=st.sampled_from(VERSIONS),
    size=st.integers(min_value=1, max_value=1_463_968),
)
def test_firmware_ring_and_worker_memory_always_make_up_the_whole_l1(
    arch: Arch, version: str, size: int
) -> None:
    found = l1_map(arch, version).with_worker_l1_size(size)
    assert found.kernel_config_base + found.ring_bytes + found.worker_l1_size == found.l1_size
    assert size - arch.dram_alignment < found.worker_l1_size <= size
