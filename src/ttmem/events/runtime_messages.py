"""The figures in what the runtime says when it refuses an allocation. Its words differ between versions; a message
that is not understood has none, and the caller counts for itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEEDED = re.compile(
    r"allocate (\d+) B \w+(?: buffer)? across (\d+) banks"
    r"(?:, where each bank needs to store (\d+) B| \((\d+) B per bank\))"
    r"(?:,(?: but)? bank size is (?:only )?(\d+) B)?"
)
_ROOM = re.compile(r"free: (\d+) B, largest free block: (\d+) B")
_CLASH = re.compile(
    r"clash with L1 buffers on core range (\[.*?\])\.?\s+"
    r"L1 buffer allocated at (\d+) and static \w+ buffer region ends at (\d+)"
)
_NO_ROOM = re.compile(r"out of memory|not enough (?:space|memory)", re.IGNORECASE)
_TOO_LARGE = re.compile(r"on core range (.*?) grow to (\d+) B which is beyond max L1 size of (\d+)")


@dataclass(frozen=True, slots=True)
class BankFigures:
    """Of one bank; every bank is the same."""

    asked: int  # of all banks, in whole pages: may be more than the application asked for
    banks: int
    needed: int
    bank_size: int | None
    free: int | None
    largest: int | None


@dataclass(frozen=True, slots=True)
class Clash:
    """Addresses in the L1 of each core of a range."""

    cores: str
    lowest_buffer: int
    end: int  # of what the program needs


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A program that needs more than a core has."""

    cores: str
    end: int
    limit: int


def tells_of_no_room(message: str) -> bool:
    """Else it was refused for another reason, or in words that nobody here knows."""
    return _NO_ROOM.search(message) is not None


def bank_figures(message: str) -> BankFigures | None:
    """Of a buffer that found no room."""
    needed = _NEEDED.search(message)
    if needed is None:
        return None
    room = _ROOM.search(message)
    return BankFigures(
        asked=int(needed[1]),
        banks=int(needed[2]),
        needed=int(needed[3] or needed[4]),
        bank_size=int(needed[5]) if needed[5] else None,
        free=int(room[1]) if room else None,
        largest=int(room[2]) if room else None,
    )


def clash(message: str) -> Clash | None:
    """Of a program whose circular or dataflow buffers reach into a buffer."""
    found = _CLASH.search(message)
    return Clash(found[1], int(found[2]), int(found[3])) if found else None


def end_in_each_core(message: str) -> int | None:
    """The address up to which a program that was refused needs the L1 of its cores."""
    found = clash(message) or too_large(message)
    return found.end if found else None


def too_large(message: str) -> TooLarge | None:
    """Of a program whose circular or dataflow buffers reach over the end of L1."""
    found = _TOO_LARGE.search(message)
    return TooLarge(found[1], int(found[2]), int(found[3])) if found else None
