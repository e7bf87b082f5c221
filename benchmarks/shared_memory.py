"""What reading every region of a full machine costs: 32 devices, 64 live processes on each."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from benchmarks.ground import Failed, amount, owners
from benchmarks.table import Row
from ttmem.sources.counters.layout import STOCK
from ttmem.sources.counters.proc_scan import ProcScanner, scan_proc
from ttmem.sources.counters.source import CounterSource

DEVICES = 32
PROCESSES = 64
READINGS = amount(200, 2)
LIMIT_MS = 5.0


def region(number: int, pids: Sequence[int | None], step: int) -> bytes:
    """A sound one; `step` changes every counter."""
    held = (4096 * (1 + step), 2048, 0, 0, 1024)
    now = time.time_ns()
    totals = [len(pids) * size for size in held]
    data = bytearray(STOCK.size)
    STOCK.head.pack_into(data, 0, 3, len(pids), now, len(pids), 0, number, 0, *totals)
    data[STOCK.head.size : STOCK.processes_at] = (
        struct.pack("<II5Q", 0xFFFFFFFF, 0, 0, 0, 0, 0, 0) * 16
    )
    for slot, pid in enumerate(pids):
        STOCK.process.pack_into(
            data, STOCK.processes_at + slot * STOCK.process.size, pid, *held, now, b"python"
        )
    return bytes(data)


def _median_ms(
    read: Callable[[], object], before: Callable[[int], None] = lambda step: None
) -> float:
    times = []
    for step in range(READINGS):
        before(step)
        begun = time.perf_counter()
        read()
        times.append(time.perf_counter() - begun)
    return 1000 * median(times)


def measure() -> list[Row]:
    """Every counter changes between two readings; the peer only opens and reads the files."""
    numbers = [0x41 << 41 | n for n in range(DEVICES)]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        paths = [os.path.join(folder, f"tt_device_{number}_memory") for number in numbers]
        pids = [
            process.pid for process in stack.enter_context(owners(PROCESSES, paths, STOCK.size))
        ]

        def publish(step: int) -> None:
            for path, number in zip(paths, numbers, strict=True):
                with open(path, "wb") as file:
                    file.write(region(number, pids, step))

        def plain() -> None:
            for path in paths:
                with open(path, "rb") as file:
                    file.read()

        publish(0)
        source = CounterSource(folder, scanner=ProcScanner(period_s=float("inf")))
        if {len(device.processes) for device in source.read().devices} != {PROCESSES}:
            raise Failed("the source does not see every process")
        changing = _median_ms(source.read, publish)
        plain_ms = _median_ms(plain)
        begun = time.perf_counter()
        scan_proc()
        scan = 1000 * (time.perf_counter() - begun)
    what = f"{DEVICES} regions x {PROCESSES} live processes"
    return [
        Row(
            f"reading {what}",
            changing,
            "ms",
            LIMIT_MS,
            note=f"open and read alone {plain_ms:.2f} ms; walk over /proc, every 5 s: {scan:.0f} ms",
        )
    ]
