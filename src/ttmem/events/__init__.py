"""What happened, where it happened and how much it was: the types that every other package shares."""

from ttmem.events.amounts import KINDS, LABELS, Amounts, Banks, MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.events.record import (
    EVENT,
    EVENT_SIZE,
    NO_POSITION,
    BinaryStatus,
    Control,
    Event,
    Flag,
    KernelType,
    Notice,
    Op,
)
from ttmem.events.samples import (
    CLOSED,
    COUNTERS_CLOSED,
    GHOSTS,
    PROBE_CLOSED,
    CardSample,
    DeviceSample,
    Owner,
    ProcessSample,
    Remark,
    Telemetry,
    TelemetryLimits,
)

__all__ = [
    "CLOSED",
    "COUNTERS_CLOSED",
    "EVENT",
    "EVENT_SIZE",
    "GHOSTS",
    "KINDS",
    "LABELS",
    "NO_POSITION",
    "PROBE_CLOSED",
    "Amounts",
    "Banks",
    "BinaryStatus",
    "CardSample",
    "Control",
    "DeviceDeclaration",
    "DeviceSample",
    "Event",
    "Flag",
    "KernelType",
    "MemoryKind",
    "Notice",
    "Op",
    "Owner",
    "ProcessSample",
    "Remark",
    "Telemetry",
    "TelemetryLimits",
]
