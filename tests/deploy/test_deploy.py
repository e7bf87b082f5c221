"""What `deploy` ships: a dashboard, rules, a DaemonSet and a unit, each accepted by its own tool."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.make_dashboards import ALERTS, DASHBOARD, FOLDER, RECORDED, RULES, dashboard, rules

from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.web.site import website
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind

pytestmark = pytest.mark.slow


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str, folder: Path = FOLDER) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dashboard()["panels"]
    return found


def expressions() -> list[str]:
    """Of the dashboard, for all hosts and devices."""
    found = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [expr.replace("$host", ".*").replace("$device", ".*") for expr in found]


def test_the_files_are_what_the_program_makes() -> None:
    assert json.loads(DASHBOARD.read_text("utf-8")) == dashboard()
    assert yaml.safe_load(RULES.read_text("utf-8")) == rules()


def test_the_rules_fire_when_they_should() -> None:
    promtool = tool("promtool")

    run(promtool, "check", "rules", str(RULES))
    run(promtool, "test", "rules", "ttmem.test.yml", folder=FOLDER / "prometheus")
    tested = (FOLDER / "prometheus" / "ttmem.test.yml").read_text()
    untested = [one.name for one in ALERTS if one.name not in tested]
    assert untested == ["TtmemDramAlmostFull"]  # as TtmemL1AlmostFull


def test_the_dashboard_has_the_structure_that_grafana_wants() -> None:
    made = dashboard()

    assert "id" not in made
    assert made["schemaVersion"] >= 36
    assert [one["name"] for one in made["__inputs"]] == ["DS_PROMETHEUS"]
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${DS_PROMETHEUS}"
            assert panel["fieldConfig"]["defaults"]["unit"] in ("bytes", "percentunit", "short")
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_the_daemon_set_is_one(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

    run(sys.executable, "-m", "kubernetes_validate", "--strict", "kubernetes/daemonset.yml")


def test_the_unit_is_one(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    text = (FOLDER / "systemd" / "ttmem.service").read_text()
    program = Path(sys.executable).parent / "ttmem"
    unit = tmp_path / "ttmem.service"
    unit.write_text(text.replace("/usr/local/bin/ttmem", str(program)))

    assert run(analyze, "verify", str(unit)) == ""


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    """A real one that scrapes a real `ttmem web` over a server with one busy device; its address."""
    program = tool("prometheus")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    try:
        with (
            closing(AllocationClient(server.path)) as client,
            website("--socket", server.path, "--per-process") as site,
        ):
            client.declare_device(
                DeviceDeclaration(
                    0,
                    unique_id="77",
                    board="p150",
                    dram_banks=8,
                    dram_bank_size=1 << 30,
                    l1_banks=100,
                    l1_bank_size=1 << 20,
                )
            )
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM)
            client.report_program_dispatch(0, 5)
            server.sees(lambda seen: any(one.memory.dram.held for one in seen.devices))
            token = tmp_path / "token"
            token.write_text(site.token)
            config = {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [
                    {
                        "job_name": "ttmem",
                        "authorization": {"credentials_file": str(token)},
                        "static_configs": [{"targets": [f"127.0.0.1:{site.port}"]}],
                    }
                ],
            }
            file = tmp_path / "prometheus.yml"
            file.write_text(yaml.safe_dump(config))
            command = [program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'data'}"]
            command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
            with subprocess.Popen(command) as process:
                try:
                    yield f"http://127.0.0.1:{port}"
                finally:
                    process.kill()
    finally:
        server.stop()


def test_every_expression_returns_data_from_a_real_prometheus(prometheus: str) -> None:
    def answer(expression: str) -> list[Any]:
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=10) as got:
                found: list[Any] = json.load(got)["data"]["result"]
        except OSError:
            return []
        return found

    # Nothing has failed, and the client tells neither addresses nor programs of its own.
    silent = ("largest_free", "failed_allocations", "cache_entries", "l1_peak")
    wanted = [one for one in [*expressions(), *RECORDED] if not any(w in one for w in silent)]
    wait_until(lambda: all(answer(one) for one in wanted))
    assert [one for one in wanted if not answer(one)] == []
    (held,) = answer('ttmem_memory_used_bytes{memory="dram"}')
    assert held["value"][1] == str(3 << 20)
    (mine,) = answer('ttmem_process_memory_bytes{memory="dram"}')
    assert mine["value"][1] == str(3 << 20)
