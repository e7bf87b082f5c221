"""Recordings: a run kept in a file, and read back at any instant of it."""

from __future__ import annotations

from ttmem.recording.reader import Batch, Info, Marker, RecordedProcess
from ttmem.recording.recording import Instant, Recording, Totals

__all__ = ["Batch", "Info", "Instant", "Marker", "RecordedProcess", "Recording", "Totals"]
