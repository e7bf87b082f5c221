"""How long a question waits while 16 clients report as fast as they can, and while nobody does."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from benchmarks.ground import amount, wait_until
from benchmarks.senders import Senders, framed_chunk, greeting, historical_chunk
from benchmarks.server import running_server
from benchmarks.table import Row
from ttmem.client.query import ServerConnection
from ttmem.wire.historical import Head, Message, encode

SENDERS = 16
DEVICES = 4
EVENTS = amount(24_000_000, 40_000)
QUESTIONS = amount(300, 3)
FIRSTS = amount(30, 1)
PAUSE_S = 0.005  # between two questions: a monitor is no flood


def _times(ask: Callable[[], object], pause_s: float = PAUSE_S) -> list[float]:
    """Milliseconds, sorted."""
    taken = []
    for _ in range(QUESTIONS):
        begun = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - begun))
        if pause_s:
            time.sleep(pause_s)
    return sorted(taken)


def _first(path: str) -> float:
    """Milliseconds until a new connection has its first answer; which of the record sizes it speaks, nobody knows."""
    begun = time.perf_counter()
    _historical(path)()
    return 1000 * (time.perf_counter() - begun)


def _historical(path: str) -> Callable[[], object]:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    question = encode(144, Head(Message.QUERY))

    def ask() -> None:
        connection.sendall(question)
        answer = b""
        while len(answer) < 144:
            answer += connection.recv(144 - len(answer))

    return ask


def _rows(what: str, taken: list[float], middle: float, worst: float) -> list[Row]:
    p99 = taken[len(taken) * 99 // 100]
    return [
        Row(f"{what}: median", taken[len(taken) // 2], "ms", middle),
        Row(f"{what}: p99", p99, "ms", worst),
    ]


def measure() -> list[Row]:
    """The original answered in 26 us, with 8,000 events a second."""
    chunk, per_chunk = historical_chunk()
    with running_server() as path:
        reporting = Senders(path, 1, chunk[:144], 1)  # one buffer, so that there is a device
        reporting.go()
        reporting.sent()
        first = sorted(_first(path) for _ in range(FIRSTS))
        historical = _historical(path)
        historical()
        idle = _times(historical, 0)  # as the original was measured: without a pause
        reporting.end()
        senders = Senders(path, SENDERS, chunk, max(1, EVENTS // per_chunk // SENDERS))
        senders.go()
        loaded = _times(historical)
        senders.stop()
    return [
        Row("server, a first QUERY, idle: median", first[len(first) // 2], "ms", 10),
        Row("server, a historical QUERY, idle: median", 1000 * idle[len(idle) // 2], "us", 100),
        *_rows(f"server, a historical QUERY, {SENDERS} senders flat out", loaded, 5, 20),
        *_snapshots(),
    ]


def _snapshots() -> list[Row]:
    """What `ps --json` asks for, on an open connection: every sender is a process on all of four devices."""
    chunk, per_chunk = framed_chunk(DEVICES)
    repeats = max(1, EVENTS // per_chunk // SENDERS)
    with running_server() as path, ServerConnection(path) as own:
        senders = Senders(path, SENDERS, chunk, repeats, opening=greeting(DEVICES))
        senders.go()

        def seen() -> tuple[int, int]:
            answer = own.query("snapshot")[0]["snapshot"]
            return len(answer["devices"]), len(answer["processes"])

        wait_until(lambda: seen() == (DEVICES, SENDERS), "not all are seen")
        taken = _times(lambda: own.query("snapshot"))
        senders.stop()
    what = f"server, a snapshot of {DEVICES} devices, {SENDERS} senders flat out"
    return _rows(what, taken, 5, 20)
