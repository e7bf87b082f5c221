"""The cards that the driver lists in sysfs: no chip is touched."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ttmem.hw import Board, bus_of, find_board
from ttmem.hw.boards import is_on_board, is_remote_chip
from ttmem.sources.sysfs import NoValue, attribute, cards_folder, names

NODES = "/dev/tenstorrent"  # a device file for each card, under its number
_NAME = re.compile(r"tenstorrent!([0-9]{1,6})")  # sysfs cannot have a slash: /dev/tenstorrent/0

_ID = re.compile(r"[0-9A-Fa-f]{1,16}")


@dataclass(frozen=True, slots=True)
class Card:
    """What is unknown is None."""

    number: int | None  # N of /dev/tenstorrent/N; of a remote chip None
    folder: str
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
        return self.is_remote(unique_id) is False

    def is_remote(self, unique_id: int) -> bool | None:
        """Whether a chip of this card is reached through the one with the PCI address; None: unknown."""
        if unique_id == self.asic_id:
            return False
        return None if self.board is None else is_remote_chip(unique_id, self.board)


def cards(folder: str | None = None) -> tuple[Card, ...]:
    """One for each `tenstorrent!N`, by number; none without the driver."""
    return tuple(card(*found) for found in card_folders(folder or cards_folder()))


def card_folders(place: str) -> list[tuple[int, str]]:
    """(number, folder) of each card that the driver lists in that place, by number."""
    found = [(int(name[1]), name[0]) for name in map(_NAME.fullmatch, names(place)) if name]
    return [(number, os.path.join(place, name)) for number, name in sorted(found)]


def card(number: int, folder: str) -> Card:
    """The card with that number, from its folder."""
    return Card(
        number=number,
        folder=folder,
        board=find_board(_word(folder, "tt_card_type")),
        serial=_hexadecimal(_word(folder, "tt_serial")),
        asic_id=_hexadecimal(_word(folder, "tt_asic_id")),
        pci=address(folder),
    )


def _word(folder: str, name: str) -> str:
    try:
        return attribute(folder, name)
    except NoValue:
        return ""


def _hexadecimal(word: str) -> int | None:
    return int(word, 16) if _ID.fullmatch(word) else None


def address(folder: str) -> str | None:
    """The last part of the link to the PCI device, such as 0000:01:00.0; no driver is asked."""
    try:
        found = os.path.basename(os.readlink(os.path.join(folder, "device")))
    except OSError:
        return None
    return None if bus_of(found) is None else found
