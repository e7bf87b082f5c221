"""Recordings that somebody else wrote, and places that cannot be written: one clear message each."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttmem._native import transposed
from ttmem.events import EVENT_SIZE, Event
from ttmem.events.record import Control
from ttmem.recording import Recording
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header, decode, encode

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"
DOCUMENTS = (
    ChunkType.FILE,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.MARKS,
    ChunkType.ACCOUNTS,
)
HOSTILE = {
    "escapes": "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\x00\u202e",
    "half a surrogate": "\udc80\ud800",
    "huge": "x" * 1_000_000,
}
TEXTS = {"command", "user", "host", "kernel", "boot_id", "ttmem", "title"}


def _chunks(data: bytes) -> list[tuple[Header, bytes]]:
    found, at = [], 0
    while at < len(data):
        header = Header.unpack(data[at : at + HEADER_SIZE])
        stored = data[at + HEADER_SIZE : at + HEADER_SIZE + header.stored]
        found.append((header, decode(header, stored)))
        at += HEADER_SIZE + header.stored
    return found


def _rewritten(change: Callable[[ChunkType, bytes], bytes]) -> bytes:
    """The golden recording with other payloads, sealed again."""
    out = []
    for header, payload in _chunks(GOLDEN.read_bytes()):
        kind = ChunkType(header.type)
        payload = change(kind, payload)
        if kind is ChunkType.RECORDS:
            payload = transposed(payload, EVENT_SIZE)
        out.append(
            encode(
                kind,
                payload,
                header.stream,
                position=header.position,
                records=header.records,
                first=header.first,
                last=header.last,
            )
        )
    return b"".join(out)


def _poisoned(value: Any, poison: str, everything: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _poisoned(entry, poison, everything or key in TEXTS)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_poisoned(entry, poison, everything) for entry in value]
    return value + poison if everything and isinstance(value, str) else value


def _hostile(poison: str) -> bytes:
    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind not in DOCUMENTS:
            return payload
        if kind is ChunkType.MARKS:
            marks = json.loads(payload)
            return json.dumps([[*mark[:5], str(mark[5]) + poison] for mark in marks]).encode()
        everything = kind is ChunkType.STRINGS
        return json.dumps(_poisoned(json.loads(payload), poison, everything)).encode()

    return _rewritten(change)


def _ttmem(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ttmem", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **options)


READERS = (
    ("ps", "--at", "end"),
    ("ps", "--at", "#40", "--by", "site"),
    ("ps", "--at", "end", "--json"),
    ("dump",),
    ("info",),
)
EXPORTS = ("csv", "jsonl", "collapsed", "speedscope", "perfetto", "pprof", "memory-viz", "parquet")


@pytest.mark.slow
@pytest.mark.parametrize("poison", HOSTILE.values(), ids=[*HOSTILE])
def test_hostile_texts_reach_no_terminal_and_break_no_reader(poison: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.ttmem"
    path.write_bytes(_hostile(poison))
    environment = {**os.environ, "PYTHONUTF8": "1"}

    for verb, *options in READERS:
        done = _ttmem(verb, str(path), *options, env=environment)
        text = done.stdout.decode()  # strictly
        assert (done.returncode, done.stderr) == (0, b""), (verb, options)
        assert {one for one in text if not one.isprintable()} <= {"\n"}, (verb, options)
        assert len(text) < 200_000 or "--json" in options, (verb, options)

    for form in EXPORTS:
        out = tmp_path / f"out.{form}"
        done = _ttmem("export", str(path), "--to", form, "-o", str(out), env=environment)
        assert (done.returncode, done.stderr) == (0, b""), form
        if form in ("csv", "jsonl", "collapsed", "speedscope", "memory-viz"):
            out.read_bytes().decode()  # strictly


def test_times_that_go_backwards_leave_every_event_and_an_order(tmp_path: Path) -> None:
    times: list[int] = []

    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind is not ChunkType.RECORDS:
            return payload
        out = bytearray()
        for at in range(0, len(payload), EVENT_SIZE):
            event = Event.unpack(payload, at)
            if event.op < Control.BATCH and event.time:
                times.append(event.time)
                event = event._replace(time=max(1, times[0] - 1000 * len(times)))
            out += event.pack()
        return bytes(out)

    path = tmp_path / "backwards.ttmem"
    path.write_bytes(_rewritten(change))

    with Recording(str(path)) as recording, Recording(str(GOLDEN)) as golden:
        info = recording.info()
        reached = [recording.time_at(position) for position in range(info.end + 1)]
        live = recording.at("end", ["buffers"]).buffers
        expected = golden.at("end", ["buffers"]).buffers
        by_time = [recording.instant(f"{part / 10}s").position for part in range(30)]

    assert times
    assert reached == sorted(reached)
    assert by_time == sorted(by_time)
    assert [(b.id, b.requested) for b in live or ()] == [
        (b.id, b.requested) for b in expected or ()
    ]


FULL = 60_000  # bytes: a disk of that size


def _small_disk() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))


def test_a_full_disk_ends_a_simulation_with_a_file_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "full.ttmem"

    done = _ttmem(
        "simulate", "transformer", "--steps", "40", "--rate", "0", "-o", str(path),
        preexec_fn=_small_disk,
    )  # fmt: skip

    assert b"lost, because the disk was full" in done.stdout
    assert b"Traceback" not in done.stderr
    with Recording(str(path)) as recording:
        info = recording.info()
        assert (info.damages, info.bytes <= FULL) == ((), True)
        shown = recording.at("end")  # an error, if what was written does not belong together
        assert bool(shown.processes) == (info.lost < info.end)


def test_no_permission_and_no_directory_are_said_before_anything_runs(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "a.ttmem"
    for verb in (
        ("record", str(missing), "--shm", str(tmp_path)),
        ("simulate", "cnn", "-o", str(missing)),
    ):
        done = _ttmem(*verb)
        assert done.returncode == 2, verb
        assert b"cannot be written: No such file or directory" in done.stderr
        assert b"Traceback" not in done.stderr


def test_two_recorders_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    command = [sys.executable, "-m", "ttmem", "record", str(path), "--shm", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        try:
            from tests.patience import wait_until

            wait_until(lambda: path.exists() and path.stat().st_size > 0)
            second = _ttmem("record", str(path), "--shm", str(tmp_path), "--overwrite")
        finally:
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=60)

    assert (second.returncode, first.returncode) == (2, 0)
    assert b"is being written by another process" in second.stderr
    with Recording(str(path)) as recording:
        assert recording.info().closed
