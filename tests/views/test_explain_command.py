"""`ttmem explain`, on a recording or on a log."""

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
    assert "clash: they overlap by 1,600 B on each core" in told
    assert "an L1 buffer at 0x173cc0 (1522880)" in told
    assert "which buffer lies at 0x173cc0, and what allocated it" in told
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
    short = before_the_failure(tmp_path, "probe")
    capsys.readouterr()

    assert main(["explain", short]) == 1
    assert capsys.readouterr().out == f"no allocation failed in {short}\n"


def before_the_failure(folder: Path, source: str) -> str:
    file, short = folder / "run.ttmem", folder / "short.ttmem"
    record(file, source)
    assert main(["cut", str(file), "-o", str(short), "--to", "#150"]) == 0
    return str(short)


def test_a_source_that_reports_no_failures_does_not_pass_for_a_run_without_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = before_the_failure(tmp_path, "socket")
    unknown = (
        "no failed allocation is recorded, but not every source reports them; `ttmem run` does"
    )
    capsys.readouterr()

    assert main(["explain", short]) == 1
    assert capsys.readouterr().out == f"{short}: {unknown}\n"
    assert main(["explain", short, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["unknown"] == unknown
    assert main(["ps", short, "--at", "oom"]) == 2
    assert unknown in capsys.readouterr().err
    assert main(["diff", short, short]) == 0
    assert "failed: n/a" in capsys.readouterr().out
    assert main(["diff", short, short, "--fail-if", "failed > 0"]) == 2


@pytest.mark.parametrize("verb", [["explain"], ["export", "--to", "csv"], ["peak"], ["ps"]])
def test_a_torn_recording_is_announced_by_every_verb(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, torn = tmp_path / "run.ttmem", tmp_path / "torn.ttmem"
    record(file)
    torn.write_bytes(file.read_bytes()[:3000])

    main([verb[0], str(torn), *verb[1:]])

    said = " ".join("".join(capsys.readouterr()).split())
    assert "was not closed: its writer was killed or is still writing (the last " in said


def test_a_torn_recording_claims_no_more_than_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = Path(before_the_failure(tmp_path, "probe"))
    short.write_bytes(short.read_bytes()[:-20])
    capsys.readouterr()

    assert main(["explain", str(short)]) == 1
    assert "no allocation failed in the part that can be read of" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "/nowhere/log.txt"]) == 2
    assert "/nowhere/log.txt" in capsys.readouterr().err
