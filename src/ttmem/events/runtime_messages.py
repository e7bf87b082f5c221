"""Figures from the runtime's error messages about failed allocations.

The wording differs between versions. A message that is not recognised yields None, and callers fall back on their own
counts. `found_in` looks for all of them in a log, whatever the logger, the terminal or MPI put around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from ttmem.fast_dataclasses import NamedTuple, dataclass

_NEEDED = (
    r"allocate (\d+) B (\w+)(?: buffer)? across (\d+) banks"
    r"(?:, where each bank needs to store (\d+) B| \((\d+) B per bank\))"
    r"(?:,(?: but)? bank size is (?:only )?(\d+) B)?"
    r"(?: \(allocated: \d+ B, free: (\d+) B, largest free block: (\d+) B)?"
)
_CLASH = (
    r"clash with L1 buffers\s+on core range (\[[^\]]*\])\.?\s+"
    r"L1 buffer allocated at (\d+) and static (\w+) buffer region ends at (\d+)"
)
_OUT_OF_MEMORY = r"(?i)out of memory|not enough (?:space|memory)"
_TOO_LARGE = (
    r"(?:allocated (\w+) buffers )?on core range (\[[^\]]*\]|\S+) grow to (\d+) B\s+"
    r"which is beyond max L1 size of (\d+)"
)
_TRACE = (
    r"Creating trace buffers of size (\d+)\s?B(?: on \w+ \d+)?,\s+"
    r"but only (\d+)\s?B is allocated for trace region"
)
_RING = r"Program size \((\d+)\) too large for kernel config buffer \((\d+)\)"
# What operations check themselves, before anything is allocated.
_TIGHT = (
    r"(\w+)[^.:]* require (\d+) bytes, but only (\d+) bytes of the allocator's L1 span are available",
    r"()needs? (\d+) bytes of L1 per core, only (\d+) are available",
    r"(\w+): per-core CBs do not fit in L1 [^:]*: need (\d+) B but only (\d+) B available",
)
_BEYOND = (
    r"(\w+): required DFB (?:entry )?size \(?(\d+) B\)? exceeds per-core L1 (?:capacity|budget) \(?(\d+) B",
    r"(\w+): double-buffered tile-height chunk \([^()]*= (\d+) B\) exceeds L1 capacity \((\d+) B",
    r"()circular buffer size \((\d+) B\) exceeds its L1 buffer bank \((\d+) B",
    r"()ring size \((\d+) bytes\) exceeds Tensix unreserved L1 size \((\d+) bytes",
    r"(\w+): indices staging buffer requires (\d+) L1 bytes but per-core L1 is (\d+) bytes",
)
_UNSAFE = (
    r"Allocating device buffers is (potentially )?unsafe due to the existence of an active trace"
)


@dataclass(frozen=True, slots=True)
class BankFigures:
    """Bytes in one bank; all banks are alike."""

    kind: str  # DRAM, L1, ...
    asked: int  # in all banks, rounded up to whole pages: may exceed what the application requested
    banks: int
    needed: int
    bank_size: int | None
    free: int | None
    largest: int | None

    @property
    def least_bank_size(self) -> int | None:
        """With which it might have fitted; more if free memory was fragmented."""
        if self.bank_size is None or self.free is None:
            return None
        return self.bank_size - self.free + self.needed


@dataclass(frozen=True, slots=True)
class Clash:
    """L1 addresses, the same on each core of the range."""

    cores: str
    lowest_buffer: int
    end: int  # of what the program needs
    buffers: str = "circular"  # or dataflow


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A program that needs more L1 than a core has."""

    cores: str
    end: int
    limit: int
    buffers: str = "circular"  # or dataflow


@dataclass(frozen=True, slots=True)
class TraceRegion:
    """A trace region that is too small; bytes in all banks together."""

    needed: int
    size: int


@dataclass(frozen=True, slots=True)
class RingTooSmall:
    """A program whose kernels and arguments do not fit into the kernel-config ring of a core."""

    needed: int
    size: int


@dataclass(frozen=True, slots=True)
class OperationTooLarge:
    """An operation that checked for itself that it does not fit; bytes on each core."""

    name: str  # as the message gives it; may be empty
    needed: int
    available: int
    ever: bool  # False: more would be available if less were held


@dataclass(frozen=True, slots=True)
class UnsafeAllocation:
    """A warning: a buffer was allocated while a trace exists, which may overwrite it when it is replayed."""

    certain: bool  # False: 'potentially unsafe'


Said = (
    BankFigures
    | Clash
    | TooLarge
    | TraceRegion
    | RingTooSmall
    | OperationTooLarge
    | UnsafeAllocation
)


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
    return re.search(_OUT_OF_MEMORY, message) is not None


