"""ttmem shows who uses the memory of Tenstorrent accelerators.

    import ttmem

    picture = ttmem.snapshot()              # everything, as typed objects
    ttmem.memory_allocated(0)               # bytes of DRAM on device 0
    ttmem.max_memory_allocated(0, "l1_used")
    with ttmem.phase("prefill"): ...        # under `ttmem run`: a tag for what is allocated inside

Importing the package loads nothing but this file; each name loads what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ttmem.api import max_memory_allocated, memory_allocated, reset_peak, snapshot
    from ttmem.probe.phases import phase

__all__ = [
    "__version__",
    "max_memory_allocated",
    "memory_allocated",
    "phase",
    "reset_peak",
    "snapshot",
]


def __getattr__(name: str) -> object:
    if name == "phase":
        from ttmem.probe import phases

        globals()[name] = (
            phases.phase
        )  # found at once from now on: it may be asked for in every step
        return phases.phase
    if name in __all__:
        from ttmem import api

        return getattr(api, name)
    raise AttributeError(f"module 'ttmem' has no attribute {name!r}")
