"""`ttmem simulate -o` records the failures of the model; their explanations have the figures of its allocator."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.own_process import finish
from tests.server.conftest import StartServer
from tests.server.conftest import start as start
from ttmem.analysis.failures import Explanation, explain
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.client import AllocationClient, GraphTracker
from ttmem.commands import main
from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.events.runtime_messages import Verdict, clash
from ttmem.model import open_mesh_device
from ttmem.model.allocator import MemoryView
from ttmem.model.errors import FailedRequest, OutOfMemory
from ttmem.model.workloads import SCALES, workload
from ttmem.recording import Recording

STEPS = 40
MIB = 1 << 20


class _Failed(NamedTuple):
    request: FailedRequest
    memory: MemoryView  # at that moment
    held: int  # bytes of live buffers on one device


def _by_the_model(name: str, steps: int) -> list[_Failed]:
    """What fails in the same run without a server, as the model's allocator sees it."""
    found, failed = workload(name), list[_Failed]()
    tracker = GraphTracker()
    tracker.enabled = False
    mesh = open_mesh_device(
        found.mesh,
        board=found.board,
        l1_small_size=found.l1_small_size,
        trace_region_size=found.trace_region_size,
        tracker=tracker,
    )

    def note(request: FailedRequest) -> None:
        of_kind = (buffer for buffer in mesh.buffers.values() if buffer.kind is request.kind)
        held = sum(buffer.reserved for buffer in of_kind)
        failed.append(_Failed(request, mesh.memory_view(request.kind), held))

    mesh.on_failure = note
    with mesh:
        try:
            for _ in islice(found.run(mesh, Random(1), SCALES["large"]), steps or None):
                pass
        except OutOfMemory:
            assert name == "leak"
    return failed


def _recorded(name: str, file: Path, steps: int = STEPS) -> list[Explanation]:
    run = ("simulate", name, "-o", str(file), "--steps", steps, "--rate", 0, "--size", "large")
    code, _, error = finish(*run)
    assert code == (1 if name == "leak" else 0), error
    with Recording(str(file)) as recording:
        return [explain(failure) for failure in recorded_failures(recording)]


@pytest.mark.parametrize(
    ("name", "steps", "verdict"),
    [("oom-fragmented", STEPS, Verdict.FRAGMENTED), ("leak", 0, Verdict.EXHAUSTED)],
)
def test_a_buffer_that_did_not_fit(
    name: str, steps: int, verdict: Verdict, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = _by_the_model(name, steps)

    found = _recorded(name, file := tmp_path / "run.ttmem", steps)

    assert [(explained.failure.requested, explained.failure.message) for explained in found] == [
        (failed.request.size, failed.request.message) for failed in expected
    ]
    for explained, (request, memory, _) in zip(found, expected, strict=True):
        assert explained.verdict is verdict
        assert explained.failure.origin.site == request.site
        assert explained.free == memory.total_bytes_free_per_bank
        assert explained.largest == memory.largest_contiguous_bytes_free_per_bank
        assert (explained.size, explained.banks) == (memory.total_bytes_per_bank, memory.num_banks)
        assert explained.to_free  # known only if the recorded buffers leave the same gaps
    assert main(["ps", str(file), "--at", "oom", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert device["memory"]["dram"]["reserved"] == expected[0].held


def test_circular_buffers_that_clash(tmp_path: Path) -> None:
    expected = _by_the_model("clash", STEPS)

    found = _recorded("clash", tmp_path / "run.ttmem")

    assert expected
    assert [explained.clash for explained in found] == [
        clash(failed.request.message) for failed in expected
    ]
    for explained, (_, memory, held) in zip(found, expected, strict=True):
        assert explained.clash is not None
        assert explained.in_the_way is not None
        assert explained.in_the_way.address == explained.clash.lowest_buffer
        assert explained.in_the_way.origin.site == "activations"
        assert explained.verdict is Verdict.EXHAUSTED
        assert explained.free == memory.total_bytes_free_per_bank
        assert sum(holder.bytes for holder in explained.holders) == held


def test_ttmem_explain_tells_what_the_simulation_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _recorded("oom-fragmented", file := tmp_path / "run.ttmem")

    assert main(["explain", str(file)]) == 0

    assert "verdict    fragmented" in capsys.readouterr().out


def test_a_server_believes_no_client_that_claims_a_failure(
    start: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "flight"
    server = start("--no-shm", "--record", str(folder))
    client = AllocationClient(server.path)
    client.declare_device(DeviceDeclaration(0, unique_id="77"))
    client.report_failed_allocation(0, MemoryKind.DRAM, MIB, "Out of Memory")
    client.report_allocation(0, 1, MIB)
    server.sees(lambda seen: bool(seen.devices) and seen.devices[0].memory.dram.held == MIB)
    client.close()
    server.stop()

    assert not list(folder.glob("kept-*"))
    (ring,) = folder.glob("ring-*")
    with Recording(str(ring)) as recording:
        assert {marker.kind for marker in recording.markers} <= {"start", "end"}


def test_a_failure_that_recurs_is_explained_once_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _recorded("oom-fragmented", file := tmp_path / "run.ttmem", 54)

    assert main(["explain", str(file)]) == 0

    said = capsys.readouterr().out
    assert said.count("ttmem: pid") == 1
    assert "repeated   2 more times" in said
    assert "asked by   piece of DRAM\n" in said
