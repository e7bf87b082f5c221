"""Lists a directory where every user may create as many files as there are inodes.

Work per look is bounded, and so is the number of files of each user, so that nobody's files hide those of others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Generic, Protocol, TypeVar

from ttmem.sources.containers import Container

NAMES_PER_STEP = 4096  # 5 ms


# No symlinks; and a FIFO without a writer must not keep us waiting.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_shared(path: str, container: Container | None) -> int:
    """A file here or in a container, for reading."""
    return os.open(path, _FLAGS) if container is None else container.open(os.path.basename(path))


def shared_status(path: str, container: Container | None) -> os.stat_result:
    return os.lstat(path) if container is None else container.status(os.path.basename(path))


class CpuBudget:
    """Processor time by user: anybody can create what takes long to examine, and that must only affect themselves."""

    def __init__(self, seconds: float, unlimited: Iterable[Hashable] = ()) -> None:
        self._seconds = seconds
        self._unlimited = {*unlimited}
        self._spent: dict[Hashable, float] = {}

    def is_spent(self, user: Hashable) -> bool:
        return user not in self._unlimited and self._spent.get(user, 0.0) >= self._seconds

    @contextmanager
    def of(self, user: Hashable) -> Iterator[None]:
        """Charges the time inside to that user."""
        begun = time.thread_time()
        try:
            yield
        finally:
            self._spent[user] = self._spent.get(user, 0.0) + time.thread_time() - begun


class Listed(Protocol):
    """A file with a name that is looked for."""

    @property
    def path(self) -> str: ...
    @property
    def uid(self) -> int:
        """Whom it is charged to."""

    @property
    def fits(self) -> bool:
        """Whether it may be what is looked for; those that are not do not displace those that may be."""


E = TypeVar("E", bound=Listed)
Read = Callable[["os.DirEntry[str]", "Container | None"], "E | None"]


class SharedFiles(Generic[E]):
    """`left_out` counts, by user, the files beyond the limit."""

    def __init__(self) -> None:
        self.found: dict[str, E] = {}  # by path
        self.left_out: dict[int, int] = {}
        self._counts: dict[tuple[int, bool], int] = {}

    def add(self, entry: E, most: int) -> None:
        share = entry.uid, entry.fits
        count = self._counts.get(share, 0)
        if count < most:
            self._counts[share] = count + 1
            self.found[entry.path] = entry
        else:
            self.left_out[entry.uid] = self.left_out.get(entry.uid, 0) + 1


class DirectoryScan(Generic[E]):
    """Lists the directory repeatedly: at once the first time, later in steps."""

    def __init__(self, directory: str | Container, read: Read[E], most: int) -> None:
        """`read` returns None for other files; `most` is the limit per user."""
        self._directory = directory
        self._read = read
        self._most = most
        self._complete: SharedFiles[E] | None = None
        self._walk: Iterator[E | None] | None = None
        self._partial: SharedFiles[E] = SharedFiles()
        self.problem: OSError | None = None  # why the directory could not be listed

    def look(self) -> SharedFiles[E]:
        """The last complete listing, and what the present one has found so far."""
        if self._walk is None:
            self._walk, self._partial, self.problem = self._entries(), SharedFiles(), None
        complete = self._complete
        step = None if complete is None else NAMES_PER_STEP
        done = 0
        for done, entry in enumerate(islice(self._walk, step), 1):  # noqa: B007
            if entry is not None:
                self._partial.add(entry, self._most)
        if complete is not None and done == step:
            both: SharedFiles[E] = SharedFiles()
            both.found = {**complete.found, **self._partial.found}
            both.left_out = complete.left_out
            return both
        self._complete, self._walk = self._partial, None
        return self._complete

    def _entries(self) -> Iterator[E | None]:
        """An item per file."""
        directory = self._directory
        try:
            if isinstance(directory, Container):
                yield from (self._read(entry, directory) for entry in directory.entries())
                return
            with os.scandir(directory) as entries:
                for entry in entries:
                    yield self._read(entry, None)
        except OSError as problem:
            self.problem = problem
