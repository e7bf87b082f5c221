"""Which board a serial number belongs to: bits 36 to 55 of a board id name the product.

A chip's unique id is made from its board id in more than one way, or not at all:

| unique id                          | where                                            |
|------------------------------------|--------------------------------------------------|
| board id                           | a Blackhole chip without a trained Ethernet link |
| board id << 5, or << 1 (older)     | a Blackhole chip with links, its place below     |
| chip, then bits 32 to 35 of the    | Wormhole: the product is lost                    |
| board id, then its bits 0 to 27    |                                                  |
| board id << 8, chip below          | the first layout of the shared memory            |
| a number of the chip itself        | newer firmware: nothing is known                 |
"""

from __future__ import annotations

from ttmem.hw.boards import Board, find_board

_PRODUCTS = {
    0x14: "n300",
    0x18: "n150",
    0x35: "galaxy",
    0x36: "p100",
    0x40: "p150",
    0x41: "p150",
    0x42: "p150",
    0x43: "p100",
    0x44: "p300",
    0x45: "p300",
    0x46: "p300",
    0x47: "bh-galaxy",
}


def board_of_id(board_id: int) -> Board | None:
    """The top byte is 1 on Wormhole and 0 on Blackhole; a shift may have cost it."""
    if board_id >> 56 > 1:
        return None
    return find_board(_PRODUCTS.get(board_id >> 36 & 0xFFFFF, ""))


def board_of_unique_id(unique_id: int) -> Board | None:
    """None where the id does not tell; a product number in the wrong place is never met."""
    boards = (board_of_id(unique_id >> shift) for shift in (0, 5, 1, 8))
    return next((board for board in boards if board is not None), None)


def is_remote_chip(unique_id: int, board: Board) -> bool | None:
    """Whether a chip that sits on that board is the one without a PCI address; None: the id does not tell.

    Of the boards with several chips only the n300 has such a chip. It is 3 in the Wormhole form, where
    its neighbour is 2, and 1 in the form of the first layout.
    """
    if board.chips == 1:
        return False
    if board.name != "n300":
        return None
    if board_of_id(unique_id >> 8) is board:
        return {0: False, 1: True}.get(unique_id & 0xFF)
    return {2: False, 3: True}.get(unique_id >> 32)


def is_on_board(unique_id: int, board_id: int) -> bool:
    """Whether a chip with that id sits on that board, as far as the id tells."""
    if any(unique_id >> shift == board_id for shift in (0, 5, 1)):
        return True
    if unique_id >> 8 == board_id & (1 << 56) - 1:
        return True
    short = (board_id >> 32 & 0xF) << 28 | board_id & 0xFFFFFFF
    return 0 < unique_id >> 32 < 256 and unique_id & 0xFFFFFFFF == short
