"""`Event.op` of what happens beside the accounts: the ledger passes it by, lists of events show it."""

from __future__ import annotations

from enum import IntEnum


class Notice(IntEnum):
    """Numbered as in `native/probe/layout.hpp`."""

    DEVICE_OPENED = 64
    DEVICE_CLOSED = 65
    PROGRAM_CREATED = 66
    PROGRAM_COMPILED = 67
    PROGRAM_FINALIZED = 68
    TRACE_BEGUN = 69
    TRACE_CAPTURED = 70
    TRACE_REPLAYED = 71
    TRACE_RELEASED = 72
    ALLOCATION_FAILED = 73
    PHASE_ENTERED = 74

    @property
    def of_device(self) -> bool:
        """Does `Event.device` mean anything?"""
        return self not in (Notice.PROGRAM_CREATED, Notice.PHASE_ENTERED)
