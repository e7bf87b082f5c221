"""How long a snapshot takes while half a million events arrive each second."""

from __future__ import annotations

import multiprocessing
import socket
import time
from statistics import median

from benchmarks.ground import amount, wait_until
from benchmarks.senders import greeting
from benchmarks.server import running_server
from benchmarks.table import Row
from ttmem.api import snapshot
from ttmem.events import Event, MemoryKind, Op
from ttmem.wire import frames
from ttmem.wire.frames import Frame

CLIENTS = 8
DEVICES = 32
EVENTS_PER_SECOND = 500_000
LIVE_EACH = 12_500  # 100,000 in all
BATCH = 1000
SNAPSHOTS = amount(40, 2)


def _paced(path: str, seconds: float) -> None:
    """Holds its buffers, and allocates and frees others at a steady rate."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(greeting())
    devices = [{"logical_id": n, "unique_id": str(n), "board": "p150"} for n in range(DEVICES)]
    connection.sendall(b"".join(frames.json_frame(Frame.DEVICE, device) for device in devices))
    held = [
        Event(Op.ALLOC, MemoryKind.DRAM, device=n % DEVICES, id=n, size=4096).pack()
        for n in range(LIVE_EACH)
    ]
    connection.sendall(frames.frame(Frame.EVENTS, b"".join(held)))
    pairs = []
    for n in range(BATCH // 2):
        buffer = Event(Op.ALLOC, MemoryKind.L1, device=n % DEVICES, id=n, size=2048)
        pairs += [buffer.pack(), buffer._replace(op=Op.FREE).pack()]
    batch = frames.frame(Frame.EVENTS, b"".join(pairs))
    pause = BATCH * CLIENTS / EVENTS_PER_SECOND
    due = time.monotonic()
    end = due + seconds
    while due < end:
        connection.sendall(batch)
        due += pause
        time.sleep(max(0.0, due - time.monotonic()))


def measure() -> list[Row]:
    """The round trip that `ttmem ps` makes: asked, answered, decoded."""
    context = multiprocessing.get_context("fork")
    with running_server() as path:
        senders = [
            context.Process(target=_paced, args=(path, 8.0), daemon=True) for _ in range(CLIENTS)
        ]
        for sender in senders:
            sender.start()
        wait_until(lambda: len(snapshot(path).processes) == CLIENTS, "not all report", 0.05)
        times = []
        for _ in range(SNAPSHOTS):
            begun = time.perf_counter()
            picture = snapshot(path)
            times.append(time.perf_counter() - begun)
            time.sleep(0.05)
        for sender in senders:
            sender.kill()
            sender.join()
    what = f"snapshot, {len(picture.devices)} devices, {CLIENTS} clients, 500,000 events/s"
    worst = sorted(times)[-2]
    return [
        Row(
            what,
            1000 * median(times),
            "ms",
            50,
            note=f"second worst of {SNAPSHOTS}: {1000 * worst:.0f} ms",
        )
    ]
