"""Peaks where one process is known from its events, and another from counters alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.analysis.runs import Run
from tests.ledger.oracle import region, slot
from tests.web.decoded import ask
from ttmem.analysis.history import History
from ttmem.commands import main
from ttmem.events import Amounts
from ttmem.ledger.register import MAX_DEVICES
from ttmem.recording import Recording
from ttmem.snapshots import Question

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A watched process holds 1 MiB; another one takes 39 MiB beside it for a while, and ends before the recording."""
    path = tmp_path / "both.ttmem"
    with Run(path, pid=41) as run:
        for held in (39 * MIB, 0):
            run.alloc(MIB // 2)
            run.now += 1_000_000_000
            counted = [slot(os.getpid(), Amounts(dram=held))] if held else []
            run.books.sample([region("chip0", *counted)], (), run.now)
            run.books.tick(run.now)
            run.recorder.tick(run.now)
    return path


def test_a_peak_includes_what_only_counters_tell(file: Path) -> None:
    with Recording(str(file)) as recording:
        history = History(recording)
        peaks = {(one.device, one.memory): one for one in history.device_peaks}
        peak = peaks["chip0", "dram"]
        then = recording.snapshot(peak.instant, Question()).device("chip0")

    # Counters are read now and then: the last reading counts until the next.
    assert (peak.bytes, then and then.memory.dram.held) == (40 * MIB, 40 * MIB)
    assert history.sums_only == (os.getpid(),)


def test_the_peak_is_said_to_be_at_least_so_much_and_by_whom(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peak", str(file), "--memory", "dram"]) == 0

    said = capsys.readouterr().out
    assert "PEAK OF DRAM  at least 40.0 MiB" in said
    assert f"pid {os.getpid()}: only its counters are known" in said
    assert said.index("only counters are known") < said.index("PEAK OF")


def test_at_the_peak_is_the_instant_of_that_peak(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recording(str(file)) as recording:
        shown = recording.at("peak:dram").device("chip0")

    assert shown is not None
    assert shown.memory.dram.held == 40 * MIB
    assert main(["info", str(file)]) == 0
    told = next(
        line for line in capsys.readouterr().out.splitlines() if f"pid {os.getpid()}," in line
    )
    assert told.endswith("by counters)")


def test_the_report_has_the_same_peak(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    assert main(["report", str(file), "-o", str(page)]) == 0

    document, _ = ask(page, [], tmp_path)
    peaks = {(one["device"], one["memory"]): one["bytes"] for one in document["peaks"]}

    assert peaks["chip0", "dram"] == 40 * MIB


def test_a_reading_of_counters_belongs_to_the_device_that_had_the_entry_of_the_ledger_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "many.ttmem"
    with Run(path, pid=41) as run:
        for names, held in ((range(MAX_DEVICES - 2), 9 * MIB), ([MAX_DEVICES], MIB)):
            run.now += 1_000_000_000
            counted = slot(os.getpid(), Amounts(dram=held))
            run.books.sample(
                [region(f"card{name}", counted) for name in names[:1]]
                + [region(f"card{name}") for name in names[1:]],
                (),
                run.now,
            )
            run.books.tick(run.now)
            run.recorder.tick(run.now)

    with Recording(str(path)) as recording:
        found = [
            (device, amounts.dram)
            for one in recording.counted
            for device, amounts in one.amounts.items()
        ]

    assert found == [("card0", 9 * MIB), (f"card{MAX_DEVICES}", MIB)]
