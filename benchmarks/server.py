"""How many events per second the server accounts, and how long a snapshot takes meanwhile."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks.ground import Failed, amount, wait_until
from benchmarks.senders import Senders, framed_chunk, greeting, historical_chunk
from benchmarks.table import Row
from ttmem.api import snapshot as take_snapshot
from ttmem.snapshots import Snapshot

EVENTS = amount(2_000_000, 40_000)  # per run, over all clients
ROUNDS = amount(3, 1)


@contextmanager
def running_server(*options: str) -> Iterator[str]:
    """A real `ttmem serve`, on a socket of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "server.sock")
        command = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--socket", path, *options]
        with subprocess.Popen(command) as server:
            try:
                wait_until(lambda: answers(path), "the server does not answer")
                yield path
            finally:
                stop(server)


def stop(server: subprocess.Popen[bytes]) -> None:
    """Ends it, one way or the other."""
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()


def answers(path: str) -> bool:
    """Does somebody listen there?"""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@contextmanager
def counting_loop() -> Iterator[str]:
    """The peer: a Python loop that only reads and counts, on the same kind of socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "count.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(64)
        child = os.fork()
        if child == 0:
            try:
                _count(listener)
            finally:
                os._exit(0)
        listener.close()
        try:
            yield path
        finally:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def _count(listener: socket.socket) -> None:
    """Answers with the number of bytes when a connection sends one byte alone."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    open_: dict[int, socket.socket] = {}
    total = 0
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                open_[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
                continue
            data = open_[number].recv(128 << 10)
            if data == b"?":
                open_[number].sendall(total.to_bytes(8, "little"))
            elif data:
                total += len(data)
            else:
                poll.unregister(number)
                open_.pop(number).close()


def _wait_counted(path: str, expected: int) -> None:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(path)

        def counted() -> bool:
            asking.sendall(b"?")
            return int.from_bytes(asking.recv(8), "little") >= expected

        wait_until(counted, "the counting loop does not read", 0)


def _loads(picture: Snapshot) -> int:
    return sum((d.kernels.loads or 0) + (d.kernels.dispatches or 0) for d in picture.devices)


def wait_accounted(path: str, kernel_events: int) -> Snapshot:
    """Until every kernel report is in: each client's come in order, so everything before them is in too."""
    wait_until(
        lambda: _loads(take_snapshot(path)) >= kernel_events, "the server does not account", 0.002
    )
    return take_snapshot(path)


def _check(picture: Snapshot, kernel_events: int, clients: int) -> None:
    device = picture.devices[0]
    exact = (
        len(picture.devices) == 1
        and _loads(picture) == kernel_events
        and device.kernels.loads == 20 * clients
        and device.kernels.footprint.fabric in (20 * clients * 57344, 20 * clients * 917_504)
        and device.l1_used == device.memory.dram.held == device.memory.cb.demand == 0
        and picture.losses.rejected_records == picture.losses.dropped_events == 0
    )
    if not exact:
        raise Failed(f"the server's books are wrong: {picture}")


def _rate(
    clients: int,
    chunk: bytes,
    per_chunk: int,
    *,
    opening: bytes = b"",
    step: int = 0,
    events: int = EVENTS,
) -> float:
    repeats = max(1, events // per_chunk // clients)
    kernel_events = clients * repeats * per_chunk // 5
    with running_server() as path:
        senders = Senders(path, clients, chunk, repeats, opening=opening, step=step)
        begun = senders.go()
        senders.sent()
        picture = wait_accounted(path, kernel_events)
        seconds = time.perf_counter() - begun
        _check(picture, kernel_events, clients)
        senders.end()
    return clients * repeats * per_chunk / seconds


def _count_rate(clients: int, chunk: bytes, per_chunk: int, step: int, events: int) -> float:
    repeats = max(1, events // per_chunk // clients)
    with counting_loop() as path:
        senders = Senders(path, clients, chunk, repeats, step=step)
        begun = senders.go()
        senders.sent()
        _wait_counted(path, clients * repeats * len(chunk))
        seconds = time.perf_counter() - begun
        senders.end()
    return clients * repeats * per_chunk / seconds


def measure() -> list[Row]:
    """All figures of the server."""
    chunk, per_chunk = historical_chunk()
    own, per_own = framed_chunk()
    rows = []
    for clients in (1, 4, 16):
        rate = median(_rate(clients, chunk, per_chunk) for _ in range(ROUNDS))
        rows.append(
            Row(
                f"server, 144-byte records, 64 KiB writes, {clients} clients", rate, "/s", 1e6, True
            )
        )
    for clients in (1, 4, 16):
        few = EVENTS // 4
        pairs = [
            (
                _rate(clients, chunk, per_chunk, step=144, events=few),
                _count_rate(clients, chunk, per_chunk, 144, few),
            )
            for _ in range(ROUNDS)
        ]
        share = median(mine / peer for mine, peer in pairs)
        note = f"{median(mine for mine, _ in pairs):,.0f} events/s"
        rows.append(
            Row(
                f"server, one send per record, {clients} clients, of a counting loop",
                share,
                "",
                0.7,
                True,
                note,
            )
        )
    for clients in (1, 4, 16):
        rate = median(_rate(clients, own, per_own, opening=greeting()) for _ in range(ROUNDS))
        rows.append(Row(f"server, own framing, {clients} clients", rate, "/s", 1.5e6, True))
    return rows
