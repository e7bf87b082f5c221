"""Opening a file to change it, and being sure that it is the one that was judged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ttmem.clean.steps import Key

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Changed(Exception):
    """Something is not as it was when it was judged, so nothing more was done; the text says what."""


@contextmanager
def opened(path: str, key: Key | None = None) -> Iterator[int]:
    """A descriptor of a plain file; with `key` only of that very file."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as problem:
        raise Changed(f"cannot be opened: {problem.strerror}") from problem
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Changed("is no plain file")
        if key is not None and key != (status.st_dev, status.st_ino):
            raise Changed("was replaced meanwhile")
        yield descriptor
    except OSError as problem:
        raise Changed(f"failed: {problem.strerror}") from problem
    finally:
        os.close(descriptor)


def key_of(path: str) -> Key | None:
    """None if there is no such file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
