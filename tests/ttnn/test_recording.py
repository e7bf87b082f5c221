"""A recording of real ttnn shows what the live views showed, to the byte, while the program allocates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_until
from tests.ttnn.probed import Machines, start
from ttmem.feeds import LocalFeed
from ttmem.recording import Instant, Recording
from ttmem.recording.recorder import described
from ttmem.recording.writer import FileSink
from ttmem.snapshots import DETAILS, to_json

WORK = """
import threading
def work():
    kept = []
    for number in range(400):
        columns = 32 * (1 + number % 7)
        config = ttnn.L1_MEMORY_CONFIG if number % 3 else ttnn.DRAM_MEMORY_CONFIG
        kept.append(ttnn.zeros((64, columns), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config))
        if number % 5 == 4:
            kept.append(ttnn.relu(kept[-1]))
        while len(kept) > 8:
            ttnn.deallocate(kept.pop(0))
thread = threading.Thread(target=work)
thread.start()
None
"""


@pytest.mark.parametrize("board", ["p150", "p150x4"])
def test_a_recording_equals_the_live_snapshots_while_the_program_allocates(
    machine: Machines, board: str, tmp_path: Path
) -> None:
    there = machine(board)
    session = start(there)
    path = tmp_path / "run.ttmem"
    feed = LocalFeed(str(there.folder))
    recorder = feed.record(FileSink(str(path)), described())
    live: list[tuple[Instant, dict[str, Any]]] = []

    def look() -> int:
        snapshot = feed.read(DETAILS)
        now = snapshot.time_ns
        live.append((Instant(recorder.position, now, now), to_json(snapshot)))
        return len({instant.position for instant, _ in live})

    session.run(WORK)
    wait_until(lambda: look() >= 8)
    session.run("thread.join()\nNone")
    look()
    recorder.close()
    feed.close()

    with Recording(str(path)) as recording:
        for instant, shown in live:
            assert to_json(recording.snapshot(instant, DETAILS)) == shown
