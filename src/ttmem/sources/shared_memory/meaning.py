"""What the figures of each layout version mean, and what they are known to miss."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.sources.shared_memory.layout import Region


@dataclass(frozen=True, slots=True)
class Meaning:
    """One sentence each, for provenance."""

    cb_method: str
    misses: str


_OPENER_ONLY = "buffers that other threads than the one that opened the device allocate or free"
_BEFORE_EXEC = (
    "that a process which called exec and opened the device again has let go of what it held before"
)
_LEFT_OUT = "dataflow buffers and scratchpads, kernel code in L1, bank padding"

_CACHED = Meaning(
    "union over all cached programs of the process: a high-water mark, updated at most 10 times a second",
    f"{_OPENER_ONLY}; {_LEFT_OUT}; the last change of CB in a burst; {_BEFORE_EXEC}",
)
_RESIDENT = Meaning("residency at the last dispatch", _LEFT_OUT)

# Some of its builds publish rows of processes only if they are told to; totals name nobody.
_WITH_KERNELS = Meaning(
    "as that build of the runtime counted: the sum, or the union over all cached programs of the process",
    f"{_OPENER_ONLY}; {_LEFT_OUT}; processes of builds that need TT_METAL_SHM_STATS_PER_PID=1, without it",
)

_BY_VERSION = {1: _CACHED, 2: _CACHED, 3: _CACHED, 4: _RESIDENT}


def meaning_of(region: Region) -> Meaning:
    """Of the figures of a region."""
    return _BY_VERSION[region.version] if region.kernels is None else _WITH_KERNELS
