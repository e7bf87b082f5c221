"""Boards and systems by name and by serial number, and where a chip sits in a Galaxy."""

from __future__ import annotations

import re
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass
from ttmem.hw.arch import Arch, Dispatch, compute_grid, worker_dispatch


@dataclass(frozen=True, slots=True)
class Board:
    """`chips` is the number of devices on the board or system; everything else describes one of them."""

    name: str
    arch: Arch
    chips: int
    tensix_harvested: int
    dram_harvested: int = 0
    also_harvested: tuple[int, ...] = ()  # other values of tensix_harvested that occur on it

    @property
    def dispatch(self) -> Dispatch:
        """What TTNN selects: Ethernet on n300 and T3K, else workers."""
        return Dispatch.ETH if self.name in ("n300", "t3k") else worker_dispatch(self.arch)

    @property
    def note(self) -> str | None:
        """Says how a chip may differ from the usual harvesting, if it may."""
        if not self.also_harvested:
            return None
        usual, *others = (
            compute_grid(self.arch, harvested, self.dispatch).cores
            for harvested in (self.tensix_harvested, *self.also_harvested)
        )
        other = " or ".join(map(str, others))
        return f"some {self.name} have {other} compute cores, not {usual}, and so more L1"


BOARDS = (
    Board("n150", Arch.WORMHOLE, chips=1, tensix_harvested=1),
    Board("n300", Arch.WORMHOLE, chips=2, tensix_harvested=2),
    Board("t3k", Arch.WORMHOLE, chips=8, tensix_harvested=2),
    Board("galaxy", Arch.WORMHOLE, chips=32, tensix_harvested=0),
    Board("p100", Arch.BLACKHOLE, chips=1, tensix_harvested=2, dram_harvested=1),
    Board("p150", Arch.BLACKHOLE, chips=1, tensix_harvested=2, also_harvested=(1,)),
    Board("p300", Arch.BLACKHOLE, chips=2, tensix_harvested=2),
    Board("bh-galaxy", Arch.BLACKHOLE, chips=32, tensix_harvested=1),
)

_OTHER_NAMES = {
    "n150": ("n150d", "n150s"),
    "n300": ("n300d", "n300s"),
    "t3k": ("t3000",),
    "galaxy": ("6u", "tg", "ubb", "ubb-wormhole", "galaxy-wormhole", "wh-galaxy"),
    "p100": ("p100a",),
    "p150": ("p150a", "p150b", "p150c"),
    "p300": ("p300a", "p300b", "p300c"),
    "bh-galaxy": ("ubb-blackhole", "galaxy-blackhole", "blackhole-galaxy"),
}

_BY_NAME = {name: board for board in BOARDS for name in (board.name, *_OTHER_NAMES[board.name])}


def find_board(name: str) -> Board | None:
    return _BY_NAME.get(name.strip().lower().replace("_", "-").replace(" ", "-"))


def board(name: str) -> Board:
    found = find_board(name)
    if found is None:
        known = ", ".join(known.name for known in BOARDS)
        raise BadInput(f"unknown board {short_repr(name)}; use one of: {known}")
    return found


# A board id (serial number) contains the product number in bits 36 to 55. A chip's unique id is derived from the board
# id in one of several ways, or not at all:
#
# | unique id                                           | where                                            |
# |-----------------------------------------------------|--------------------------------------------------|
# | board id                                            | a Blackhole chip without a trained Ethernet link |
# | board id << 5, or << 1 (older), chip below          | a Blackhole chip with links                      |
# | chip, bits 32 to 35 and bits 0 to 27 of board id    | Wormhole; the product number is lost             |
# | board id << 8, chip below                           | the first layout of the shared memory            |
# | a number of the chip itself                         | newer firmware; reveals nothing                  |
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
    """The top byte is 1 on Wormhole and 0 on Blackhole, or lost in a shift."""
    if board_id >> 56 > 1:
        return None
    return find_board(_PRODUCTS.get(board_id >> 36 & 0xFFFFF, ""))


def board_of_unique_id(unique_id: int) -> Board | None:
    """None if the id does not reveal it. No known product number occurs in the wrong position."""
    boards = (board_of_id(unique_id >> shift) for shift in (0, 5, 1, 8))
    return next((board for board in boards if board is not None), None)


def is_remote_chip(unique_id: int, board: Board) -> bool | None:
    """Whether this chip of the board has no PCI address. None if the id does not reveal it.

    Of the boards with several chips, only the n300 has such a chip. Its number is 3 in the Wormhole form (the other
    chip is 2) and 1 in the form of the first layout.
    """
    if board.chips == 1:
        return False
    if board.name != "n300":
        return None
    if board_of_id(unique_id >> 8) is board:
        return {0: False, 1: True}.get(unique_id & 0xFF)
    return {2: False, 3: True}.get(unique_id >> 32)


def is_on_board(unique_id: int, board_id: int) -> bool:
    """Whether the chip may be on that board, judging by its id."""
    if any(unique_id >> shift == board_id for shift in (0, 5, 1)):
        return True
    if unique_id >> 8 == board_id & (1 << 56) - 1:
        return True
    short = (board_id >> 32 & 0xF) << 28 | board_id & 0xFFFFFFF
    return 0 < unique_id >> 32 < 256 and unique_id & 0xFFFFFFFF == short


# A Galaxy has four trays of eight chips. The upper half of a PCI bus number is the tray (1 to 4, in this order), the
# lower half is the chip.
_TRAYS = {"galaxy": (0xC0, 0x80, 0x00, 0x40), "bh-galaxy": (0x00, 0x40, 0xC0, 0x80)}
_CHIPS = 8
_PCI = r"[0-9a-f]{4,8}:([0-9a-f]{2}):[0-9a-f]{2}\.[0-7]"


def galaxy_position(board: Board | None, bus: int | None) -> str | None:
    """Tray and chip, such as 'T1:N3'. None if the board is not a Galaxy or has no chip on that bus."""
    trays = _TRAYS.get(board.name) if board else None
    if trays is None or bus is None or bus & 0xF0 not in trays or bus > 0xFF:
        return None
    chip = bus & 0x0F
    return f"T{trays.index(bus & 0xF0) + 1}:N{chip}" if 1 <= chip <= _CHIPS else None


def galaxy_bus(board: Board, number: int) -> int | None:
    """The bus of the chip with that number, counted tray by tray. None if the board is not a Galaxy."""
    trays = _TRAYS.get(board.name)
    tray, chip = divmod(number, _CHIPS)
    return None if trays is None else trays[tray] | chip + 1


def bus_of(pci: str | None) -> int | None:
    """The bus in a PCI address such as 0000:c1:00.0, or None."""
    address = re.fullmatch(_PCI, pci) if pci else None
    return int(address[1], 16) if address else None
