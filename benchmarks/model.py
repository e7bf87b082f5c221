"""The model as a load generator: events per second through the client, opening a Galaxy, dispatch with a full cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from random import Random
from statistics import median

from benchmarks.ground import Failed, amount
from benchmarks.server import running_server
from benchmarks.table import Row
from ttmem.client import AllocationClient, Buffer, GraphTracker
from ttmem.events import MemoryKind
from ttmem.model import MeshDevice, Temporaries, from_shape, open_device, open_mesh_device, ops
from ttmem.model.workloads import SCALES, workload

ROUNDS = amount(5, 1)
PROGRAMS = amount(4096, 16)
STEPS = amount(300, 5)
LAUNCHES = amount(2000, 20)
EVENTS = amount(200_000, 4_000)


@contextmanager
def tracking() -> Iterator[GraphTracker]:
    """A tracker that reports to a real server of its own."""
    with running_server() as path:
        tracker = GraphTracker(AllocationClient(path, queue_limit=1 << 20))
        tracker.enabled = True
        try:
            yield tracker
        finally:
            tracker.client.close()


def workload_rate(name: str, steps: int) -> float:
    """Events per second until the server's socket has taken the last; none may be dropped."""
    with tracking() as tracker:
        found = workload(name)
        begun = time.perf_counter()
        with open_mesh_device(
            found.mesh,
            board=found.board,
            l1_small_size=found.l1_small_size,
            trace_region_size=found.trace_region_size,
            tracker=tracker,
        ) as mesh:
            for _ in islice(found.run(mesh, Random(1), SCALES["medium"]), steps):
                pass
        return _rate(tracker, begun)


def client_rate() -> float:
    """The client's own limit: buffers, with no model behind them."""
    with tracking() as tracker, open_device(tracker=tracker) as mesh:
        buffers = [Buffer(n, 4096, MemoryKind.L1, mesh.target) for n in range(1, 1001)]
        begun = time.perf_counter()
        for _ in range(EVENTS // len(buffers) // 2):
            for buffer in buffers:
                tracker.track_allocate(buffer)
            for buffer in buffers:
                tracker.track_deallocate(buffer)
        return _rate(tracker, begun)


def _rate(tracker: GraphTracker, begun: float) -> float:
    if not tracker.client.flush(60):
        raise Failed("the server does not read")
    seconds = time.perf_counter() - begun
    stats = tracker.client.stats()
    if stats.dropped or stats.resyncs > 1:
        raise Failed(f"events were lost: {stats}")
    return stats.sent / seconds


def opening_time() -> float:
    """Seconds to open 32 chips, with their declarations and system kernels."""
    with tracking() as tracker:
        begun = time.perf_counter()
        mesh = open_mesh_device((8, 4), board="galaxy", tracker=tracker)
        seconds = time.perf_counter() - begun
        mesh.close()
        return seconds


def launch_costs() -> tuple[float, float]:
    """Microseconds of an operation and its free, with 1 and with many cached programs, in turn."""
    with tracking() as tracker:
        few, many = open_device(tracker=tracker), open_device(1, tracker=tracker)
        for number in range(PROGRAMS):
            with Temporaries() as keep:
                shape = (32 * (1 + number % 64), 32 * (1 + number // 64))
                keep(ops.gelu(keep(from_shape(many, shape))))
        tracker.client.flush(60)
        pairs = [(_launch_cost(few), _launch_cost(many)) for _ in range(ROUNDS)]
        return median(one for one, _ in pairs), median(other for _, other in pairs)


def _launch_cost(mesh: MeshDevice) -> float:
    tensor = from_shape(mesh, (32, 32))
    taken = []
    for _ in range(LAUNCHES):
        begun = time.perf_counter_ns()
        ops.gelu(tensor).deallocate()
        taken.append(time.perf_counter_ns() - begun)
    tensor.deallocate()
    return median(taken) / 1000


def measure() -> list[Row]:
    """All figures of the model."""
    limit = median(client_rate() for _ in range(ROUNDS))
    four = median(workload_rate("transformer", STEPS) for _ in range(ROUNDS))
    one = median(workload_rate("serving", STEPS) for _ in range(ROUNDS))
    alone, crowded = launch_costs()
    beside = f"on 1 chip: serving {one:,.0f}/s, the client alone {limit:,.0f}/s"
    note = f"{alone:.1f} us with 1, {crowded:.1f} us with {PROGRAMS:,} cached programs"
    return [
        Row("model, transformer on 4 chips, one process", four, "/s", 50_000, True, beside),
        Row(
            "model, a mesh of 32 chips opens", median(opening_time() for _ in range(ROUNDS)), "s", 1
        ),
        Row(
            "model, a dispatch, 4,096 cached programs against 1", crowded / alone, "x", 2, note=note
        ),
    ]
