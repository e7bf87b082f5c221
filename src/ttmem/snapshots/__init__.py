"""The state of everything at one instant, immutable, with JSON in and out.

The keys of the JSON are the names of the fields here; keys are added, never renamed.
"""

from ttmem.snapshots.convert import from_json, to_json
from ttmem.snapshots.rows import (
    Buffer,
    CircularBuffer,
    Cores,
    CoreSet,
    Kernel,
    LoggedEvent,
    MemoryHistory,
    Program,
    ResidentBuffer,
)
from ttmem.snapshots.types import (
    DETAILS,
    SCHEMA,
    Anomaly,
    CircularBuffers,
    CrossCheck,
    Device,
    Footprint,
    Kernels,
    L1Map,
    LeftBehind,
    Losses,
    Memory,
    MemoryUse,
    Process,
    Provenance,
    Ring,
    Snapshot,
)

__all__ = [
    "DETAILS",
    "SCHEMA",
    "Anomaly",
    "Buffer",
    "CircularBuffer",
    "CircularBuffers",
    "CoreSet",
    "Cores",
    "CrossCheck",
    "Device",
    "Footprint",
    "Kernel",
    "Kernels",
    "L1Map",
    "LeftBehind",
    "LoggedEvent",
    "Losses",
    "Memory",
    "MemoryHistory",
    "MemoryUse",
    "Process",
    "Program",
    "Provenance",
    "ResidentBuffer",
    "Ring",
    "Snapshot",
    "from_json",
    "to_json",
]
