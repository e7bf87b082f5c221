"""Regions are found by their names: in a folder where anybody may make as many files as there are inodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from ttmem.sources.probe_folder import DEFAULT_DIRECTORY, REGION_NAME, VARIABLE

MOST_OF_A_USER = 256  # regions that are looked at; dead ones are removed at 64 MiB or after an hour
AT_ONCE = 4096  # names of one step: 5 ms


@dataclass(frozen=True, slots=True)
class RegionName:
    """A file that may be a region, and whose it is."""

    path: str
    pid: int
    start_ticks: int
    inode: int
    uid: int


@dataclass(slots=True)
class Names:
    """What a walk through the folder has found; `left_out` counts, by user, what is beyond the limit."""

    found: dict[str, RegionName] = field(default_factory=dict)  # by path
    left_out: dict[int, int] = field(default_factory=dict)
    _of_user: dict[int, int] = field(default_factory=dict)

    def add(self, name: RegionName) -> None:
        """Who has too many gets no more."""
        count = self._of_user.get(name.uid, 0)
        if count < MOST_OF_A_USER:
            self._of_user[name.uid] = count + 1
            self.found[name.path] = name
        else:
            self.left_out[name.uid] = self.left_out.get(name.uid, 0) + 1


class RegionScan:
    """Walks through the folder again and again, the first time at once, later step by step."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._last: Names | None = None  # of the last walk that came to its end
        self._walk: Iterator[RegionName | None] | None = None
        self._names = Names()

    def look(self) -> Names:
        """What the last walk has found, and what this one has met so far."""
        if self._walk is None:
            self._walk, self._names = _walk(self._directory), Names()
        for done, name in enumerate(self._walk, 1):
            if name is not None:
                self._names.add(name)
            if done == AT_ONCE and self._last is not None:
                return Names({**self._last.found, **self._names.found}, self._last.left_out)
        self._last, self._walk = self._names, None
        return self._last


def region_directory() -> str:
    """Where processes of this user make their regions."""
    return os.environ.get(VARIABLE) or DEFAULT_DIRECTORY


def find_regions(directory: str | None = None) -> Iterator[RegionName]:
    """Regions by name, so many of each user; whether one can be read shows when it is opened."""
    found = RegionScan(directory).look().found
    for path in sorted(found):
        yield found[path]


def _walk(directory: str | None) -> Iterator[RegionName | None]:
    """Every file of the folder; None for one that is no region."""
    try:
        with os.scandir(directory or region_directory()) as entries:
            for entry in entries:
                yield _region(entry)
    except OSError:
        return


def _region(entry: os.DirEntry[str]) -> RegionName | None:
    match = REGION_NAME.match(entry.name)
    if match is None or not entry.is_file(follow_symlinks=False):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return RegionName(entry.path, int(match[1]), int(match[2]), status.st_ino, status.st_uid)
