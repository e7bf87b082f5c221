"""`ttmem ps --tt-smi`, read by tt-smi's own data model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.own_process import ran
from tests.recording.rewriting import rewritten
from ttmem.commands import main
from ttmem.recording import Recording
from ttmem.recording.format import ChunkType, from_document, to_document

MODEL = Path(__file__).parents[2] / ".tools" / "tt_smi"
READ = """
import importlib.util, json, sys
sys.path.insert(0, {folder!r})
spec = importlib.util.spec_from_file_location("log", {folder!r} + "/tt_smi/log.py")
log = importlib.util.module_from_spec(spec)
sys.modules["log"] = log
spec.loader.exec_module(log)
read = log.TTSMILog.parse_raw(sys.stdin.read())
print(read.get_clean_json_string())
"""


def document(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["ps", str(file), "--tt-smi", "--at", "end"]) == 0
    return capsys.readouterr().out


def test_tt_smis_own_model_accepts_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not MODEL.is_dir():
        pytest.skip("the data model of tt-smi is not installed")

    done = ran(
        [sys.executable, "-W", "ignore", "-c", READ.format(folder=str(MODEL))],
        input=document(file, capsys),
    )

    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert [device["board_info"]["board_type"] for device in read["device_info"]] == [
        "n300",
        "n300",
    ]
    assert {process["pid"] for process in read["processes"]} == {41, 42}


def test_it_has_the_figures_of_ps(
    file: Path, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(document(file, capsys))

    end = recording.at("end")
    assert [device["memory"]["dram"]["held"] for device in found["device_info"]] == [
        device.memory.dram.held for device in end.devices
    ]
    assert [
        (process["pid"], process["unique_id"], process["memory"]["l1"])
        for process in found["processes"]
    ] == [
        (process.pid, unique_id, amounts.l1)
        for process in end.processes
        for unique_id, amounts in process.devices.items()
    ]


@pytest.mark.parametrize("other", ["--by=site", "--kernels", "--detail=buffers"])
def test_what_cannot_be_combined_is_refused(
    file: Path, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", str(file), "--tt-smi", other]) == 2
    assert "--tt-smi" in capsys.readouterr().err


def test_a_recording_says_nothing_about_the_host_that_reads_it(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def elsewhere(kind: ChunkType, payload: bytes) -> bytes:
        if kind is not ChunkType.CONTEXT:
            return payload
        context = to_document(payload)
        if "host" in context.get("rest", {}):
            context["rest"]["host"]["name"] = "elsewhere"
        return from_document(context)

    moved = tmp_path / "moved.ttmem"
    moved.write_bytes(rewritten(file, elsewhere))

    host = json.loads(document(moved, capsys))["host_info"]

    assert host.pop("Hostname") == "elsewhere"
    assert set(host.values()) == {"N/A"}
