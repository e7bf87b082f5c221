"""What happened: one fixed-size event record, and the words it is made of."""

from ttmem.events.device import DeviceDeclaration
from ttmem.events.kinds import BinaryStatus, KernelType, MemoryKind, Op
from ttmem.events.notices import Notice
from ttmem.events.record import EVENT, EVENT_SIZE, Event, Flag
from ttmem.events.samples import Counters, DeviceSample, Owner, ProcessSample, Remark
from ttmem.events.telemetry import CardSample, Telemetry, TelemetryLimits

__all__ = [
    "EVENT",
    "EVENT_SIZE",
    "BinaryStatus",
    "CardSample",
    "Counters",
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
