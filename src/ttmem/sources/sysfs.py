"""Attributes of the driver in sysfs: small files, read without waiting and never whole."""

from __future__ import annotations

import errno
import os
import stat

from ttmem.errors import BadInput

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
