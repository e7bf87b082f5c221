"""Recordings of every version stay readable, and no change to one is ever taken for a recording that it is not."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from ttmem.errors import TtmemError
from ttmem.recording import Recording, chunks
from ttmem.snapshots import DETAILS

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"
INSTANTS = ("start", "peak:dram", "oom", "#60", "end", 1.0)


def test_version_1_is_readable() -> None:
    with Recording(str(GOLDEN)) as recording:
        held = [recording.at(when).devices[0].memory.dram.held for when in INSTANTS[:3]]
        peak = recording.at("peak:dram", DETAILS)
        end = recording.at("end")

        assert recording.verify() == ()
        assert recording.info().closed
        assert held == [0, 50 * 1024, 10 * 1024]
        assert {buffer.site for buffer in peak.buffers or ()} == {"model.py:3 forward"}
        assert [process.pid for process in end.processes] == [41, 42]
        assert {"phase", "failure", "start", "end"} == {mark.kind for mark in recording.markers}


@pytest.mark.parametrize("place", ["/tmp", "/nonexistent"])
def test_an_index_that_is_mostly_on_disk_finds_the_same(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no place for it, it stays in memory."""
    with Recording(str(GOLDEN)) as recording:
        expected = [recording.at(when, DETAILS) for when in INSTANTS]
        records = [*recording.batches()]

    monkeypatch.setattr(chunks, "KEPT", 2)
    monkeypatch.setattr(tempfile, "tempdir", place)
    with Recording(str(GOLDEN)) as recording:
        assert [recording.at(when, DETAILS) for when in INSTANTS] == expected
        assert [*recording.batches()] == records
        assert recording.verify() == ()


@pytest.mark.parametrize("seed", range(300))
def test_a_mutated_recording_gives_an_answer_or_one_clear_error(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(GOLDEN.read_bytes())
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data))
        if chance.random() < 0.2:
            del data[at : at + chance.randrange(200)]
        else:
            data[at] ^= 1 << chance.randrange(8)
    path = tmp_path / "mutated.ttmem"
    path.write_bytes(data)

    with suppress(TtmemError), Recording(str(path)) as recording:
        assert recording.verify() or recording.info().tail
        for when in INSTANTS:
            with suppress(TtmemError):
                recording.at(when, DETAILS)
        assert all(len(batch.events) % 64 == 0 for batch in recording.batches())


def test_a_recording_larger_than_memory_can_be_read(tmp_path: Path) -> None:
    """600 MB of chunks that nobody needs, in a process that may have 400 MB."""
    path = tmp_path / "large.ttmem"
    made = GOLDEN.read_bytes()
    with path.open("wb") as file:
        file.write(made)
        file.truncate(600 << 20)  # zeros: no chunk
        file.seek(0, os.SEEK_END)
    code = (
        "import sys; from ttmem.recording import Recording\n"
        "with Recording(sys.argv[1]) as recording:\n"
        "    print(recording.at('peak:dram').devices[0].memory.dram.held, recording.info().tail)\n"
    )
    limit = 400 << 20
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )

    held, _, tail = done.stdout.strip().partition(" ")
    assert held == str(50 * 1024)
    assert tail.endswith("bytes are no whole chunk")
