"""What one event costs the application, while a server drains, while none is there, and when off.

Each call is timed by itself; the cost of the clock is taken off. A call on a mesh of four chips is
four events. The drain is a process of its own, which reads and throws away.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, cycle, islice
from statistics import fmean, median
from time import perf_counter_ns
from typing import Any

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

EVENTS = 200_000
LIVE = 1000  # buffers alive at a time
CORES = ((0, 0, 7, 7),)
TARGET_MEDIAN, TARGET_P99 = 1.5, 10.0  # microseconds per event

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
    command = [sys.executable, __file__, "--drain", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
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
    load, dispatch = tracker.track_kernel_load, tracker.track_program_dispatch
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
        "dispatch": [(partial(dispatch, i, cache_hit=True), device) for i in numbers],
    }


def summary(name: str, taken: list[float]) -> dict[str, float]:
    """Median, 99th percentile and mean."""
    return {
        f"{name}: median": median(taken),
        f"{name}: p99": taken[len(taken) * 99 // 100],
        f"{name}: mean": fmean(taken),
    }


def measure_draining(folder: str) -> dict[str, float]:
    """With a server that reads."""
    figures: dict[str, float] = {}
    for chips in (1, 4):
        path = os.path.join(folder, f"drain{chips}.sock")
        device = Device(0) if chips == 1 else MeshDevice(range(chips))
        name = f"{chips} chip{'s' * (chips > 1)}"
        with draining(path):
            client = AllocationClient(path)
            tracker = GraphTracker(client)
            tracker.enabled = True
            for what, calls in workloads(tracker, device).items():
                client.flush(5)
                figures |= summary(f"{name}, {what}", timings(calls, chips))
            client.flush(5)
            figures[f"{name}: dropped events"] = client.stats().dropped
            client.close()
    return figures


def measure_alone(folder: str) -> dict[str, float]:
    """With no server, and switched off."""
    tracker = GraphTracker(AllocationClient(os.path.join(folder, "nobody.sock")))
    tracker.enabled = True
    calls = workloads(tracker, Device(0))["buffer"]
    figures = summary("no server, buffer", timings(calls, 1))
    tracker.client.close()
    tracker.enabled = False
    return figures | {"off, buffer: mean": mean_cost(tracker.track_allocate)}


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


def measure() -> dict[str, float]:
    """All figures, in microseconds per event."""
    with tempfile.TemporaryDirectory() as folder:
        return measure_draining(folder) | measure_alone(folder)


def main() -> None:
    """Prints them as a table."""
    for name, figure in measure().items():
        print(f"{name:36}{figure:10.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drain"]:
        drain(sys.argv[2])
    else:
        main()
