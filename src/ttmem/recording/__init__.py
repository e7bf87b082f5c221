"""Recordings: a run kept in a file, and read back at any instant of it."""

from __future__ import annotations

from ttmem.recording.reader import Batch, Info, Marker, RecordedProcess
from ttmem.recording.recording import Instant, Recording
from ttmem.recording.stretch import BufferChange, Origin, Stretch, Totals

__all__ = [
    "Batch",
    "BufferChange",
    "Info",
    "Instant",
    "Marker",
    "Origin",
    "RecordedProcess",
    "Recording",
    "Stretch",
    "Totals",
]
