"""Boards from serial numbers and chip ids; the ids are those of real machines."""

from __future__ import annotations

import pytest

from ttmem.hw import board
from ttmem.hw.board_ids import board_of_id, board_of_unique_id, is_on_board, is_remote_chip


@pytest.mark.parametrize(
    ("board_id", "name"),
    [
        (0x100035100000000, "galaxy"),
        (0x10001461190302B, "n300"),
        (0x10001861180B479, "n150"),
        (0x4123191110E, "p150"),
        (0x4323191B040, "p100"),
        (0x47330000000, "bh-galaxy"),
    ],
)
def test_a_serial_number_names_its_product(board_id: int, name: str) -> None:
    board = board_of_id(board_id)

    assert board is not None
    assert board.name == name


@pytest.mark.parametrize(
    ("unique_id", "name"),
    [
        (4476187513037, "p150"),  # no link: the board id itself
        (143238000421664, "p150"),  # with links: shifted by five bits
        (0x46123456789 << 1 | 1, "p300"),
        ((0x10001461190302B << 8 | 1) & 2**64 - 1, "n300"),  # the first layout; the top is lost
    ],
)
def test_a_unique_id_made_from_a_board_id_names_it(unique_id: int, name: str) -> None:
    board = board_of_unique_id(unique_id)

    assert board is not None
    assert board.name == name


@pytest.mark.parametrize(
    "unique_id", [0, 7, 14521741482, 591434112912339275, 17716556166399396846, 2**64 - 1]
)
def test_other_ids_name_nothing(unique_id: int) -> None:
    assert board_of_unique_id(unique_id) is None


def test_both_chips_of_a_wormhole_board_carry_half_its_number() -> None:
    board_id = 0x10001461190302B

    assert is_on_board(0x26190302B, board_id)
    assert is_on_board(0x36190302B, board_id)
    assert not is_on_board(0x361903099, board_id)


@pytest.mark.parametrize(
    ("unique_id", "name", "remote"),
    [
        (0x26190302B, "n300", False),
        (0x36190302B, "n300", True),
        (0x46190302B, "n300", None),  # no such chip is known
        ((0x10001461190302B << 8 | 0) & 2**64 - 1, "n300", False),
        ((0x10001461190302B << 8 | 1) & 2**64 - 1, "n300", True),
        (0xF5DDD9F78D7E0BEE, "n300", None),  # a number of the chip itself
        (0xF5DDD9F78D7E0BEE, "p150", False),  # alone on its board
        (0x46123456789 << 1 | 1, "p300", None),  # both chips have a PCI address
    ],
)
def test_the_id_of_an_n300_tells_which_of_its_chips_it_is(
    unique_id: int, name: str, remote: bool | None
) -> None:
    assert is_remote_chip(unique_id, board(name)) is remote
