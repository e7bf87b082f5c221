"""The cards that the driver lists in sysfs, read without accessing any chip.

Attributes are small files. They are read without waiting, and never beyond the size of a sensible value.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass
from ttmem.hw.boards import Board, bus_of, find_board, is_on_board, is_remote_chip

NODES = "/dev/tenstorrent"  # a device file for each card, named by its number
DEFAULT_ROOT = "/sys"
ROOT_VARIABLE = "TTMEM_SYSFS"
CARDS = "class/tenstorrent"
MOST_BYTES = 64  # the longest value that the driver writes, a version or an id, has 17
MOST_ENTRIES = 256  # no host has more cards

_NAME = r"tenstorrent!([0-9]{1,6})"  # for /dev/tenstorrent/0: sysfs cannot have a slash
_ID = r"[0-9A-Fa-f]{1,16}"
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
    """An attribute has no value now; the text says why."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is unknown is None."""

    number: int | None  # N of /dev/tenstorrent/N; None for a remote chip
    folder: str
    board: Board | None
    serial: int | None
    asic_id: int | None
    pci: str | None

    def has(self, unique_id: int) -> bool:
        if unique_id == self.asic_id:
            return True
        return bool(self.serial) and is_on_board(unique_id, self.serial or 0)

    def is_the_chip(self, unique_id: int) -> bool:
        """Whether it is the chip with the PCI address, not another one of the same board."""
        if unique_id == self.asic_id:
            return True
        return self.is_remote(unique_id) is False

    def is_remote(self, unique_id: int) -> bool | None:
        """Whether a chip of this card is reached through the one with the PCI address; None if unknown."""
        if unique_id == self.asic_id:
            return False
        return None if self.board is None else is_remote_chip(unique_id, self.board)


def cards(folder: str | None = None) -> tuple[Card, ...]:
    """By number; none without the driver."""
    return tuple(card(*found) for found in card_folders(folder or cards_folder()))


def card_folders(parent: str) -> list[tuple[int, str]]:
    """(number, directory) of each card, by number."""
    matches = (re.fullmatch(_NAME, name) for name in names(parent))
    found = [(int(match[1]), match[0]) for match in matches if match]
    return [(number, os.path.join(parent, name)) for number, name in sorted(found)]


def card(number: int, folder: str) -> Card:
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
    return int(word, 16) if re.fullmatch(_ID, word) else None


def address(folder: str) -> str | None:
    """The PCI address, such as 0000:01:00.0, from the target of a link."""
    try:
        found = os.path.basename(os.readlink(os.path.join(folder, "device")))
    except OSError:
        return None
    return None if bus_of(found) is None else found


def checked_root(given: str | None = None) -> str:
    """The root of sysfs: what was given, else from the environment, else /sys. BadInput if it is not a directory."""
    root = given or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT
    if root != DEFAULT_ROOT and not os.path.isdir(root):
        how = "--sysfs " if given else f"{ROOT_VARIABLE}="
        raise BadInput(f"{how}{root} is not a directory; sysfs is usually {DEFAULT_ROOT}")
    return root


def cards_folder(root: str | None = None) -> str:
    """The directory in which the driver lists its cards."""
    return os.path.join(root or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT, CARDS)


def names(folder: str) -> list[str]:
    """Sorted; empty if the directory cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MOST_ENTRIES))
    except OSError:
        return []


def attribute(folder: str, name: str) -> str:
    """The text of an attribute; NoValue if it has none, or none that the driver could have written."""
    try:
        data = _read(os.path.join(folder, name))
    except OSError as problem:
        reason = _REASONS.get(problem.errno or 0) or f"it cannot be read: {problem.strerror}"
        raise NoValue(reason) from None
    if len(data) > MOST_BYTES:
        raise NoValue(f"the driver reports more than {MOST_BYTES} bytes, which cannot be a value")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        raise NoValue("the driver reports something that is not text")
    if not text:
        raise NoValue("the driver reports nothing")
    return text


def _read(path: str) -> bytes:
    file = os.open(path, _FLAGS)
    try:
        # A pipe or a device could block, or never end.
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return os.read(file, MOST_BYTES + 1)
    finally:
        os.close(file)
