"""Regions are found by their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.sources.probe_folder import DEFAULT_DIRECTORY, REGION_NAME, VARIABLE


@dataclass(frozen=True, slots=True)
class RegionName:
    """A file that may be a region."""

    path: str
    pid: int
    start_ticks: int


def region_directory() -> str:
    """Where processes of this user make their regions."""
    return os.environ.get(VARIABLE) or DEFAULT_DIRECTORY


def find_regions(directory: str | None = None) -> Iterator[RegionName]:
    """Every region by name; whether it can be read shows when it is opened."""
    try:
        entries = sorted(os.scandir(directory or region_directory()), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        match = REGION_NAME.match(entry.name)
        if match and entry.is_file(follow_symlinks=False):
            yield RegionName(entry.path, int(match[1]), int(match[2]))
