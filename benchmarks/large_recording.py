"""`python -m benchmarks.large_recording [FILE]`: one recording of 150 million events, 1 GB.

Writes FILE unless it exists, then opens it, seeks in it, and exports it: whole to Parquet, a window of it to the other
formats. Each command is a process of its own, whose processor time and memory are measured. It takes a quarter of an
hour and 10 GB of disk. --short makes a small one.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from random import Random

from benchmarks.ground import amount
from benchmarks.recording import BATCH, _books, _shuffled, workload_events
from ttmem.events import EVENT_SIZE
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.writer import FileSink

EVENTS = amount(150_000_000, 400_000)
GAP_NS = 10_000  # between two events: 100,000 a second
TICK = 100_000  # events: a second
WORDS = EVENT_SIZE // 8


def _batches(start: int) -> Iterator[bytes]:
    """Batches of the serving workload with shuffled addresses, again and again, at times that go on."""
    data = bytearray(_shuffled(workload_events("serving")))
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
    books, process = _books()
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
