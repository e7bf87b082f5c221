from __future__ import annotations

import pytest

from ttmem.errors import BadInput
from ttmem.hw import Arch


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("wormhole", Arch.WORMHOLE),
        ("Wormhole", Arch.WORMHOLE),
        ("wormhole_b0", Arch.WORMHOLE),
        ("WORMHOLE_B0", Arch.WORMHOLE),
        ("blackhole", Arch.BLACKHOLE),
        (" BH ", Arch.BLACKHOLE),
    ],
)
def test_an_architecture_is_known_by_all_its_spellings(written: str, meant: Arch) -> None:
    assert Arch.parse(written) is meant


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"'quasar'.*wormhole, blackhole"):
        Arch.parse("quasar")


def test_an_architecture_prints_as_its_name() -> None:
    assert f"{Arch.BLACKHOLE} {Arch.WORMHOLE!s}" == "blackhole wormhole"


def test_dram_is_aligned_to_64_on_blackhole_and_32_on_wormhole() -> None:
    alignments = [(arch.dram_alignment, arch.l1_alignment) for arch in Arch]
    assert alignments == [(32, 16), (64, 16)]
