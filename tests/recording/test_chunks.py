"""The container: what was written is read back, and what is damaged costs no more than itself."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.own_process import ran
from tests.patience import wait_until
from ttmem._native import transposed
from ttmem.errors import BadInput, TtmemError
from ttmem.events import EVENT_SIZE, Control, Event
from ttmem.recording import Recording
from ttmem.recording.chunks import Chunks, FileSource
from ttmem.recording.files import FileSink
from ttmem.recording.format import (
    CHUNK_RECORDS,
    HEADER_SIZE,
    MAX_RAW,
    BadChunk,
    ChunkType,
    Header,
    decode,
    encode,
    encode_long,
    from_document,
)
from ttmem.recording.writer import Writer

STREAM = 0x1234_5678_9ABC_DEF0
SECOND = 1_000_000_000


def _records(count: int, start: int = 0, seed: int = 0) -> bytes:
    """Control records, which stand alone."""
    chance = random.Random(seed)
    return b"".join(
        Event(
            Control.RESET_PEAK, time=number, id=chance.getrandbits(40), size=chance.getrandbits(20)
        ).pack()
        for number in range(start, start + count)
    )


def _chunk(records: bytes, stream: int, position: int, first: int = 0, last: int = 0) -> bytes:
    """Whatever the records are."""
    return encode(
        ChunkType.RECORDS,
        transposed(records, EVENT_SIZE),
        stream,
        position=position,
        records=len(records) // EVENT_SIZE,
        first=first,
        last=last,
    )


def _writer(path: Path, *, position: int = 0, budget: int = 64 << 20) -> Writer:
    writer = Writer(
        FileSink(str(path)),
        stream=STREAM,
        started_ns=SECOND,
        position=position,
        budget=budget,
    )
    writer.document(ChunkType.FILE, {"host": "here"}, 0)
    return writer


def _file(path: Path, *chunks: bytes) -> Path:
    path.write_bytes(b"".join(chunks))
    return path


def _three_chunks() -> list[bytes]:
    """A description and three chunks of 10 records."""
    described = encode(ChunkType.FILE, from_document({"host": "here"}), STREAM)
    return [described] + [
        _chunk(_records(10, at), STREAM, at, SECOND + at, SECOND + at + 9) for at in (0, 10, 20)
    ]


def _read(path: Path) -> tuple[list[tuple[int, int]], Chunks]:
    """(position, number of records) of each chunk that can be read."""
    with Recording(str(path)) as recording:
        found = [(at, len(data) // EVENT_SIZE) for at, data in recording.records()]
        return found, recording._chunks


@given(st.binary(max_size=50 * EVENT_SIZE), st.integers(0, 1 << 40))
def test_a_chunk_comes_back_as_it_was_written(data: bytes, position: int) -> None:
    records = data[: len(data) // EVENT_SIZE * EVENT_SIZE]
    chunk = _chunk(records, STREAM, position, 5, 9)

    header = Header.unpack(chunk[:HEADER_SIZE])

    assert decode(header, chunk[HEADER_SIZE:]) == records
    assert (header.position, header.end - header.position) == (
        position,
        len(records) // EVENT_SIZE,
    )


def test_what_is_written_is_read_back_in_chunks(tmp_path: Path) -> None:
    data = _records(2 * CHUNK_RECORDS + 100)
    writer = _writer(tmp_path / "a.ttmem")
    for at in range(0, len(data), 8 * EVENT_SIZE):
        writer.records(data[at : at + 8 * EVENT_SIZE])

    written = writer.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        assert b"".join(part for _, part in recording.records()) == data
        assert recording.info().recorded == {"host": "here"}
        assert (written.records, written.lost) == (recording.info().end, 0)
        between = recording.records(CHUNK_RECORDS - 1, CHUNK_RECORDS + 1)
        expected = data[(CHUNK_RECORDS - 1) * EVENT_SIZE : (CHUNK_RECORDS + 1) * EVENT_SIZE]
        assert b"".join(part for _, part in between) == expected


def test_the_size_of_a_key_frame_is_that_of_all_its_chunks(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "a.ttmem")
    writer.payload(ChunkType.STATE, os.urandom(MAX_RAW + 64), SECOND)

    written = writer.close()

    assert written.state_bytes == MAX_RAW + 64 + 2 * HEADER_SIZE
    assert written.bytes_since == 0


def test_a_file_is_for_its_user_only_and_is_never_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    _writer(path).close()

    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadInput, match="exists; --overwrite replaces it"):
        FileSink(str(path))
    FileSink(str(path), overwrite=True).close()
    assert path.stat().st_size == 0


def test_two_writers_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    writer = _writer(path)

    with pytest.raises(BadInput, match="is being written by another process"):
        FileSink(str(path), overwrite=True)

    writer.close()
    assert _read(path)[1].count(ChunkType.FILE) == 1


def test_a_link_is_not_followed_when_a_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / "link.ttmem").symlink_to(target)
    os.link(target, tmp_path / "name.ttmem")

    for name in ("link.ttmem", "name.ttmem"):
        with pytest.raises(TtmemError):
            FileSink(str(tmp_path / name), overwrite=True)

    assert target.read_text() == "kept"


def test_records_are_in_the_file_within_a_second_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    writer = _writer(path)
    wait_until(lambda: path.stat().st_size > 0)

    with Recording(str(path)) as recording:
        writer.records(_records(3))
        wait_until(lambda: recording.refresh() and recording.info().end == 3)
        writer.records(_records(4, 3))
        wait_until(lambda: recording.refresh() and recording.info().end == 7)

    writer.close()


def test_a_killed_writer_leaves_a_file_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    code = (
        "import sys, time; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.recording.test_chunks import _records, _writer\n"
        f"writer = _writer(Path({str(path)!r}))\n"
        "for number in range(10**9):\n"
        "    writer.records(_records(100, 100 * number)); time.sleep(0.001)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    wait_until(lambda: path.exists() and path.stat().st_size > 30_000)
    child.kill()
    child.wait()

    found, chunks = _read(path)

    assert chunks.damages == []
    assert sum(count for _, count in found) == chunks.end > 0


def test_a_file_cut_off_at_any_byte_keeps_all_chunks_before_it(tmp_path: Path) -> None:
    parts = _three_chunks()
    whole = b"".join(parts)
    ends = [sum(map(len, parts[: number + 1])) for number in range(len(parts))]

    for size in range(1, len(whole) + 1):
        path = _file(tmp_path / "cut.ttmem", whole[:size])
        found, chunks = _read(path)
        complete = sum(end <= size for end in ends)
        assert found == [(0, 10), (10, 10), (20, 10)][: max(0, complete - 1)]
        assert (chunks.tail is None) == (size in ends)


def test_any_flipped_bit_costs_one_chunk_and_is_noticed(tmp_path: Path) -> None:
    parts = _three_chunks()
    whole = b"".join(parts)
    begins = [sum(map(len, parts[:number])) for number in range(len(parts))]
    everything = [(0, 10), (10, 10), (20, 10)]

    for at in range(4, len(whole)):  # without its first bytes it is no recording
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        path = _file(tmp_path / "bit.ttmem", bytes(damaged))
        with Recording(str(path)) as recording:
            hit = sum(begin <= at for begin in begins) - 1
            assert len(recording.verify()) + (recording.info().tail is not None) >= 1, at
            found = [(at, len(data) // EVENT_SIZE) for at, data in recording.records()]
            assert found == [
                entry for number, entry in enumerate(everything, 1) if number != hit
            ], at


def test_after_a_damage_no_chunk_inside_a_payload_is_believed(tmp_path: Path) -> None:
    parts = _three_chunks()
    forged = _chunk(_records(10, 500), STREAM ^ 1, 10)
    noise = random.Random(1).randbytes(len(forged) * 20)  # keeps zstd from compressing it
    hidden = encode(ChunkType.MARKS, noise + forged, STREAM, position=10)
    whole = bytearray(b"".join([parts[0], parts[1], hidden, parts[3]]))
    whole[len(parts[0]) + len(parts[1]) + 20] ^= 1  # in the header of the payload that hides it

    found, chunks = _read(_file(tmp_path / "a.ttmem", bytes(whole)))

    assert found == [(0, 10), (20, 10)]
    assert [damage.text for damage in chunks.damages] == ["its header was modified"]


def test_unknown_types_and_later_versions_of_a_chunk_are_skipped(tmp_path: Path) -> None:
    parts = _three_chunks()
    later = Header.unpack(parts[2])._replace(version=2).pack() + parts[2][HEADER_SIZE:]
    strange = Header.unpack(parts[0])._replace(type=200).pack() + parts[0][HEADER_SIZE:]

    found, chunks = _read(_file(tmp_path / "a.ttmem", parts[0], strange, parts[1], later, parts[3]))

    assert (found, chunks.unknown, chunks.damages) == ([(0, 10), (20, 10)], 2, [])


def test_a_payload_that_expands_beyond_its_header_is_refused() -> None:
    bomb = encode(ChunkType.MARKS, bytes(MAX_RAW), STREAM)
    header = Header.unpack(bomb[:HEADER_SIZE])._replace(raw=1000)

    with pytest.raises(BadChunk, match="does not have the 1,000 bytes"):
        decode(header, bomb[HEADER_SIZE:])


def test_a_long_payload_is_one_even_though_it_is_several_chunks(tmp_path: Path) -> None:
    payload = random.Random(1).randbytes(2 * MAX_RAW + 5)
    parts = list(encode_long(ChunkType.STATE, payload, STREAM, position=0, time=0))
    start = encode(ChunkType.FILE, b"{}", STREAM)

    chunks = Chunks(FileSource(str(_file(tmp_path / "a.ttmem", start, *parts, *parts[:2]))))

    assert (len(parts), chunks.count(ChunkType.STATE)) == (3, 2)
    assert chunks.payload(ChunkType.STATE, 0) == payload
    with pytest.raises(BadChunk, match="its continuation is missing"):
        chunks.payload(ChunkType.STATE, 1)


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "is a directory, not a recording"),
        (_make_fifo, "is a pipe or a device"),
        (_make_socket, "cannot be read: No such device or address"),
        (Path.touch, "is empty: nothing has been recorded in it yet"),
        (lambda path: path.write_text("import ttnn\n"), "is not a recording of ttmem"),
        (lambda path: None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / "a.ttmem"
    make(path)

    with pytest.raises(BadInput, match=message):
        Recording(str(path))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused_and_not_read(device: str) -> None:
    with pytest.raises(BadInput, match="is a pipe or a device"):
        Recording(device)


def test_a_file_of_a_later_version_says_to_use_a_newer_ttmem(tmp_path: Path) -> None:
    parts = _three_chunks()
    later = Header.unpack(parts[0])._replace(version=2).pack() + parts[0][HEADER_SIZE:]

    with pytest.raises(BadInput, match=r"format version 2.*use a newer ttmem"):
        Recording(str(_file(tmp_path / "a.ttmem", later, *parts[1:])))


class _SlowSink:
    """Accepts nothing until it is told to."""

    def __init__(self) -> None:
        import threading

        self.go = threading.Event()
        self.chunks: list[bytes] = []

    def append(self, chunk: bytes) -> None:
        self.go.wait()
        self.chunks.append(chunk)

    def close(self) -> None:
        pass


def test_a_slow_disk_loses_records_which_are_counted_where_they_are_missing() -> None:
    sink = _SlowSink()
    writer = Writer(sink, stream=STREAM, started_ns=0, budget=1000 * EVENT_SIZE)
    for at in range(0, 5000, 100):
        writer.records(_records(100, at))
    assert writer.gap
    sink.go.set()
    wait_until(lambda: writer.ready)
    writer.payload(ChunkType.STATE, b"state", 0)
    writer.records(_records(100, 5000))

    written = writer.close()

    headers = [Header.unpack(chunk[:HEADER_SIZE]) for chunk in sink.chunks]
    last = headers[-1]
    assert (last.position, last.records) == (5000, 100)
    assert last.lost == written.lost > 0
    assert written.records + written.lost == 5100
    assert any(header.type == ChunkType.STATE and header.position == 5000 for header in headers)


def test_on_a_full_disk_the_file_stays_whole_and_goes_on_when_there_is_space(
    tmp_path: Path,
) -> None:
    """RLIMIT_FSIZE stands in for a disk of 100 kB."""
    path = tmp_path / "a.ttmem"
    code = (
        "import resource, signal, sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.patience import wait_until\n"
        "from tests.recording.test_chunks import _records, _writer\n"
        "from ttmem.recording.format import ChunkType\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        f"writer = _writer(Path({str(path)!r}))\n"
        "for number in range(50):\n"
        "    writer.records(_records(1000, 1000 * number, number))\n"
        "wait_until(lambda: writer.gap)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "wait_until(lambda: writer.ready)\n"
        "writer.payload(ChunkType.STATE, b'state', 0)\n"
        "writer.records(_records(1000, 50_000))\n"
        "written = writer.close()\n"
        "print(written.records, written.lost)\n"
    )
    done = ran([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
    records, lost = map(int, done.stdout.split())

    found, chunks = _read(path)

    assert (chunks.damages, chunks.tail) == ([], None)
    assert records + lost == chunks.end == 51_000
    assert sum(count for _, count in found) == records
    assert chunks.lost == lost > 0


@pytest.mark.slow
def test_the_end_of_a_recording_of_many_days_is_its_end(tmp_path: Path) -> None:
    """A quiet host has a few chunks a second."""
    path, count = tmp_path / "a.ttmem", (1 << 21) + 1000
    sample = encode(ChunkType.TELEMETRY, b"{}", STREAM, first=SECOND, last=SECOND)
    end = encode(ChunkType.END, b"{}", STREAM, first=2 * SECOND, last=2 * SECOND)
    with path.open("wb") as file:
        file.write(encode(ChunkType.FILE, b"{}", STREAM, first=SECOND, last=SECOND))
        for _ in range(count // 1000):
            file.write(sample * 1000)
        file.write(end)

    with Recording(str(path)) as recording:
        info = recording.info()

    assert (info.closed, info.tail, info.damages) == (True, None, ())
    assert info.telemetry == count // 1000 * 1000
    assert info.ended_ns == 2 * SECOND


@pytest.mark.parametrize("sizes", [(0, 100, 5000, 70_000), (200_000, 0, 0, 0), (3000,) * 400])
def test_chunks_of_any_length_follow_one_another(sizes: tuple[int, ...], tmp_path: Path) -> None:
    payloads = [os.urandom(size) for size in sizes * 20]
    chunks = [encode(ChunkType.TELEMETRY, payload, STREAM) for payload in payloads]
    path = _file(tmp_path / "a.ttmem", encode(ChunkType.FILE, b"{}", STREAM), *chunks)

    found = Chunks(FileSource(str(path)))

    read = [found.payload(ChunkType.TELEMETRY, number) for number in range(len(payloads))]
    assert (read, found.damages) == (payloads, [])
