"""The smallest region that the reader of probe regions takes: one record in each table."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from ttmem.probe import layout

SIZE = 1 << 20
_HEAD = struct.Struct("<8sIIQIIQQ")  # magic, version, state, size, pid, tracking, ticks, created


def write_probe_region(folder: Path, pid: int, idle_s: float = 0.0, ticks: int = 1) -> Path:
    """Last written to `idle_s` ago; no process started one tick after boot, so its owner is dead."""
    data = bytearray(SIZE)
    at = layout.HEADER_SIZE
    for section in layout.Section:
        place = layout.SECTIONS_AT + section * layout.SECTION.size
        layout.SECTION.pack_into(data, place, at, 1, layout.STRIDES[section])
        at += layout.STRIDES[section]
    ready = next(state for state in layout.State if state is not layout.State.MAKING)
    _HEAD.pack_into(data, 0, layout.MAGIC, layout.VERSION, ready, SIZE, pid, 1, ticks, 1)
    data[-4:] = b"last"
    path = folder / f"{layout.FILE_PREFIX}{pid}_{ticks}"
    path.write_bytes(data)
    then = time.time() - idle_s
    os.utime(path, (then, then))
    return path
