"""What open pages cost the accounting: events per second with 100 pages open beside none.

- With a core for the pages: the server and those who send share one core, so that they saturate it; the process that
  serves HTTP and its readers have the other. This has the limit. It is what a host with idle cores gives.
- Everybody on two cores: serving and reading pages take processor time from those who send. Printed without a limit.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median

from benchmarks.ground import Failed, amount, wait_until
from benchmarks.metrics import cpu_s
from benchmarks.senders import Senders, framed_chunk, greeting
from benchmarks.server import running_server, wait_accounted
from benchmarks.table import Row
from ttmem.api import snapshot

PAGES = amount(100, 3)
EVENTS = amount(24_000_000, 40_000)
ROUNDS = amount(5, 1)
CLIENTS = 4
KEEPS_PAST_S = amount(
    4, 1
)  # until the process that serves HTTP records the past, with and without pages


def measure() -> list[Row]:
    return [_row(pinned) for pinned in (True, False)]


def _row(pinned: bool) -> Row:
    """In turns, each with a server of its own and a page process beside it, with and without readers."""
    pairs = [(_run(PAGES, pinned), _run(0, pinned)) for _ in range(ROUNDS)]
    share = median(with_pages[0] / without[0] for with_pages, without in pairs)
    note = f"{median(run[0] for run, _ in pairs):,.0f} and {median(run[0] for _, run in pairs):,.0f} events/s"
    cost = median(one[1] / other[1] for one, other in pairs)
    note += f"; the server's own processor time per event x {cost:.2f}"
    where = "a core for them" if pinned else "everybody on two cores"
    what = f"ingest with {PAGES} open pages, {where}, of that with none"
    return Row(what, share, "", 0.95 if pinned else None, True, note)


def _run(pages: int, pinned: bool) -> tuple[float, float]:
    """Events per second, and the server's processor time per event in nanoseconds."""
    chunk, per_chunk = framed_chunk()
    repeats = max(1, EVENTS // per_chunk // CLIENTS)
    events = CLIENTS * repeats * per_chunk
    with running_server("--no-shm", "--http", f"127.0.0.1:{_free_port()}") as path:
        server = snapshot(path).host["server"]["pid"]
        with _open_pages(path, pages) if pages else nullcontext():
            time.sleep(KEEPS_PAST_S)
            senders = Senders(path, CLIENTS, chunk, repeats, opening=greeting())
            if pinned:
                _pin(server, senders)
            spent = cpu_s(server)
            begun = senders.go()
            senders.sent()
            wait_accounted(path, events // 5)
            seconds = time.perf_counter() - begun
            spent = cpu_s(server) - spent
            senders.end()
    return events / seconds, 1e9 * spent / events


def _pin(server: int, senders: Senders) -> None:
    """The server and the senders on one core; the other descendants of server and benchmark on the other."""
    accounting, others = ({core} for core in sorted(os.sched_getaffinity(0))[:2])
    beside = [*_children(server), *_children(os.getpid())]
    for pid in beside:
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            os.sched_setaffinity(thread, others)
    for thread in map(int, os.listdir(f"/proc/{server}/task")):
        os.sched_setaffinity(thread, accounting)
    senders.pin(accounting)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _open_pages(path: str, count: int) -> Iterator[None]:
    """Streams as browsers open them, read by a process of their own."""
    where, token = _link(path)
    reader = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pages", where, token, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert reader.stdout is not None
        if reader.stdout.readline() != b"open\n":
            raise Failed("the pages do not open")
        yield
    finally:
        reader.kill()
        reader.communicate()


def _link(path: str) -> tuple[str, str]:
    found: list[str] = []

    def asked() -> bool:
        command = [sys.executable, "-m", "ttmem", "web", "--link", "--socket", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found.append(done.stdout.strip())
        return done.returncode == 0

    wait_until(asked, "the server hands out no link", 0.2)
    where, _, token = found[-1].partition("/#token=")
    return where.removeprefix("http://"), token


def read_pages(where: str, token: str, count: int) -> None:
    """Opens so many streams, says so when each has had its first snapshot, and reads for ever."""
    host, _, port = where.rpartition(":")
    ask = f"GET /api/v1/events HTTP/1.1\r\nHost: {where}\r\nAuthorization: Bearer {token}\r\n\r\n"
    waiting = selectors.DefaultSelector()
    for _ in range(count):
        page = socket.create_connection((host, int(port)), timeout=30)
        page.sendall(ask.encode())
        waiting.register(page, selectors.EVENT_READ)
    silent = set(waiting.get_map())
    while True:
        for key, _ in waiting.select():
            data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
            if b"event: snapshot" in data and key.fd in silent:
                silent.discard(key.fd)
                if not silent:
                    print("open", flush=True)
            elif not data:
                raise SystemExit("a page was closed")


if __name__ == "__main__":
    threading.Thread(target=lambda: sys.exit(sys.stdin.read()), daemon=True).start()
    read_pages(sys.argv[1], sys.argv[2], int(sys.argv[3]))
