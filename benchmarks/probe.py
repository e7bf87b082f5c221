"""The probe: what an event costs the application, and how fast a reader takes them."""

from __future__ import annotations

import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests.probe.watched import SOURCES, Watched

from benchmarks.ground import amount
from benchmarks.table import Row
from ttmem.events.record import EVENT_SIZE
from ttmem.probe.layout import Section
from ttmem.sources.probe.region_file import RegionFile
from ttmem.sources.probe.ring import Cursor

TIMING = Path(__file__).with_name("probe_timing.cpp")
PREPARE = "lib.time_events.argtypes = [address, u64, u64, address]\nout = (ctypes.c_double * 2)()\n"
WRITERS, RATE, SECONDS = 16, 50_000, amount(3, 1)
RUNS = amount(5, 1)


def _build(folder: Path) -> Path:
    library = folder / "libtt_metal.so"
    sources = [str(path) for path in (*sorted(SOURCES.glob("*.cpp")), TIMING)]
    command = ["g++", "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{SOURCES}", "-o", str(library)]
    subprocess.run([*command, *sources], check=True)
    return library


def _cost(library: Path, folder: Path, chips: int, **variables: str) -> tuple[float, float]:
    """Median and 99th percentile of one event, the best of several runs: a busy machine only adds."""
    script = PREPARE + (
        f"mesh = lib.mesh_open({chips})\n"
        f"for run in range({RUNS}):\n"
        "    lib.time_events(mesh, 1 + run * 10**6, 500, ctypes.addressof(out))\n"
        "    say(f'{out[0]} {out[1]}')"
    )
    with closing(Watched(library, folder, script, TTMEM_LOG="/dev/null", **variables)) as process:
        text, _ = process.process.communicate(timeout=120)
    runs = [tuple(map(float, line.split())) for line in text.splitlines()]
    return min(median for median, _ in runs), min(p99 for _, p99 in runs)


def _off(library: Path, folder: Path) -> float:
    script = (
        "lib.time_loop.argtypes = [address, u64]; lib.time_loop.restype = ctypes.c_double\n"
        "say(str(lib.time_loop(lib.mesh_open(1), 50)))"
    )
    with closing(
        Watched(library, folder, script, TTMEM_LOG="/dev/null", TTMEM_TRACKING="0")
    ) as process:
        text, _ = process.process.communicate(timeout=120)
    return float(text)


def _drained_per_second(library: Path, folder: Path) -> float:
    script = "mesh = lib.mesh_open(1); lib.churn(mesh, 1, 200000); say('full')\ninput()"
    with closing(Watched(library, folder, script, TTMEM_LOG="/dev/null")) as process:
        process.wait_for("full")
        file = RegionFile(process.region().path)
        head, best = 400_001, 0.0
        for _ in range(RUNS):
            cursor = Cursor(file)
            cursor.ticket = head - file.count(Section.RING)
            before = time.perf_counter()
            events = len(cursor.drain(b"").events) // EVENT_SIZE
            best = max(best, events / (time.perf_counter() - before))
        return best


def _lost_by_writers(library: Path, folder: Path) -> tuple[int, int]:
    """Events missed and seen while sixteen threads write at their rate."""
    script = (
        "lib.steady.argtypes = [address, ctypes.c_int, ctypes.c_double, ctypes.c_double]\n"
        "mesh = lib.mesh_open(1); say('open')\n"
        f"lib.steady(mesh, {WRITERS}, {SECONDS}, {RATE}); say('done')"
    )
    with closing(Watched(library, folder, script, TTMEM_LOG="/dev/null")) as process:
        process.wait_for("open")
        region = process.region()
        batches = []
        while process.process.poll() is None:
            batches.append(region.new_events())
            time.sleep(0.01)
        batches.append(region.new_events())
        seen = sum(len(batch.events) for batch in batches) // EVENT_SIZE
        return sum(batch.lost for batch in batches), seen


def measure() -> list[Row]:
    """All figures of the probe."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        library = _build(folder)
        one, one_p99 = _cost(library, folder, 1, TTMEM_SITES="0")
        mesh, _ = _cost(library, folder, 32, TTMEM_SITES="0")
        sites, sites_p99 = _cost(library, folder, 1)
        off = _off(library, folder)
        speed = _drained_per_second(library, folder)
        lost, seen = _lost_by_writers(library, folder)
    wanted = WRITERS * RATE * SECONDS
    return [
        Row("probe: one event, one chip, median", one, "ns", 250),
        Row("probe: one event, one chip, p99", one_p99, "ns", 2000),
        Row("probe: each further chip of a mesh", max((mesh - one) / 31, 0.1), "ns", 15),
        Row("probe: one event with its call site, median", sites, "ns", 1000),
        Row("probe: one event with its call site, p99", sites_p99, "ns", 2000),
        Row("probe: one event while switched off, in a loop", off, "ns", 25),
        Row("probe: a reader drains", speed, "/s", 2_000_000, at_least=True),
        Row(
            f"probe: {WRITERS} writers at {RATE:,}/s, events seen of those written",
            (seen - 1) / wanted if not lost else 0.0,
            "",
            1,
            at_least=True,
            note=f"{lost} lost",
        ),
    ]
