"""Mutated regions against the shared-memory source: no exception, no hang, no wrong sum."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fuzz.region_oracle import Five, in_use
from fuzz.regions import region
from ttmem.hw.discovery import Capacities
from ttmem.sources.counters.proc_scan import ProcScan, ProcScanner
from ttmem.sources.counters.source import CounterReading, CounterSource

NUMBERS = (7, 0x72701, 4476187513037, 143238000421664, 2**64 - 1)
SLOWEST_S = 5.0


class _NoScan(ProcScanner):
    """Containers of this machine must not decide what a region holds."""

    def latest(self, puzzling: Callable[[], bool] = bool) -> ProcScan:
        return ProcScan()


def run(count: int, seed: int) -> int:
    """Prints how far it came, and what broke."""
    begun = time.monotonic()
    dead = subprocess.Popen(["true"])
    dead.wait()
    child = subprocess.Popen(["sleep", "86400"])
    pids = [os.getpid(), child.pid, dead.pid, 1]
    capacities = Capacities()
    read = 0
    try:
        with tempfile.TemporaryDirectory(prefix="ttmem-fuzz-") as folder:
            for number in range(count):
                rng = random.Random(seed * 1_000_003 + number)
                chip = rng.choice(NUMBERS)
                data = region(rng, chip, pids)
                path = Path(folder, f"tt_device_{chip}_memory")
                path.write_bytes(data)
                source = CounterSource(folder, scanner=_NoScan(), capacities=capacities)
                read += _check(source, data, chip)
                path.unlink()
                if number % 10_000 == 0 and number:
                    print(f"{number:,} regions, {time.monotonic() - begun:.0f} s", flush=True)
    except Exception:
        Path("fuzz-failure.bin").write_bytes(data)
        print(f"region {number} of seed {seed} broke it; its bytes are in fuzz-failure.bin")
        raise
    finally:
        child.kill()
        child.wait()
    print(f"{count:,} regions, {read:,} of them read, the others skipped with a line")
    return 0


def _check(source: CounterSource, data: bytes, chip: int) -> bool:
    begun = time.monotonic()
    reading = source.read()
    assert time.monotonic() - begun < SLOWEST_S
    if _sum(reading) != in_use(data, chip):
        # A changed pid may be that of a process which has just ended; that happens once only.
        reading = source.read()
        assert _sum(reading) == in_use(data, chip)
    lines = [remark.text for remark in reading.remarks]
    assert all(line.isprintable() for line in lines)
    assert len(reading.devices) + len(lines) == 1
    for device in reading.devices:
        assert all(remark.text.isprintable() for remark in device.remarks)
    return bool(reading.devices)


def _sum(reading: CounterReading) -> Five | None:
    return tuple(reading.devices[0].in_use) if reading.devices else None
