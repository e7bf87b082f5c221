"""The cards that the driver lists in sysfs: no chip is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ttmem.hw import Board, find_board
from ttmem.hw.board_ids import is_on_board

FOLDER = "/sys/class/tenstorrent"


@dataclass(frozen=True, slots=True)
class Card:
    """What is unknown is None."""

    board: Board | None
    serial: int | None
    asic_id: int | None
    pci: str | None

    def has(self, unique_id: int) -> bool:
        """Whether a chip with that unique id is on this card."""
        if unique_id == self.asic_id:
            return True
        return bool(self.serial) and is_on_board(unique_id, self.serial or 0)

    def is_the_chip(self, unique_id: int) -> bool:
        """Whether it is the chip with the PCI address, not another of the same board."""
        if unique_id == self.asic_id:
            return True
        return self.board is not None and self.board.chips == 1


def cards(folder: str = FOLDER) -> tuple[Card, ...]:
    """One for each `tenstorrent!N`; none without the driver."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ()
    return tuple(_card(os.path.join(folder, name)) for name in names)


def _card(folder: str) -> Card:
    return Card(
        board=find_board(_word(folder, "tt_card_type")),
        serial=_hexadecimal(_word(folder, "tt_serial")),
        asic_id=_hexadecimal(_word(folder, "tt_asic_id")),
        pci=_address(folder),
    )


def _word(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(256).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _hexadecimal(word: str) -> int | None:
    try:
        return int(word, 16)
    except ValueError:
        return None


def _address(folder: str) -> str | None:
    """The last part of the link to the PCI device, such as 0000:01:00.0."""
    try:
        return os.path.basename(os.readlink(os.path.join(folder, "device"))) or None
    except OSError:
        return None
