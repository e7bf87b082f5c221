"""What recording costs a server: the same events, sent as fast as it takes them, with and without it.

`ttmem serve --record` and one `ttmem record` beside a server are measured in two ways, in pairs of runs:

- With a core for the writer: the loop of the server and those who send share one core, so that they saturate it; the
  thread that compresses and writes, and `ttmem record`, have the other. It is what a host with idle cores gives. The
  flight recorder, which is always on, has its limit here.
- Everybody on two cores: compressing takes processor time from those who send. Printed without a limit.

Events that are not in the recording would make it look cheap, so each row says how many were lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.ground import amount, wait_until
from benchmarks.recording import workload_stream
from benchmarks.senders import CHUNK, Senders, greeting
from benchmarks.server import running_server
from benchmarks.table import Row
from ttmem.api import snapshot as take_snapshot
from ttmem.events import EVENT_SIZE
from ttmem.recording import Recording
from ttmem.wire import frames
from ttmem.wire.frames import Frame

SENT = amount(32_000_000, 40_000)  # events of a run
PAIRS = amount(int(os.environ.get("P", "9")), 1)
CLIENTS = 2


class _Sent(NamedTuple):
    """What each client sends."""

    opening: bytes
    chunk: bytes
    events: int  # in a chunk

    @classmethod
    def of(cls, name: str) -> _Sent:
        declared, events = workload_stream(name)
        pieces = (events[at : at + CHUNK] for at in range(0, len(events), CHUNK))
        framed = b"".join(frames.frame(Frame.EVENTS, piece) for piece in pieces)
        return cls(greeting() + declared, framed, len(events) // EVENT_SIZE)


class _Run(NamedTuple):
    seconds: float
    loop: float  # processor time of the loop
    lost: int  # records that are not in the recording


def _loop_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def _pin(pid: int, senders: Senders) -> None:
    """The loop and the senders on one core, the other threads of the server on the other."""
    loop, rest = ({core} for core in sorted(os.sched_getaffinity(0))[:2])
    senders.pin(loop)
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        os.sched_setaffinity(thread, loop if thread == pid else rest)


def _run(sent: _Sent, pinned: bool, *, serve: str = "", beside: str = "") -> _Run:
    repeats = max(1, SENT // sent.events // CLIENTS)
    options = ("--record", serve) if serve else ()
    with running_server(*options) as path, _recorded(path, beside):
        pid = take_snapshot(path).host["server"]["pid"]
        senders = Senders(path, CLIENTS, sent.chunk, repeats, opening=sent.opening)
        if pinned:
            _pin(pid, senders)
        before, begun = _loop_seconds(pid), senders.go()
        senders.sent()

        def accounted() -> bool:
            processes = take_snapshot(path).processes
            return (
                sum(process.position or 0 for process in processes)
                >= CLIENTS * repeats * sent.events
            )

        wait_until(accounted, "the server does not account", 0.002)
        elapsed, after = time.perf_counter() - begun, _loop_seconds(pid)
        senders.end()
    files = [*Path(serve).glob("*.ttmem")] if serve else [Path(beside)] if beside else []
    return _Run(elapsed, after - before, sum(map(_lost, files)))


def _lost(file: Path) -> int:
    with Recording(str(file)) as recording:
        return recording.info().lost


@contextmanager
def _recorded(path: str, file: str) -> Iterator[None]:
    """With one `ttmem record` beside the server, on the core that the loop does not have."""
    if not file:
        yield
        return
    command = [sys.executable, "-m", "ttmem", "record", file, "--socket", path]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as recorder:
        os.sched_setaffinity(recorder.pid, {sorted(os.sched_getaffinity(0))[-1]})
        wait_until(lambda: os.path.exists(file) and os.path.getsize(file) > 0, "nobody records")
        yield
        recorder.send_signal(2)


def _row(name: str, sent: _Sent, pinned: bool, folder: str, how: str) -> Row:
    pairs = []
    for number in range(PAIRS):
        place = os.path.join(folder, f"{pinned:d}-{number}")
        alone = _run(sent, pinned)
        pairs.append((alone, _run(sent, pinned, **{how: place})))
    less = 100 * (1 - median(alone.seconds / recorded.seconds for alone, recorded in pairs))
    more = 100 * (median(recorded.loop / alone.loop for alone, recorded in pairs) - 1)
    rate = median(
        CLIENTS * (SENT // sent.events // CLIENTS) * sent.events / run.seconds for run, _ in pairs
    )
    lost = median(recorded.lost for _, recorded in pairs)
    note = f"{rate / 1e6:.1f} M events/s without; {more:.0f} % more CPU of the loop; {lost:,.0f} records lost"
    title = {"serve": "flight recorder", "beside": "ttmem record beside it"}[how]
    where = "a core for the writer" if pinned else "everybody on two cores"
    limit = 10.0 if pinned and how == "serve" else None
    return Row(f"{title}, {name}, {where}: throughput less", less, "%", limit, note=note)


def measure() -> list[Row]:
    rows = []
    for name in ("transformer", "serving"):
        sent = _Sent.of(name)
        for how in ("serve", "beside"):
            for pinned in (True, False):
                with tempfile.TemporaryDirectory() as folder:
                    rows.append(_row(name, sent, pinned, folder, how))
    return rows
