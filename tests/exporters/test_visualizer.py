"""The exported report, served by ttnn-visualizer itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.exporters.history import ASKED
from tests.patience import wait_until
from ttmem.recording import Recording


@pytest.fixture
def visualizer(tmp_path: Path) -> Iterator[str]:
    """The address of the API of a running ttnn-visualizer."""
    program = shutil.which("ttnn-visualizer")
    if program is None:
        pytest.skip("ttnn-visualizer is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "home"
    home.mkdir()
    variables = {**os.environ, "HOME": str(home), "LAUNCH_BROWSER_ON_START": "false"}
    command = [program, "--host", "127.0.0.1", "--port", str(port)]
    address = f"http://127.0.0.1:{port}/api"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=home, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: answers(f"{address}/instance?instanceId=test"))
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)


def answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=10):
            return True
    except (URLError, OSError):
        return False


def ask(address: str, document: dict[str, str] | None = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    request = Request(address, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_its_endpoints_return_our_figures(
    visualizer: str, export: Callable[..., Path], recording: Recording
) -> None:
    report = export("visualizer")
    opened = ask(f"{visualizer}/instance/local-paths?instanceId=a", {"profiler_path": str(report)})
    instance = f"instanceId={opened['instance_id']}"

    operations = ask(f"{visualizer}/operations?{instance}")
    (last,) = ask(f"{visualizer}/operation-buffers?{instance}")[-1:]
    errors = ask(f"{visualizer}/errors?{instance}")
    devices = ask(f"{visualizer}/devices?{instance}")

    end = recording.at("end", ["buffers"])
    expected: dict[tuple[int, int, int], int] = defaultdict(int)
    numbers = {device.unique_id: number for number, device in enumerate(end.devices)}
    for b in end.buffers or ():
        banks = 12 if b.kind == "DRAM" else 64
        kind = {"DRAM": 0, "L1": 1}[b.kind]
        expected[numbers[b.device or ""], b.address or 0, kind] += b.held // banks
    found: dict[tuple[int, int, int], int] = defaultdict(int)
    for row in last["buffers"]:
        found[row["device_id"], row["address"], row["buffer_type"]] += row["size"]
    assert found == expected
    # Each allocation of a weight, each program, and the failure; a free is no call of the op that allocated.
    calls = {"ttnn.from_torch": 50, "ttnn.matmul": 30, "ttnn.add": 1}
    assert Counter(step["name"] for step in operations) == calls
    assert [str(ASKED) in error["error_message"] for error in errors] == [True]
    assert [device["l1_num_banks"] for device in devices] == [64, 64]
