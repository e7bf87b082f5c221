"""How many lines per second `serve --log-events` prints, against a server that prints as the original did."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.ground import Failed, amount, wait_until
from benchmarks.senders import Senders, historical_chunk
from benchmarks.server import answers, stop
from benchmarks.table import Row

LINES = amount(400_000, 4_000)
PEER_LINES = amount(40_000, 2_000)  # it prints a tenth as many in the same time
ROUNDS = amount(3, 1)
PEER = Path(__file__).with_name("printing_server.cpp")


def _rate(command: list[str], folder: Path, clients: int, lines: int) -> float:
    """Lines per second, from the first record on until every line is in a file; one send per record."""
    chunk, per_chunk = historical_chunk()
    repeats = max(1, lines // per_chunk // clients)
    expected = clients * repeats * per_chunk
    path, printed = folder / "log.sock", folder / "lines"
    with printed.open("wb") as output:
        server = subprocess.Popen([*command, str(path)], stdout=output)
    try:
        wait_until(lambda: answers(str(path)), "the server does not answer")
        senders = Senders(str(path), clients, chunk, repeats, step=144)
        begun = senders.go()
        count = 0
        with printed.open("rb") as file:

            def all_there() -> bool:
                nonlocal count
                count += file.read().count(b"\n")
                return count >= expected

            senders.sent()
            wait_until(all_there, "lines are missing", 0.002)
            seconds = time.perf_counter() - begun
            if count != expected:
                raise Failed(f"{count:,} lines for {expected:,} events")
        senders.end()
    finally:
        stop(server)
        path.unlink(missing_ok=True)
    return expected / seconds


def measure() -> list[Row]:
    """For 1, 4 and 16 clients: lines per second, and how many times those of the peer."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = str(folder / "printing_server")
        subprocess.run(["g++", "-std=c++17", "-O2", "-pthread", "-o", peer, str(PEER)], check=True)
        mine = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--log-dispatches", "--socket"]
        for clients in (1, 4, 16):
            pairs = [
                (
                    _rate(mine, folder, clients, LINES),
                    _rate([peer], folder, clients, PEER_LINES),
                )
                for _ in range(ROUNDS)
            ]
            rate = median(own for own, _ in pairs)
            times = median(own / other for own, other in pairs)
            what = f"server, --log-dispatches, {clients} clients"
            rows.append(Row(f"{what}, lines", rate, "/s", 200_000, True))
            rows.append(Row(f"{what}, of a printing server", times, "x", 1, True))
    return rows
