"""ttmem shows who uses the memory of Tenstorrent accelerators.

    import ttmem

    now = ttmem.snapshot()                  # everything, as typed objects
    ttmem.memory_allocated(0)               # bytes of DRAM that this process holds on device 0
    ttmem.max_memory_allocated(0, "l1")     # its peak, under `ttmem run`
    with ttmem.watch() as w: ...            # then w.peak.l1_used, w.leaked, w.by("site")
    with ttmem.phase("prefill"): ...        # under `ttmem run`: tags what is allocated inside

Importing the package loads only this file; each name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.analysis.composition import Holder
    from ttmem.api import (
        mark,
        max_memory_allocated,
        memory_allocated,
        record,
        reset_peak,
        snapshot,
    )
    from ttmem.errors import BadInput, NoServer, TtmemError
    from ttmem.events import Amounts, CardSample, Telemetry
    from ttmem.measuring.measured import Peak
    from ttmem.measuring.watch import Watch, watch
    from ttmem.probe.phases import phase
    from ttmem.snapshots import (
        Anomaly,
        Buffer,
        CircularBuffer,
        CircularBuffers,
        Cores,
        CoreSet,
        CrossCheck,
        Device,
        Footprint,
        Kernel,
        Kernels,
        L1Map,
        LeftBehind,
        LoggedEvent,
        Losses,
        Memory,
        MemoryHistory,
        MemoryUse,
        Process,
        Program,
        Provenance,
        ResidentBuffer,
        Ring,
        Snapshot,
    )
    from ttmem.version import __version__

__all__ = [
    "Amounts",
    "Anomaly",
    "BadInput",
    "Buffer",
    "CardSample",
    "CircularBuffer",
    "CircularBuffers",
    "CoreSet",
    "Cores",
    "CrossCheck",
    "Device",
    "Footprint",
    "Holder",
    "Kernel",
    "Kernels",
    "L1Map",
    "LeftBehind",
    "LoggedEvent",
    "Losses",
    "Memory",
    "MemoryHistory",
    "MemoryUse",
    "NoServer",
    "Peak",
    "Process",
    "Program",
    "Provenance",
    "ResidentBuffer",
    "Ring",
    "Snapshot",
    "Telemetry",
    "TtmemError",
    "Watch",
    "__version__",
    "mark",
    "max_memory_allocated",
    "memory_allocated",
    "phase",
    "record",
    "reset_peak",
    "snapshot",
    "watch",
]

_DEFINED_IN = {
    "ttmem.api": (
        "mark",
        "max_memory_allocated",
        "memory_allocated",
        "record",
        "reset_peak",
        "snapshot",
    ),
    "ttmem.errors": ("BadInput", "NoServer", "TtmemError"),
    "ttmem.events": ("Amounts", "CardSample", "Telemetry"),
    "ttmem.analysis.composition": ("Holder",),
    "ttmem.measuring.measured": ("Peak",),
    "ttmem.measuring.watch": ("Watch", "watch"),
    "ttmem.probe.phases": ("phase",),
    "ttmem.version": ("__version__",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ttmem' has no attribute {name!r}")
    homes = (module for module, names in _DEFINED_IN.items() if name in names)
    found: object = getattr(import_module(next(homes, "ttmem.snapshots")), name)
    globals()[name] = found  # found directly from now on: `phase` may be used in every step
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
