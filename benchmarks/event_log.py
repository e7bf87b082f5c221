"""How many lines per second `serve --log-events` prints, against a server that prints as the original did."""

from __future__ import annotations

import os
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


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rates(command: list[str], folder: Path, clients: int, lines: int) -> tuple[float, float]:
    """Lines per second, from the first record on until every line is in a file; and per second of the server's CPU.

    One send per record, as the original client does.
    """
    chunk, per_chunk = historical_chunk()
    repeats = max(1, lines // per_chunk // clients)
    expected = clients * repeats * per_chunk
    path, printed = folder / "log.sock", folder / "lines"
    with printed.open("wb") as output:
        server = subprocess.Popen([*command, str(path)], stdout=output)
    try:
        wait_until(lambda: answers(str(path)), "the server does not answer")
        senders = Senders(str(path), clients, chunk, repeats, step=144)
        busy = _cpu_seconds(server.pid)
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
            busy = _cpu_seconds(server.pid) - busy
            if count != expected:
                raise Failed(f"{count:,} lines for {expected:,} events")
        senders.end()
    finally:
        stop(server)
        path.unlink(missing_ok=True)
    return expected / seconds, expected / max(busy, 0.01)


def measure() -> list[Row]:
    """For 1, 4 and 16 clients: lines per second, and how many times those of the peer."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = str(folder / "printing_server")
        subprocess.run(["g++", "-std=c++17", "-O2", "-pthread", "-o", peer, str(PEER)], check=True)
        mine = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--log-dispatches", "--socket"]
        for clients in (1, 4, 16):
            runs = [
                (
                    _rates(mine, folder, clients, LINES),
                    _rates([peer], folder, clients, PEER_LINES)[0],
                )
                for _ in range(ROUNDS)
            ]
            rate = median(own for (own, _), _ in runs)
            times = median(own / other for (own, _), other in runs)
            busy = f"{median(of_cpu for (_, of_cpu), _ in runs):,.0f} per second of its CPU"
            what = f"server, --log-dispatches, {clients} clients"
            rows.append(Row(f"{what}, lines", rate, "/s", 200_000, True, busy))
            rows.append(Row(f"{what}, of a printing server", times, "x", 1, True))
    return rows
