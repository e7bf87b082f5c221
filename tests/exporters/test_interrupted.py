"""An export that is ended leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import wait_until
from ttmem.clock import now_ns
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

EVENTS = 600_000  # takes many seconds to export as text
BATCH = 4000


def _recorded(path: Path) -> None:
    books, now = Books(), now_ns()
    recorder = Recorder(books, FileSink(str(path)), described())
    process = books.open_process(ProcessFacts(1, 1, "u", "python model.py"))
    books.declare(process, DeviceDeclaration(0, unique_id="chip", board="n300"))
    batch = b"".join(
        Event(op, MemoryKind.DRAM, id=number, size=4096).pack()
        for number in range(BATCH // 2)
        for op in (Op.ALLOC, Op.FREE)
    )
    for number in range(EVENTS // BATCH):
        books.apply(process, batch, 0, len(batch), now + number)
    assert recorder.close().lost == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_that_is_ended_removes_what_it_has_written(
    number: signal.Signals, code: int, form: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.ttmem"
    _recorded(file)

    command = [sys.executable, "-m", "ttmem", "export", str(file), "--to", form]
    with subprocess.Popen([*command, "-o", str(tmp_path / "out")]) as exporting:
        wait_until(lambda: any(tmp_path.glob("out.part-*")))
        exporting.send_signal(number)

    assert exporting.returncode == code
    assert [*tmp_path.iterdir()] == [file]
