"""`python -m benchmarks.large_recording [FILE]`: one recording of 150 million events, 1 GB.

Writes FILE unless it exists, then opens it, seeks in it, and exports it: whole to Parquet, a window of it to the other
formats. Each command is a process of its own, whose processor time and memory are measured. It takes a quarter of an
hour and 3 GB of disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from random import Random

from benchmarks.ground import amount
from benchmarks.recording import BATCH, GAP_NS, new_books, shuffled, workload_events
from benchmarks.table import Row, show
from ttmem.events import EVENT_SIZE
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

EVENTS = amount(150_000_000, 400_000)
TICK = 100_000  # events: a second
WORDS = EVENT_SIZE // 8
AT_AN_INSTANT = ("pprof", "speedscope", "collapsed", "memory-viz")
WINDOWED = ("perfetto", *AT_AN_INSTANT, "visualizer", "csv", "jsonl")


def _batches(start: int) -> Iterator[bytes]:
    """Batches of the serving workload with shuffled addresses, again and again, at times that go on."""
    data = bytearray(shuffled(workload_events("serving")))
    words, count = memoryview(data).cast("Q"), len(data) // EVENT_SIZE
    chance = Random(3)
    offsets = [number * GAP_NS + chance.randrange(GAP_NS) for number in range(count)]
    made = 0
    while made < EVENTS:
        words[1::WORDS] = memoryview(array("Q", map(start.__add__, offsets)))
        for at in range(0, min(count, EVENTS - made), BATCH):
            yield bytes(data[at * EVENT_SIZE : (at + BATCH) * EVENT_SIZE])
        made += count
        start += count * GAP_NS


def write(path: str) -> None:
    start = time.time_ns()
    books, process = new_books()
    recorder = Recorder(books, FileSink(path), described())
    applied = 0
    for data in _batches(start):
        books.apply(process, data, 0, len(data), start + (applied + BATCH) * GAP_NS)
        applied += BATCH
        if applied // TICK > (applied - BATCH) // TICK:
            recorder.tick(start + applied * GAP_NS)
        while not recorder.ready:  # nothing is to be lost
            time.sleep(0.01)
    recorder.close(600)


def _measured(*command: str) -> tuple[float, float]:
    """(processor time in s, largest memory in MiB) of a command."""
    with subprocess.Popen(
        [sys.executable, "-m", "ttmem", *command], stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ttmem {' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(path: str) -> list[Row]:
    rows = []

    def row(what: str, limit: float, *command: str) -> None:
        seconds, memory = _measured(*command)
        rows.append(Row(what, seconds, "s", limit, note=f"{memory:.0f} MiB"))

    size = os.path.getsize(path) / 1e9
    row(f"open {size:.2f} GB and show the end", 1, "ps", path)
    for when in ("10%", "50%", "90%"):
        at = f"{EVENTS * GAP_NS / 1e9 * int(when[:-1]) / 100}s"
        row(f"the state at {when}", 1, "ps", path, "--at", at, "--by", "site")
    row("the peak of L1", 2, "ps", path, "--at", "peak:l1")
    start = EVENTS * GAP_NS / 1e9 / 2
    window = ("--from", f"{start}s", "--until", f"{start + 1}s")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        for form in WINDOWED:
            out = os.path.join(folder, form)
            part = (*window, "--at", f"{start + 0.5}s") if form in AT_AN_INSTANT else window
            row(f"a second of it to {form}", 10, "export", path, "--to", form, "-o", out, *part)
        out = os.path.join(folder, "parquet")
        row("all of it to parquet", 1200, "export", path, "--to", "parquet", "-o", out)
    return rows


def main() -> int:
    path = sys.argv[1] if len(sys.argv) > 1 else "large.ttmem"
    if not os.path.exists(path):
        write(path)
    rows = measure(path)
    print(show(rows))
    return int(any(row.ratio < 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
