"""`ttmem explain`: of a recording, or somebody's log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.exporters.history import ASKED, record
from ttmem.commands import main

LOG = """\
INFO | loading
\x1b[31mTT_THROW\x1b[0m: Statically allocated circular buffers in program 9 clash with L1 buffers on core range \
[0-0 - 7-7]. L1 buffer allocated at 1522880 and static circular buffer region ends at 1524480
TT_FATAL: Creating trace buffers of size 237371392B on MeshDevice 0, but only 235929600B is allocated for trace region.
"""


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.txt"
    file.write_text(LOG)
    return str(file)


def test_a_clash_in_a_log_is_told_with_hexadecimal_addresses_and_what_is_missing(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["explain", log])

    told = capsys.readouterr().out
    assert code == 0
    assert "clash: 1,600 B too many on each core" in told
    assert "an L1 buffer at 0x173cc0 (1522880)" in told
    assert "which buffer lies at 0x173cc0, and who made it" in told
    assert "ttmem run -- COMMAND" in told


def test_a_trace_region_is_told_the_size_that_would_have_been_enough(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["explain", log, "--json"])

    document = json.loads(capsys.readouterr().out)
    trace = document["messages"][1]
    assert document["schema"] == "ttmem.explain/1"
    assert (trace["verdict"], trace["short_by"]) == ("region too small", 1_441_792)
    assert "0.6 %" in trace["facts"]["verdict"]
    assert "trace_region_size=237371392" in trace["facts"]["advice"]


def test_a_log_without_messages_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log.txt"
    file.write_bytes(b"\x00\xff nothing\r\n" * 3)

    assert main(["explain", str(file)]) == 1
    assert "ttmem run -- COMMAND" in capsys.readouterr().out


def test_a_failure_in_a_recording_has_its_holders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.ttmem"
    record(file)

    code = main(["explain", str(file), "--json"])

    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    assert code == 0
    assert (failure["pid"], failure["kind"], failure["requested"]) == (41, "L1", ASKED)
    assert (failure["op"], failure["devices"]) == ("ttnn.add", [0])
    assert failure["held_by"][0]["op"] == "ttnn.matmul"
    assert failure["held_by"][0]["held"] == 10 * 2048 * 64
    assert failure["held_by"][0]["requested"] == 10 * (2048 * 64 - 64)


def test_a_recording_in_which_nothing_failed_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.ttmem"
    record(file)
    short = tmp_path / "short.ttmem"
    assert main(["cut", str(file), "-o", str(short), "--to", "0.02s"]) == 0
    capsys.readouterr()

    assert main(["explain", str(short)]) == 1
    assert "no allocation failed" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "/nowhere/log.txt"]) == 2
    assert "/nowhere/log.txt" in capsys.readouterr().err
