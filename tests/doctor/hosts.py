"""Hosts that are thought up: a sound one, to be changed."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttmem.events import Amounts, DeviceSample, Owner, ProcessSample, Remark
from ttmem.probe import layout
from ttmem.sources.host import CardFacts, FolderFacts, HostFacts, RegionFacts, Surroundings

SURROUNDINGS = Surroundings(host_pids=True, host_ipc=True, hidden_pids=False, root=True)
CARD = CardFacts("0", "p150", "0000:01:00.0", "/dev/tenstorrent/0", True)
HOST = HostFacts(
    time_ns=1,
    driver="2.4.0",
    cards=(CARD,),
    runtimes=(),
    folder=FolderFacts("/dev/shm", 1 << 34, 1 << 33),
    regions=(),
    remarks=(),
    containers=(),
    hidden=(),
    sockets=(),
    probes=(),
    surroundings=SURROUNDINGS,
)


def host(**changes: Any) -> HostFacts:
    """The sound host with something different about it."""
    return replace(HOST, **changes)


def process(owner: Owner, pid: int = 4711, held: int = 4096) -> ProcessSample:
    return ProcessSample(pid, 1, "python", owner, Amounts(held), 1)


def region(
    *remarks: Remark,
    processes: tuple[ProcessSample, ...] = (),
    version: int = 3,
    mode: int = 0o600,
    mapped_by: tuple[int, ...] = (),
) -> RegionFacts:
    sample = DeviceSample(
        unique_id="7",
        declaration=None,
        path="/dev/shm/tt_device_7_memory",
        version=version,
        logical_id=0,
        processes=processes,
        stored=Amounts(),
        chips=None,
        cb_method="",
        misses="",
        remarks=remarks,
        references=1,
    )
    return RegionFacts(sample, 8576, mode, "ada", mapped_by)


# -- The smallest region that the reader of probe regions takes: one record in each table


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
    ready = next(state for state in layout.RegionState if state is not layout.RegionState.MAKING)
    _HEAD.pack_into(data, 0, layout.MAGIC, layout.VERSION, ready, SIZE, pid, 1, ticks, 1)
    data[-4:] = b"last"
    path = folder / f"{layout.FILE_PREFIX}{pid}_{ticks}"
    path.write_bytes(data)
    then = time.time() - idle_s
    os.utime(path, (then, then))
    return path
