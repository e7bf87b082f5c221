"""The parts of the live page that draw nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ttmem.events import Flag, Notice, Op
from ttmem.snapshots import LoggedEvent
from ttmem.views.monitor.pages.event_text import event_size, event_text

STATIC = Path(__file__).parents[2] / "src" / "ttmem" / "web" / "static"
ROWS_OF_EVENTS = f"""
import {{ eventRows }} from {json.dumps(str(STATIC / "live-data.js"))};
const rows = JSON.parse(process.argv[1]).flatMap((event) => eventRows([event]));
console.log(JSON.stringify(rows.map((row) => [row.event, row.bytes])));
"""


def test_what_the_live_page_shows_follows_from_the_snapshot() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    tests = Path(__file__).with_name("live-data.test.js")

    done = subprocess.run([node, "--test", tests], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_events_read_as_in_the_monitor() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    kinds = {Op.ALLOC: "DRAM", Op.KERNEL_LOAD: "FABRIC", Op.BINARY_STATUS: "IN_FLIGHT"}
    texts = {Notice.PHASE_ENTERED: "decode", Notice.ALLOCATION_FAILED: "x.cpp:1\ninfo:\nno space\n"}
    flags = tuple(str(flag.name) for flag in Flag)
    events = [
        LoggedEvent(1, 2, "3", op.name, kinds.get(op), given, 4, 5, 6, 7, 8, 9, None, texts.get(op))
        for op in (*Op, *Notice)
        for given in ((), flags)
    ]

    asked = json.dumps([event._asdict() for event in events])
    command = [node, "--input-type=module", "--eval", ROWS_OF_EVENTS, asked]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert json.loads(told) == [[event_text(event), event_size(event)] for event in events]
