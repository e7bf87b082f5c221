"""The page of `ttmem diff`: both timelines with their peaks, and names that are only text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.exporters.history import record
from ttmem.analysis.diff import compare
from ttmem.analysis.history import History
from ttmem.commands import main
from ttmem.events import MemoryKind
from ttmem.recording import Recording
from ttmem.web.comparison import COLUMNS, comparison, timelines


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "<img src=x>&.ttmem"
    record(made)
    return made


def test_no_maximum_is_lost_in_a_timeline(file: Path) -> None:
    with Recording(str(file)) as recording:
        history = History(recording)
        found = timelines(history)
        highest = {peak.memory: 0 for peak in history.peaks}
        for peak in history.peaks:
            highest[peak.memory] = max(highest[peak.memory], peak.bytes)

    assert MemoryKind.DRAM.name.lower() in found
    assert {name: max(high for _, high in run.columns) for name, run in found.items()} == highest
    assert {len(run.columns) for run in found.values()} == {COLUMNS}


def test_names_are_text_and_nothing_is_loaded(file: Path) -> None:
    with Recording(str(file)) as recording:
        history = History(recording)
        runs = timelines(history), timelines(history)
        page = comparison(compare(history, history), [], runs, "site")

    assert "<img" not in page
    assert "&lt;img src=x&gt;&amp;.ttmem" in page
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_the_verb_writes_it_for_its_owner_and_replaces_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "diff.html"

    assert main(["diff", str(file), str(file), "-o", str(target)]) == 0
    assert os.stat(target).st_mode & 0o777 == 0o600
    assert main(["diff", str(file), str(file), "-o", str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["diff", str(file), str(file), "-o", str(target), "--overwrite"]) == 0
    assert main(["diff", str(file), str(file), "-o", "x.html", "--json"]) == 2
