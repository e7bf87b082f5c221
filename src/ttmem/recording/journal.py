"""Journal records in a recording: control records, and batches of events after their BATCH record.

In a recording, BATCH, OPEN_PROCESS and RELEASE_PROCESS have the serial number of their account in `extra`. Ledger
indices are reused when a process has ended; serial numbers are not. A chunk starts with a control record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ttmem._native import reached
from ttmem.events import EVENT_SIZE, Event
from ttmem.events.record import Control

__all__ = ["MASK_RECORDS", "Run", "reached", "records_until", "runs", "times"]

MASK_RECORDS = 2  # after a DEFINE_CORES
_TIME = 1  # column of a record, in words of eight bytes
_WORDS = EVENT_SIZE // 8


class Run(NamedTuple):
    """A control record and the records that belong to it: events of a BATCH, the mask of a DEFINE_CORES."""

    control: Event
    first: int  # offsets in the chunk of the records after it
    end: int


def runs(records: bytes) -> Iterator[Run]:
    """The runs of one chunk, which may end anywhere. ValueError if it does not start with a control record."""
    at, count = 0, len(records) // EVENT_SIZE
    while at < count:
        control = Event.unpack(records, at * EVENT_SIZE)
        if control.op < Control.BATCH:
            raise ValueError("an event that belongs to no batch")
        behind = 0
        if control.op == Control.BATCH:
            behind = control.size
        elif control.op == Control.DEFINE_CORES:
            behind = MASK_RECORDS
        end = min(count, at + 1 + behind)
        yield Run(control, at + 1, end)
        at = end


def times(records: bytes, run: Run) -> list[int]:
    """When the events of a batch happened; the time of arrival replaces a time that is unknown or in the future."""
    arrived = run.control.time
    words = memoryview(records).cast("Q")
    found = words[run.first * _WORDS + _TIME : run.end * _WORDS : _WORDS].tolist()
    return [time if 0 < time <= arrived else arrived for time in found]


def records_until(records: bytes, before: int, time: int) -> int:
    """How many records of a chunk come before the first event later than `time`."""
    for run in runs(records):
        if run.control.op == Control.BATCH:
            for number, happened in enumerate(times(records, run)):
                if max(before, happened) > time:
                    return run.first + number if number else run.first - 1
    return len(records) // EVENT_SIZE
