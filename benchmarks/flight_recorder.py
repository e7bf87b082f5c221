"""What `ttmem serve --record` costs: the same events, sent as fast as the server takes them, with and without it."""

from __future__ import annotations

import os
import tempfile
import time
from statistics import median

from benchmarks.ground import amount, wait_until
from benchmarks.recording import workload_events
from benchmarks.senders import CHUNK, Senders, greeting
from benchmarks.server import running_server
from benchmarks.table import Row
from ttmem.api import snapshot as take_snapshot
from ttmem.events import EVENT_SIZE
from ttmem.wire import frames
from ttmem.wire.frames import Frame

SENT = amount(6_000_000, 40_000)  # events of a run
PAIRS = amount(int(os.environ.get("P", "9")), 1)
CLIENTS = 2


def _frames(events: bytes) -> bytes:
    pieces = (events[at : at + CHUNK] for at in range(0, len(events), CHUNK))
    return b"".join(frames.frame(Frame.EVENTS, piece) for piece in pieces)


def _ready(pid: int) -> tuple[float, float]:
    """Seconds for which the loop of a server has run, and for which it waited for a processor."""
    with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
        ran, waited, _ = file.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def _seconds(chunk: bytes, events: int, *options: str) -> tuple[float, float]:
    """(processor time, time) that the loop needed for them.

    The time is that of the clock, without what it spent waiting for a processor that others used. What it spent waiting
    for the interpreter's lock is in it.
    """
    repeats = max(1, SENT // events // CLIENTS)
    with running_server(*options) as path:
        pid = take_snapshot(path).host["server"]["pid"]
        senders = Senders(path, CLIENTS, chunk, repeats, opening=greeting())
        before, begun = _ready(pid), senders.go()
        senders.sent()

        def accounted() -> bool:
            processes = take_snapshot(path).processes
            return sum(one.position or 0 for one in processes) >= CLIENTS * repeats * events

        wait_until(accounted, "the server does not account", 0.002)
        elapsed, after = time.perf_counter() - begun, _ready(pid)
        senders.end()
    return after[0] - before[0], elapsed - (after[1] - before[1])


def measure() -> list[Row]:
    rows = []
    for name in ("transformer", "serving"):
        events = workload_events(name)
        chunk, count = _frames(events), len(events) // EVENT_SIZE
        work, spans = [], []
        for _ in range(PAIRS):
            with tempfile.TemporaryDirectory() as folder:
                record = os.path.join(folder, "ring")
                alone, recorded = (
                    _seconds(chunk, count),
                    _seconds(chunk, count, "--record", record),
                )
            work.append(recorded[0] / alone[0])
            spans.append(alone[1] / recorded[1])
        note = f"{100 * (median(work) - 1):.0f} % more processor time of the loop"
        lost = 100 * (1 - median(spans))
        rows.append(Row(f"flight recorder, {name}: throughput less", lost, "%", 10, note=note))
    return rows
