from __future__ import annotations

import pytest

from ttmem.errors import BadInput
from ttmem.hw import BOARDS, Arch, Board, Dispatch, board

WH, BH = Arch.WORMHOLE, Arch.BLACKHOLE


@pytest.mark.parametrize(
    "expected",
    [
        Board("n150", WH, 1, 1, 0, Dispatch.ROW),
        Board("n300", WH, 2, 2, 0, Dispatch.ETH),
        Board("t3k", WH, 8, 2, 0, Dispatch.ETH),
        Board("galaxy", WH, 32, 0, 0, Dispatch.ROW),
        Board("p100", BH, 1, 2, 1, Dispatch.COL),
        Board("p150", BH, 1, 2, 0, Dispatch.COL, also_harvested=(1,)),
        Board("p300", BH, 2, 2, 0, Dispatch.COL),
        Board("bh-galaxy", BH, 32, 1, 0, Dispatch.COL),
    ],
    ids=lambda expected: expected.name,
)
def test_a_board_has_its_chips_harvesting_and_dispatch(expected: Board) -> None:
    assert board(expected.name) == expected


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("N300", "n300"),
        ("T3K", "t3k"),
        ("T3000", "t3k"),
        ("6U", "galaxy"),
        ("tg", "galaxy"),
        ("ubb", "galaxy"),
        ("ubb_wormhole", "galaxy"),
        ("galaxy-wormhole", "galaxy"),
        ("p100a", "p100"),
        ("p150a", "p150"),
        ("P150B", "p150"),
        ("p300c", "p300"),
        ("ubb_blackhole", "bh-galaxy"),
        ("BH galaxy", "bh-galaxy"),
    ],
)
def test_a_board_is_known_by_what_people_and_drivers_call_it(written: str, meant: str) -> None:
    assert board(written).name == meant


def test_an_unknown_board_is_refused_with_the_known_names() -> None:
    with pytest.raises(BadInput) as refused:
        board("n3000")
    names = ", ".join(known.name for known in BOARDS)
    assert str(refused.value) == f"unknown board 'n3000'; use one of: {names}"
