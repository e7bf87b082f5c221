"""Recordings: bytes per event, events written and read per second, and what a seek costs, all in processor time."""

from __future__ import annotations

import os
import tempfile
import time
from itertools import cycle
from random import Random

from benchmarks.ground import amount
from benchmarks.table import Row
from ttmem.client import AllocationClient, GraphTracker
from ttmem.events import EVENT_SIZE, Event, Op
from ttmem.feeds import RecordingFeed
from ttmem.ledger import Books, ProcessRecord
from ttmem.model import open_mesh_device
from ttmem.model.workloads import SCALES
from ttmem.model.workloads import workload as find_workload
from ttmem.procfs import process_facts
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.replay import Replay
from ttmem.views.monitor.live_data import Choice, LiveData, Reading
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.timeline import Timeline

EVENTS = amount(300_000, 20_000)
RECORDED = amount(3_000_000, 40_000)
BATCH = 2048  # events that arrive together
SEEKS = amount(20, 2)
SOUGHT = amount(10_000_000, 40_000)  # events of the recording in which the monitor seeks
GAP_NS = 10_000  # between two events: 100,000 a second
U32 = 0xFFFFFFFF


class _Collector(AllocationClient):
    """Keeps what it would send."""

    def _ensure_sender(self) -> None:
        pass

    def take(self) -> bytes:
        while self._outbox.absorb():
            pass
        return b"".join(self._outbox.take())


def workload_events(name: str) -> bytes:
    """The first events of a workload of the model, in the order in which they were reported."""
    return workload_stream(name)[1]


def workload_stream(name: str) -> tuple[bytes, bytes]:
    """The same with the frames that declare its devices, names and core sets: (frames, events)."""
    client = _Collector("/nonexistent", queue_limit=1 << 30)
    workload = find_workload(name)
    tracker = GraphTracker(client)
    tracker.enabled = True
    mesh = open_mesh_device(
        workload.mesh,
        board=workload.board,
        l1_small_size=workload.l1_small_size,
        trace_region_size=workload.trace_region_size,
        tracker=tracker,
    )
    steps = workload.run(mesh, Random(1), SCALES["large"])
    data = bytearray()
    while len(data) < EVENTS * EVENT_SIZE and next(steps, steps) is not steps:
        data += client.take()
    return b"".join(client._outbox.declarations.start()), bytes(data[: EVENTS * EVENT_SIZE])


def shuffled(data: bytes) -> bytes:
    """The same with addresses and ids that follow no order."""
    chance, names = Random(2), dict[int, int]()
    out = bytearray()
    for at in range(0, len(data), EVENT_SIZE):
        event = Event.unpack(data, at)
        if event.op in (Op.ALLOC, Op.FREE):
            place = names.setdefault(event.id, chance.getrandbits(28) << 5)
            event = event._replace(id=place, address=place if event.op == Op.ALLOC else 0)
        out += event.pack()
    return bytes(out)


def _timed(data: bytes, start: int) -> bytes:
    """One event each 10 microseconds, give or take."""
    chance = Random(3)
    out = bytearray(data)
    words = memoryview(out).cast("Q")
    for number in range(len(data) // EVENT_SIZE):
        words[number * 8 + 1] = start + number * GAP_NS + chance.randrange(GAP_NS)
    words.release()
    return bytes(out)


def new_books() -> tuple[Books, ProcessRecord]:
    books = Books()
    return books, books.open_process(process_facts(os.getpid()))


def _apply(books: Books, process: ProcessRecord, data: bytes, count: int) -> float:
    """Processor time of this process, threads included."""
    step = BATCH * EVENT_SIZE
    batches = cycle(range(0, len(data) - step + 1, step))
    now = time.time_ns()
    begun = time.process_time()
    for _ in range(count // BATCH):
        at = next(batches)
        books.apply(process, data[at : at + step], 0, step, now)
    return time.process_time() - begun


def _record(data: bytes, path: str, count: int) -> tuple[float, Recorder]:
    """Processor time that recording adds to accounting; the recorder is closed."""
    plain, process = new_books()
    alone = _apply(plain, process, data, count)
    books, process = new_books()
    sink = FileSink(path, overwrite=True)
    recorder = Recorder(books, sink, described(), budget=1 << 30)  # nothing is to be lost
    begun = time.process_time()
    _apply(books, process, data, count)
    recorder.close()
    return time.process_time() - begun - alone, recorder


def _size(name: str, data: bytes, folder: str, limit: float) -> list[Row]:
    path = os.path.join(folder, f"{name}.ttmem")
    _record(data, path, len(data) // EVENT_SIZE)
    with Recording(path) as recording:
        info = recording.info()
        events = sum(len(batch.events) for batch in recording.batches()) // EVENT_SIZE
        frames = info.bytes_by_type["state"]
    note = f"key frames: {100 * frames / info.bytes:.1f} % of the file"
    return [
        Row(
            f"{name}, in a file",
            info.bytes_by_type["records"] / events,
            "B/event",
            limit,
            note=note,
        )
    ]


def measure() -> list[Row]:
    start = time.time_ns()
    streams = {name: _timed(workload_events(name), start) for name in ("transformer", "serving")}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in streams.items():
            rows += _size(name, data, folder, 8)
            rows += _size(f"{name}, shuffled addresses", shuffled(data), folder, 10)
        path = os.path.join(folder, "long.ttmem")
        seconds, recorder = _record(streams["serving"], path, RECORDED)
        written = recorder.written()
        note = f"{written.lost:,} lost"
        rows.append(Row("written", written.records / seconds, "events/s", 3e6, True, note))
        rows += _reading(path)
        _record(streams["serving"], path, SOUGHT)
        rows += [_seeking(path, page) for page in ("Overview", "Device", "Buffers", "Events")]
    return rows


def _seeking(path: str, page: str) -> Row:
    """From the key that goes to an instant to the screen that shows it, as in `ttmem top FILE`."""
    feed = RecordingFeed(path)
    watch = LiveData(Choice())
    names = [page.name for page in PAGES]
    timeline = Timeline.of(feed)
    monitor = Monitor(lambda: feed.name, watch, PAGES, page=names.index(page), timeline=timeline)
    end = feed.recording.info().end
    chance, taken = Random(5), []
    for _ in range(SEEKS + 2):  # the first two bring what a page needs to ask its question
        for key in ("g", *f"#{chance.randrange(end)}"):
            monitor.press(key)
        begun = time.process_time()
        monitor.press("enter")
        question = monitor.question()
        snapshot = feed.read(question.detail, device=question.device, limit=question.limit)
        watch.take([Reading(question, time.monotonic(), snapshot)])
        monitor.screen(120, 40)
        taken.append(time.process_time() - begun)
    feed.close()
    taken = sorted(taken[2:])
    note = f"median {1000 * taken[len(taken) // 2]:.0f} ms; {end:,} records"
    return Row(f"seek in the monitor, {page}, at most", 1000 * taken[-1], "ms", 200, note=note)


def _reading(path: str) -> list[Row]:
    with Recording(path) as recording:
        begun = time.process_time()
        read = sum(len(data) for _, data in recording.records()) // EVENT_SIZE
        reading = time.process_time() - begun
        end = recording.info().end
        chance, taken = Random(4), []
        for _ in range(SEEKS):
            replay = Replay(recording._chunks, recording.records)
            begun = time.process_time()
            replay.go_to(chance.randrange(end))
            taken.append(time.process_time() - begun)
    return [
        Row("read", read / reading, "events/s", 5e6, True),
        Row("seek to any event, at most", 1000 * max(taken), "ms", 200, note=f"{read:,} events"),
    ]
