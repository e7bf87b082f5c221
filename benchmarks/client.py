"""What one event costs the application, while a server drains, while none is there, and when off.

Each call is timed by itself; the cost of the clock is taken off. A call on a mesh of four chips is
four events. The drain is a process of its own, which reads and throws away. Each figure is that of
the quietest of several rounds, because neighbours on the machine make a round twice as slow.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import fmean, median
from time import perf_counter_ns
from typing import Any

from benchmarks.ground import amount
from benchmarks.table import Row, show
from ttmem.client import (
    AllocationClient,
    Buffer,
    Device,
    GraphTracker,
    KernelType,
    MemoryKind,
    MeshDevice,
)
from ttmem.wire.frames import Frame, json_frame, preamble

EVENTS, ROUNDS = amount(50_000, 2_000), amount(7, 1)
LIVE = 1000  # buffers alive at a time
CORES = ((0, 0, 7, 7),)
MEDIAN, P99 = 1.5, 10.0  # microseconds per event
OFF = 150  # nanoseconds: an empty call, and one test

Call = tuple[Callable[[Any], None], Any]  # a function and its argument


def drain(path: str) -> None:
    """A server that welcomes one client and reads as fast as it can."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(preamble() + json_frame(Frame.WELCOME, {}))
            space = bytearray(1 << 18)
            while connection.recv_into(space):
                pass


@contextmanager
def draining(path: str) -> Iterator[None]:
    """Runs `drain` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.client", "--drain", path]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def clock_cost() -> int:
    """Nanoseconds between two readings of the clock with nothing in between."""
    return int(median(-perf_counter_ns() + perf_counter_ns() for _ in range(10_000)))


def timings(calls: list[Call], events_per_call: int) -> list[float]:
    """Microseconds per event of the median round, sorted."""
    rounds = sorted((one_round(calls, events_per_call) for _ in range(ROUNDS)), key=median)
    return rounds[len(rounds) // 2]


def one_round(calls: list[Call], events_per_call: int) -> list[float]:
    """Microseconds per event, sorted."""
    clock, taken = clock_cost(), []
    for call, argument in islice(cycle(calls), EVENTS // events_per_call):
        start = perf_counter_ns()
        call(argument)
        taken.append(perf_counter_ns() - start)
    return sorted(max(0, time - clock) / events_per_call / 1000 for time in taken)


def alternating(allocate: list[Call], free: list[Call]) -> list[Call]:
    """An allocation and a free in turn, half of all being alive."""
    half = len(allocate) // 2
    for call, argument in allocate[:half]:
        call(argument)
    return [*chain.from_iterable(zip(allocate[half:] + allocate[:half], free, strict=True))]


def workloads(tracker: GraphTracker, device: Device | MeshDevice) -> dict[str, list[Call]]:
    """Calls to be made in turn, for each kind of event."""
    numbers = range(1, 2 * LIVE + 1)
    buffers = [
        Buffer(0x7F0000000000 + 64 * i, 4096 * i, MemoryKind.L1, device, address=1 << 20)
        for i in numbers
    ]
    place, remove = tracker.track_allocate_cb, tracker.track_deallocate_cb
    load = tracker.track_kernel_load

    def dispatch(number: int) -> None:
        tracker.track_program_dispatch(number, device, cache_hit=True)

    return {
        "buffer": alternating(
            [(tracker.track_allocate, buffer) for buffer in buffers],
            [(tracker.track_deallocate, buffer) for buffer in buffers],
        ),
        "circular buffer": alternating(  # 8 in each program, 200 addresses in all
            [(partial(place, CORES, i % 200 << 12, 2048, False, device), i // 8) for i in numbers],
            [(partial(remove, device, i % 200 << 12, 2048, CORES), i // 8) for i in numbers],
        ),
        "kernel load": [(partial(load, 57344, i, device, KernelType.FABRIC), 16) for i in numbers],
        "dispatch": [(dispatch, i) for i in numbers],
    }


def rows(name: str, taken: list[float]) -> list[Row]:
    """Median and 99th percentile against their limits, the mean beside them."""
    p99 = taken[len(taken) * 99 // 100]
    note = f"mean {fmean(taken):.2f}, work in the background included"
    return [
        Row(f"{name}: median", median(taken), "us", MEDIAN, note=note),
        Row(f"{name}: p99", p99, "us", P99),
    ]


def measure_draining(path: str, chips: int) -> list[Row]:
    """With a server that reads."""
    found: list[Row] = []
    name = f"client, one event, {chips} chip{'s' * (chips > 1)}"
    device = Device(0) if chips == 1 else MeshDevice(range(chips))
    with draining(path):
        client = AllocationClient(path)
        tracker = GraphTracker(client)
        tracker.enabled = True
        for what, calls in workloads(tracker, device).items():
            client.flush(5)
            found += rows(f"{name}, {what}", timings(calls, chips))
        client.flush(5)
        stats = client.stats()
        client.close()
    share = stats.sent / (stats.sent + stats.dropped)
    return [*found, Row(f"{name}: arrived", share, "of all", 1, at_least=True)]


def measure_alone(path: str) -> list[Row]:
    """With no server, and switched off."""
    logging.getLogger("ttmem.client").setLevel(logging.ERROR)
    tracker = GraphTracker(AllocationClient(path))
    tracker.enabled = True
    calls = workloads(tracker, Device(0))["buffer"]
    found = rows("client, one event, no server", timings(calls, 1))
    tracker.client.close()
    tracker.enabled = False
    off = 1000 * mean_cost(tracker.track_allocate)
    return [*found, Row("client, one event, switched off: mean", off, "ns", OFF)]


def mean_cost(call: Callable[[Buffer], None]) -> float:
    """Microseconds of one call among many: it is too short for a clock around each."""
    buffers = [Buffer(1, 4096, MemoryKind.L1, 0)] * EVENTS
    start = perf_counter_ns()
    for buffer in buffers:
        call(buffer)
    middle = perf_counter_ns()
    for _ in buffers:  # the cost of the loop itself
        pass
    return (2 * middle - start - perf_counter_ns()) / EVENTS / 1000


def measure() -> list[Row]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *measure_draining(f"{folder}/1", 1),
            *measure_draining(f"{folder}/4", 4),
            *measure_alone(f"{folder}/nobody"),
        ]


def main() -> None:
    """Prints them."""
    print(show(measure()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drain"]:
        drain(sys.argv[2])
    else:
        main()