def bank_figures(message: str) -> BankFigures | None:
    """For a buffer that did not fit."""
    found = re.search(_NEEDED, message)
    return _bank_figures(found) if found else None


def _bank_figures(found: re.Match[str]) -> BankFigures:
    asked, kind, banks, needed, needed_too, size, free, largest = found.groups()
    return BankFigures(
        kind=kind,
        asked=int(asked),
        banks=int(banks),
        needed=int(needed or needed_too),
        bank_size=int(size) if size else None,
        free=int(free) if free else None,
        largest=int(largest) if largest else None,
    )


def clash(message: str) -> Clash | None:
    """For a program whose circular or dataflow buffers overlap an L1 buffer."""
    found = re.search(_CLASH, message)
    return _clash(found) if found else None


def _clash(found: re.Match[str]) -> Clash:
    return Clash(found[1], int(found[2]), int(found[4]), found[3].lower())


def end_in_each_core(message: str) -> int | None:
    """The address up to which a rejected program needs the L1 of its cores."""
    found = clash(message) or too_large(message)
    return found.end if found else None


def too_large(message: str) -> TooLarge | None:
    """For a program whose circular or dataflow buffers extend past the end of L1."""
    found = re.search(_TOO_LARGE, message)
    return _too_large(found) if found else None


def _too_large(found: re.Match[str]) -> TooLarge:
    return TooLarge(found[2], int(found[3]), int(found[4]), (found[1] or "circular").lower())


def _tight(found: re.Match[str]) -> OperationTooLarge:
    return OperationTooLarge(found[1], int(found[2]), int(found[3]), ever=False)


def _beyond(found: re.Match[str]) -> OperationTooLarge:
    return OperationTooLarge(found[1], int(found[2]), int(found[3]), ever=True)


_GRAMMAR: tuple[tuple[str, Callable[[re.Match[str]], Said]], ...] = (
    (_NEEDED, _bank_figures),
    (_CLASH, _clash),
    (_TOO_LARGE, _too_large),
    (_TRACE, lambda found: TraceRegion(int(found[1]), int(found[2]))),
    (_RING, lambda found: RingTooSmall(int(found[1]), int(found[2]))),
    *((words, _tight) for words in _TIGHT),
    *((words, _beyond) for words in _BEYOND),
    (_UNSAFE, lambda found: UnsafeAllocation(not found[1])),
)
_COLOURS = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
# Open MPI's --tag-output and its newer forms, mpirun's and prterun's: '[1,3]<stdout>:', '[job,3]<stderr>: '.
_RANK = r"^\s*\[[^\]\s]*?,(\d+)\](?:<std(?:out|err|diag)>)?:?\s?"
_WRAPPED = 3  # further lines that a message may take
_LONGEST = 4000  # characters of a line


class LogMessage(NamedTuple):
    """A message of the runtime, which may occur several times."""

    said: Said
    line: int  # its first occurrence; lines count from 1
    times: int  # occurrences: a runtime logs a message and throws it, on each rank
    ranks: tuple[int, ...]  # MPI ranks, if lines are tagged with them


def found_in(lines: Iterable[str]) -> list[LogMessage]:
    """All messages in a log that have figures, in the order of their first occurrence."""
    found: dict[Said, tuple[int, int, set[int]]] = {}
    for number, rank, said in _messages(lines):
        first, times, ranks = found.get(said, (number, 0, set()))
        if rank is not None:
            ranks.add(rank)
        found[said] = first, times + 1, ranks
    return [
        LogMessage(said, first, times, tuple(sorted(ranks)))
        for said, (first, times, ranks) in found.items()
    ]


def _messages(lines: Iterable[str]) -> Iterator[tuple[int, int | None, Said]]:
    recent: list[
        tuple[int | None, str]
    ] = []  # per rank, and across lines: people and loggers wrap messages
    for number, raw in enumerate(lines, 1):
        rank, text = _plain(raw)
        here = _said(text)
        recent = [] if here else [*recent[-_WRAPPED:], (rank, text)]
        here = here or _said(" ".join(part.strip() for other, part in recent if other == rank))
        if here:
            recent = []
        yield from ((number, rank, said) for said in here)


def _plain(line: str) -> tuple[int | None, str]:
    """Removes colours and the MPI prefix, which names the rank."""
    text = re.sub(_COLOURS, "", line[:_LONGEST]).rstrip()
    tagged = re.match(_RANK, text)
    return (int(tagged[1]), text[tagged.end() :]) if tagged else (None, text)


def _said(text: str) -> list[Said]:
    """In the order of the text; most lines of a log contain none of these words."""
    if not any(word in text for word in ("llocat", "grow to", "Program size", "L1 ")):
        return []
    found = [
        (match.start(), made(match))
        for words, made in _GRAMMAR
        for match in re.finditer(words, text)
    ]
    return [said for _, said in sorted(found, key=lambda pair: pair[0])]
