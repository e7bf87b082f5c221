"""The file of a recording: its name, and who may write it."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ttmem.errors import BadInput, TtmemError

RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def expanded(name: str) -> str:
    """Expands %p, %h and %r in a file name."""

    def value(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "p":
            return str(os.getpid())
        if letter == "h":
            return os.uname().nodename
        if letter == "r":
            rank = next((os.environ[name] for name in RANKS if os.environ.get(name)), None)
            if rank is None or not rank.isdecimal():
                raise BadInput(f"%r is the MPI rank, and none of {', '.join(RANKS)} is set")
            return rank
        if letter == "%":
            return "%"
        raise BadInput(f"%{letter} in {name!r}: only %p, %h, %r and %% are known")

    return re.sub(r"%(.?)", value, name)


class FileSink:
    """A file of the user's own (mode 0600), with one writer at a time."""

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        """TtmemError if the file cannot be written; BadInput if it may not be."""
        self.path = path
        self._file = _claimed(path, os.O_CREAT | (0 if overwrite else os.O_EXCL))
        os.fchmod(self._file, 0o600)
        os.ftruncate(self._file, 0)
        self.size = 0

    def append(self, chunk: bytes) -> None:
        at = self.size
        view = memoryview(chunk)
        try:
            while view:
                written = os.pwrite(self._file, view, at)
                at, view = at + written, view[written:]
        except OSError:
            with suppress(OSError):  # readers skip a torn chunk, too
                os.ftruncate(self._file, self.size)
            raise
        self.size = at

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


def _claimed(path: str, flags: int = 0) -> int:
    """A regular file of the user's own, locked against other writers; BadInput if it cannot be had."""
    flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} exists; --overwrite replaces it") from None
    except OSError as problem:
        raise TtmemError(f"{path} cannot be written: {problem.strerror}") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path} is not a regular file; a recording needs one")
        if found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise BadInput(f"{path} belongs to somebody else, or has other names; not replaced")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"{path} is being written by another process") from None
    except BaseException:
        os.close(file)
        raise
    return file


@contextmanager
def completed_file(path: str, *, overwrite: bool = False) -> Iterator[FileSink]:
    """A sink whose file gets its name when it is complete: until then, a file of that name stays as it is.

    TtmemError if the file cannot be written.
    """
    before = None
    if os.path.lexists(path):
        before = _claimed(path, 0 if overwrite else os.O_CREAT | os.O_EXCL)
    part = f"{path}.part-{os.getpid()}"
    try:
        sink = FileSink(part, overwrite=True)
    except TtmemError as problem:
        raise type(problem)(str(problem).replace(part, path)) from None
    try:
        yield sink
        if not overwrite and os.path.lexists(path):
            raise BadInput(f"{path} exists; --overwrite replaces it")
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    finally:
        sink.close()
        if before is not None:
            os.close(before)
