"""Recordings: a run in a file, which can be read at any instant."""

from __future__ import annotations

from ttmem.recording.instants import Instant
from ttmem.recording.reader import Batch, Info, Marker, RecordedProcess
from ttmem.recording.recording import Recording
from ttmem.recording.stretch import AllocatedBy, BufferChange, Stretch, Totals

__all__ = [
    "AllocatedBy",
    "Batch",
    "BufferChange",
    "Info",
    "Instant",
    "Marker",
    "RecordedProcess",
    "Recording",
    "Stretch",
    "Totals",
]
