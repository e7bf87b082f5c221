"""The recent past in memory: bounded, and readable like a file."""

from __future__ import annotations

from random import Random

from ttmem.clock import now_ns
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts
from ttmem.recording import Instant, Recording
from ttmem.recording.memory import PARTS, ChunkMemory, MemoryRecorder, MemorySource
from ttmem.snapshots import DETAILS, Question, to_json

MOST = 512 << 10


def _books() -> tuple[Books, ProcessRecord]:
    books = Books()
    process = books.open_process(
        ProcessFacts(pid=41, start_time_ns=41, user="u", command="python model.py")
    )
    books.declare(process, DeviceDeclaration(0, unique_id="chip0", board="n300"))
    books.define_string(process, 7, "/src/model.py:12 forward")
    return books, process


def _work(books: Books, process: ProcessRecord, first: int, chance: Random) -> None:
    """Buffers of sizes that do not compress, each freed a thousand buffers later."""
    events = b"".join(
        Event(
            *(Op.ALLOC, MemoryKind.DRAM),
            id=number,
            size=chance.randrange(1 << 20),
            address=chance.randrange(1 << 20),
            site=7,
            time=now_ns(),
        ).pack()
        + Event(Op.FREE, MemoryKind.DRAM, id=number - 1000, time=now_ns()).pack()
        for number in range(first, first + 8000)
    )
    books.apply(process, events, 0, len(events), now_ns())


def test_memory_is_bounded_and_what_is_left_equals_what_was_shown() -> None:
    books, process = _books()
    memory, chance = ChunkMemory(MOST), Random(1)
    recorder = MemoryRecorder(books, memory)
    shown = []
    for number in range(20):
        _work(books, process, 1000 + 8000 * number, chance)
        position, now = recorder.position, now_ns()
        recorder.tick(now)
        snapshot = books.snapshot(now)
        shown.append((Instant(position, now, now), to_json(snapshot)))
    recorder.close()

    assert memory.forgotten
    assert memory.end - memory.begin <= MOST + MOST // PARTS
    assert memory.end > 3 * MOST
    with Recording(MemorySource(memory)) as recording:
        info = recording.info()
        assert (info.closed, info.damages, info.lost) == (True, (), 0)
        left = [
            (instant, document) for instant, document in shown if instant.position >= info.first
        ]
        assert 0 < len(left) < 20  # how many depends on how the writer divides them into chunks
        for instant, document in reversed(left):
            assert to_json(recording.snapshot(instant, Question())) == document
        last = recording.at("end", DETAILS)
        assert last.buffers is not None
        assert {buffer.site for buffer in last.buffers} == {"/src/model.py:12 forward"}


def test_a_reader_learns_that_its_beginning_is_gone() -> None:
    memory = ChunkMemory(most=1000)
    chunk = b"\xf7TTM\x01" + bytes(395)  # a FILE chunk, as far as a memory looks at it
    memory.append(chunk)
    source = MemorySource(memory)
    memory.append(chunk)
    assert source.current
    assert source.size() == 800

    memory.append(chunk)

    assert not source.current
    assert source.read(0, 400) == b""
    assert MemorySource(memory).read(300, 200) == chunk[300:] + chunk[:100]


def test_what_is_older_than_the_limit_goes_with_the_next_file() -> None:
    memory = ChunkMemory(age_ns=0)
    chunk = b"\xf7TTM\x01" + bytes(95)

    for _ in range(3):
        memory.append(chunk)

    assert memory.end - memory.begin <= 200


def test_a_past_in_which_nothing_has_happened_yet_is_its_key_frame() -> None:
    books, process = _books()
    _work(books, process, 1000, Random(1))
    memory = ChunkMemory()
    recorder = MemoryRecorder(books, memory)
    now = now_ns()

    recorder.tick(now)

    recorder.close()
    found = Recording(MemorySource(memory)).at("end")
    assert found.devices[0].memory == books.snapshot(now).devices[0].memory
