"""The cards that the driver lists in sysfs: no chip is touched."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass

from ttmem.errors import BadInput
from ttmem.hw import Board, bus_of, find_board
from ttmem.hw.boards import is_on_board, is_remote_chip

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


DEFAULT_ROOT = "/sys"
ROOT_VARIABLE = "TTMEM_SYSFS"
CARDS = "class/tenstorrent"
MOST_BYTES = 64  # the longest that the driver writes, a version or an id, has 17
MOST_ENTRIES = 256  # of a folder: no host has more cards

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
_REASONS = {
    errno.ENOENT: "the driver has no such sensor for this card",
    errno.ENODATA: "the firmware does not report it",
    errno.EOPNOTSUPP: "the driver does not support it",
    errno.ENODEV: "the card is being reset or removed",
    errno.EACCES: "you may not read it",
    errno.EPERM: "you may not read it",
    errno.ELOOP: "it is a link, not a file of the driver",
}


class NoValue(Exception):
    """An attribute that has no value now; the text says why."""


def checked_root(given: str | None = None) -> str:
    """The root of sysfs: what was given, else that of the environment, else /sys. BadInput if it is no folder."""
    root = given or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT
    if root != DEFAULT_ROOT and not os.path.isdir(root):
        how = "--sysfs " if given else f"{ROOT_VARIABLE}="
        raise BadInput(f"{how}{root} is no folder; sysfs is usually {DEFAULT_ROOT}")
    return root


def cards_folder(root: str | None = None) -> str:
    """Where the driver lists its cards: below the root that was given, else that of the environment, else /sys."""
    return os.path.join(root or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT, CARDS)


def names(folder: str) -> list[str]:
    """What is in a folder, in order of names; nothing if it cannot be read. Not more than any host has."""
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) == MOST_ENTRIES:
                    break
    except OSError:
        return []
    return sorted(found)


def attribute(folder: str, name: str) -> str:
    """The text of an attribute; NoValue if it has none, or if it is nothing that the driver made."""
    try:
        data = _read(os.path.join(folder, name))
    except OSError as problem:
        reason = _REASONS.get(problem.errno or 0) or f"it cannot be read: {problem.strerror}"
        raise NoValue(reason) from None
    if len(data) > MOST_BYTES:
        raise NoValue(f"the driver says more than {MOST_BYTES} bytes, which is no value")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        raise NoValue("the driver says something that is no text")
    if not text:
        raise NoValue("the driver says nothing")
    return text


def _read(path: str) -> bytes:
    file = os.open(path, _FLAGS)
    try:
        # A pipe or a device could keep us waiting, or never end.
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return os.read(file, MOST_BYTES + 1)
    finally:
        os.close(file)
