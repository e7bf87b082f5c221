"""Boards by name, serial number and chip id, and chips of a Galaxy by PCI bus. The ids are those of real machines."""

from __future__ import annotations

import pytest

from ttmem.errors import BadInput
from ttmem.hw import BOARDS, Arch, Board, Dispatch, board, bus_of, galaxy_bus, galaxy_position
from ttmem.hw.boards import board_of_id, board_of_unique_id, is_on_board, is_remote_chip

WH, BH = Arch.WORMHOLE, Arch.BLACKHOLE


@pytest.mark.parametrize(
    ("expected", "dispatch"),
    [
        (Board("n150", WH, 1, 1, 0), Dispatch.ROW),
        (Board("n300", WH, 2, 2, 0), Dispatch.ETH),
        (Board("t3k", WH, 8, 2, 0), Dispatch.ETH),
        (Board("galaxy", WH, 32, 0, 0), Dispatch.ROW),
        (Board("p100", BH, 1, 2, 1), Dispatch.COL),
        (Board("p150", BH, 1, 2, 0, also_harvested=(1,)), Dispatch.COL),
        (Board("p300", BH, 2, 2, 0), Dispatch.COL),
        (Board("bh-galaxy", BH, 32, 1, 0), Dispatch.COL),
    ],
    ids=lambda expected: getattr(expected, "name", ""),
)
def test_a_board_has_its_chips_harvesting_and_dispatch(expected: Board, dispatch: Dispatch) -> None:
    found = board(expected.name)
    assert (found, found.dispatch) == (expected, dispatch)


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


@pytest.mark.parametrize(
    ("name", "pci", "position"),
    [
        ("galaxy", "0000:c1:00.0", "T1:N1"),
        ("galaxy", "0000:84:00.0", "T2:N4"),
        ("galaxy", "0000:08:00.0", "T3:N8"),
        ("galaxy", "0000:41:00.0", "T4:N1"),
        ("bh-galaxy", "0000:01:00.0", "T1:N1"),  # its trays are in another order
        ("bh-galaxy", "0000:48:00.0", "T2:N8"),
        ("bh-galaxy", "0000:c3:00.0", "T3:N3"),
        ("bh-galaxy", "0000:81:00.0", "T4:N1"),
        ("galaxy", "0000:c0:00.0", None),  # chips count from 1
        ("galaxy", "0000:c9:00.0", None),
        ("galaxy", "0000:21:00.0", None),  # no tray
        ("p150", "0000:c1:00.0", None),
        ("n300", "0000:01:00.0", None),
    ],
)
def test_the_bus_tells_the_place_on_a_galaxy_and_nowhere_else(
    name: str, pci: str, position: str | None
) -> None:
    assert galaxy_position(board(name), bus_of(pci)) == position


@pytest.mark.parametrize("name", ["galaxy", "bh-galaxy"])
def test_every_chip_has_a_bus_and_so_a_place(name: str) -> None:
    buses = [galaxy_bus(board(name), number) for number in range(32)]

    assert [galaxy_position(board(name), bus) for bus in buses] == [
        f"T{tray}:N{chip}" for tray in range(1, 5) for chip in range(1, 9)
    ]


@pytest.mark.parametrize("pci", [None, "", "c1:00.0", "0000:xy:00.0", "0000:c1:00.9", "a:b:c"])
def test_what_is_no_pci_address_has_no_bus(pci: str | None) -> None:
    assert bus_of(pci) is None
