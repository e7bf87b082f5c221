"""What metrics cost: rendering those of a Galaxy with 64 processes, and being scraped every 15 seconds."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from benchmarks.ground import Failed, amount, wait_until
from benchmarks.ps import full_host
from benchmarks.senders import greeting
from benchmarks.server import running_server, stop
from benchmarks.table import Row
from ttmem.api import snapshot
from ttmem.events import Event, KernelType, MemoryKind, Op
from ttmem.exporters.openmetrics import families, render
from ttmem.snapshots import Snapshot
from ttmem.wire import frames
from ttmem.wire.frames import Frame

DEVICES = 32
PROCESSES = 64
ROUNDS = amount(50, 2)
SCRAPES = amount(20, 2)
IDLE_S = amount(30, 1)
EVERY_S = 15.0


def measure() -> list[Row]:
    """Processor time throughout."""
    with running_server("--no-shm") as path, _processes(path) as picture:
        names = [f"metrics of {DEVICES} devices", f"{PROCESSES} programs"]
        without, lines = _rendering(picture, per_process=False)
        with_them, more = _rendering(_of_different_programs(picture), per_process=True)
        rows = [
            Row(f"{names[0]}, rendered", without, "ms", 10, note=f"{lines:,} series"),
            Row(f"{names[0]}, {names[1]}, rendered", with_them, "ms", 100, note=f"{more:,} series"),
            _scraped("--socket", path, where="of a server"),
            _textfile("--socket", path, where="of a server"),
        ]
    with full_host(DEVICES, PROCESSES) as (folder, _):
        rows.append(_scraped("--shm", folder, where="of shared memory"))
        rows.append(_textfile("--shm", folder, where="of shared memory"))
    return rows


def _of_different_programs(picture: Snapshot) -> Snapshot:
    """Otherwise they are added up to one series for each device and kind."""
    different = (
        replace(process, command=f"python job-{number}.py")
        for number, process in enumerate(picture.processes)
    )
    return replace(picture, processes=tuple(different))


def _rendering(picture: Snapshot, *, per_process: bool) -> tuple[float, int]:
    """Milliseconds, and how many series there are."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        text = render(families(picture, per_process=per_process))
        times.append(1000 * (time.process_time() - begun))
    return median(times), sum(not line.startswith("#") for line in text.splitlines())


@contextmanager
def _processes(path: str) -> Iterator[Snapshot]:
    """Each holds something of each kind on each device."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_hold, args=(path,), daemon=True) for _ in range(PROCESSES)]
    for child in children:
        child.start()
    try:
        wait_until(lambda: _complete(snapshot(path)), "not all report", 0.1)
        yield snapshot(path)
    finally:
        for child in children:
            child.kill()
            child.join()


def _hold(path: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    events = [
        event._replace(device=device).pack()
        for device in range(DEVICES)
        for event in (
            Event(Op.ALLOC, MemoryKind.DRAM, id=1, size=4096, address=4096),
            Event(Op.ALLOC, MemoryKind.L1, id=2, size=2048, address=8192),
            Event(Op.CB_ALLOC, id=3, size=2048),
            Event(Op.KERNEL_LOAD, KernelType.APPLICATION, id=4, size=4096, extra=4, number=16),
        )
    ]
    connection.sendall(greeting(DEVICES) + frames.frame(Frame.EVENTS, b"".join(events)))
    signal.pause()


def _complete(picture: Snapshot) -> bool:
    whole = [process for process in picture.processes if len(process.devices) == DEVICES]
    return len(whole) == PROCESSES


def cpu_s(*pids: int) -> float:
    """Of all threads, to the nanosecond."""
    spent = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                spent += int(file.read().split()[0])
    return spent / 1e9


def _share(once_s: float, idle: float) -> float:
    """Percent of a core."""
    return 100 * (once_s / EVERY_S + idle)


def _scraped(*source: str, where: str) -> Row:
    """/metrics of `ttmem web`: its own time, and what it costs a server, also between scrapes."""
    server = [snapshot(source[1]).host["server"]["pid"]] if source[0] == "--socket" else []
    alone = _idle(*server)
    command = [sys.executable, "-m", "ttmem", "web", *source, "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--interval", "0.1", "--per-process"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as web:
        try:
            assert web.stdout is not None
            address, _, token = web.stdout.readline().decode().strip().partition("/#token=")
            pids = (web.pid, *server)
            ask = _asking(address.removeprefix("http://"), token)
            ask()
            idle = _idle(*pids) - alone
            begun = cpu_s(*pids)
            for _ in range(SCRAPES):
                time.sleep(0.11)  # an answer is kept for 0.1 s
                size = ask()
            once = (cpu_s(*pids) - begun) / SCRAPES
        finally:
            stop(web)
    note = f"{1000 * once:.0f} ms a scrape of {size >> 10} KiB, {100 * idle:.2f} % idle"
    what = f"web, /metrics --per-process {where} scraped every {EVERY_S:.0f} s, of a core"
    return Row(what, _share(once, idle), "%", 1, note=note)


def _asking(where: str, token: str) -> Callable[[], int]:
    def ask() -> int:
        connection = http.client.HTTPConnection(where, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200 or b"ttmem_process_memory_bytes" not in body:
            raise Failed(f"/metrics answered {answer.status}")
        return len(body)

    return ask


def _idle(*pids: int) -> float:
    begun = cpu_s(*pids)
    time.sleep(IDLE_S)
    return (cpu_s(*pids) - begun) / IDLE_S


def _textfile(*source: str, where: str) -> Row:
    """`ttmem metrics --textfile --every`, in its steady state."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ttmem", "metrics", *source, "--per-process"]
        with subprocess.Popen([*command, "--textfile", folder, "--every", "1s"]) as writer:
            try:
                place = os.path.join(folder, "ttmem.prom")
                _renewals(place, 2)
                begun = cpu_s(writer.pid)
                _renewals(place, SCRAPES // 2)
                once = (cpu_s(writer.pid) - begun) / (SCRAPES // 2)
            finally:
                stop(writer)
    note = f"{1000 * once:.0f} ms each time"
    what = f"metrics --textfile --per-process {where} every {EVERY_S:.0f} s, of a core"
    return Row(what, _share(once, 0.0), "%", 1, note=note)


def _renewals(place: str, count: int) -> None:
    """Waits until the file was replaced so many times."""
    for _ in range(count):
        before = _inode(place)
        wait_until(lambda: _inode(place) not in (None, before), "no metrics are written")  # noqa: B023


def _inode(place: str) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
