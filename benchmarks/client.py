"""What one event costs the application, while a server drains, while none is there, and when off.

Each call is timed by itself; the clock's own cost is taken off. A call on a mesh of four chips is four
events. The drain is a process of its own, which reads and throws away.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from time import perf_counter_ns

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

Call = Callable[[int], None]


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
    """Microseconds per event, sorted; call i % len(calls) gets i // len(calls)."""
    clock, taken = clock_cost(), []
    for number in range(EVENTS // events_per_call // len(calls)):
        for call in calls:
            start = perf_counter_ns()
            call(number)
            taken.append(perf_counter_ns() - start)
    return sorted(max(0, time - clock) / events_per_call / 1000 for time in taken)


def buffer_calls(tracker: GraphTracker, device: Device | MeshDevice) -> list[Call]:
    """An allocation and a free in turn, over a ring of live buffers."""
    buffers = [
        Buffer(0x7F0000000000 + 64 * i, 4096 * (i + 1), MemoryKind.L1, device, address=1 << 20)
        for i in range(2 * LIVE)
    ]
    allocate, free = tracker.track_allocate, tracker.track_deallocate
    for buffer in buffers[:LIVE]:
        allocate(buffer)
    return [
        lambda i: allocate(buffers[(i + LIVE) % len(buffers)]),
        lambda i: free(buffers[i % len(buffers)]),
    ]


def program_calls(tracker: GraphTracker, device: Device | MeshDevice) -> dict[str, list[Call]]:
    """The other events, each kind by itself."""
    kind = KernelType.APPLICATION
    return {
        "circular buffer": [
            lambda i: tracker.track_allocate_cb(CORES, 4096 * i, 2048, False, device, i % 64 + 1),
            lambda i: tracker.track_deallocate_cb(device, 4096 * i, 2048, CORES, i % 64 + 1),
        ],
        "kernel load": [
            lambda i: tracker.track_kernel_load(57344, i % 5000 + 1, device, kind, 16),
        ],
        "dispatch": [
            lambda i: tracker.track_program_dispatch(i % 64 + 1, device, cache_hit=True),
        ],
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
            calls = buffer_calls(tracker, device)
            client.flush(5)
            figures |= summary(f"{name}, buffer", timings(calls, chips))
            for what, others in program_calls(tracker, device).items():
                figures |= summary(f"{name}, {what}", timings(others, chips))
            client.flush(5)
            figures[f"{name}: dropped events"] = client.stats().dropped
            client.close()
    return figures


def measure_alone(folder: str) -> dict[str, float]:
    """With no server, and switched off."""
    tracker = GraphTracker(AllocationClient(os.path.join(folder, "nobody.sock")))
    tracker.enabled = True
    figures = summary("no server, buffer", timings(buffer_calls(tracker, Device(0)), 1))
    tracker.enabled = False
    off = timings(buffer_calls(tracker, Device(0)), 1)
    tracker.client.close()
    return figures | {"off: median": median(off)}


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
