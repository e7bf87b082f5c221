"""Figures from the runtime's error messages about failed allocations.

The wording differs between versions. A message that is not recognised yields None, and callers fall back on their own
counts.
"""

from __future__ import annotations

import re
from enum import Enum

from ttmem.fast_dataclasses import dataclass

_NEEDED = re.compile(
    r"allocate (\d+) B \w+(?: buffer)? across (\d+) banks"
    r"(?:, where each bank needs to store (\d+) B| \((\d+) B per bank\))"
    r"(?:,(?: but)? bank size is (?:only )?(\d+) B)?"
)
_FREE = re.compile(r"free: (\d+) B, largest free block: (\d+) B")
_CLASH = re.compile(
    r"clash with L1 buffers on core range (\[.*?\])\.?\s+"
    r"L1 buffer allocated at (\d+) and static \w+ buffer region ends at (\d+)"
)
_OUT_OF_MEMORY = re.compile(r"out of memory|not enough (?:space|memory)", re.IGNORECASE)
_TOO_LARGE = re.compile(r"on core range (.*?) grow to (\d+) B which is beyond max L1 size of (\d+)")


@dataclass(frozen=True, slots=True)
class BankFigures:
    """Bytes in one bank; all banks are alike."""

    asked: int  # in all banks, rounded up to whole pages: may exceed what the application requested
    banks: int
    needed: int
    bank_size: int | None
    free: int | None
    largest: int | None


@dataclass(frozen=True, slots=True)
class Clash:
    """L1 addresses, the same on each core of the range."""

    cores: str
    lowest_buffer: int
    end: int  # of what the program needs


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A program that needs more L1 than a core has."""

    cores: str
    end: int
    limit: int


class Verdict(Enum):
    """Why an allocation failed; each calls for something else."""

    EXHAUSTED = "exhausted"  # free something
    FRAGMENTED = "fragmented"  # enough is free, but not in one block
    TOO_LARGE = "too large"  # it would not fit into an empty device
    UNKNOWN = "unknown"


def verdict(needed: int | None, free: int | None, largest: int | None, size: int | None) -> Verdict:
    """From bytes in one bank, as far as they are known: `largest` is the largest free block."""
    if needed is None:
        return Verdict.UNKNOWN
    if size is not None and needed > size:
        return Verdict.TOO_LARGE
    if free is None:
        return Verdict.UNKNOWN
    if free < needed:
        return Verdict.EXHAUSTED
    return Verdict.FRAGMENTED if largest is None or largest < needed else Verdict.UNKNOWN


def is_out_of_memory(message: str) -> bool:
    """False if the allocation failed for another reason, or the wording is unknown."""
    return _OUT_OF_MEMORY.search(message) is not None


def bank_figures(message: str) -> BankFigures | None:
    """For a buffer that did not fit."""
    needed = _NEEDED.search(message)
    if needed is None:
        return None
    free = _FREE.search(message)
    return BankFigures(
        asked=int(needed[1]),
        banks=int(needed[2]),
        needed=int(needed[3] or needed[4]),
        bank_size=int(needed[5]) if needed[5] else None,
        free=int(free[1]) if free else None,
        largest=int(free[2]) if free else None,
    )


def clash(message: str) -> Clash | None:
    """For a program whose circular or dataflow buffers overlap an L1 buffer."""
    found = _CLASH.search(message)
    return Clash(found[1], int(found[2]), int(found[3])) if found else None


def end_in_each_core(message: str) -> int | None:
    """The address up to which a rejected program needs the L1 of its cores."""
    found = clash(message) or too_large(message)
    return found.end if found else None


def too_large(message: str) -> TooLarge | None:
    """For a program whose circular or dataflow buffers extend past the end of L1."""
    found = _TOO_LARGE.search(message)
    return TooLarge(found[1], int(found[2]), int(found[3])) if found else None
