"""An immutable picture of everything at one instant, with JSON in and out.

The keys of the JSON are the names of the fields here; keys are added, never renamed.
"""

from ttmem.snapshots.convert import from_json, to_json
from ttmem.snapshots.types import (
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
    "SCHEMA",
    "Anomaly",
    "CircularBuffers",
    "CrossCheck",
    "Device",
    "Footprint",
    "Kernels",
    "L1Map",
    "LeftBehind",
    "Losses",
    "Memory",
    "MemoryUse",
    "Process",
    "Provenance",
    "Ring",
    "Snapshot",
    "from_json",
    "to_json",
]
