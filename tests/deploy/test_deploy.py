"""What `deploy` ships: a dashboard, rules, a DaemonSet and a unit, each accepted by its own tool."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.make_dashboards import ALERTS, DASHBOARD, FOLDER, RULES, dashboard, rules

from tests.fleet.answers import answering
from tests.fleet.scraping import prometheus, tool
from tests.patience import wait_until
from tests.probe.watched import Watched
from tests.server.harness import RunningServer
from tests.sources.region_writer import N300_LOCAL, Written, add_n300
from tests.web.site import WebSite, website
from ttmem.events import Amounts
from ttmem.exporters.openmetrics import families, render
from ttmem.feeds import idle_host
from ttmem.fleet.recorded import FAILED, RECORDED, RECORDED_SLOWLY
from ttmem.snapshots import Process
from ttmem.wire.tokens import Tokens, kept_key
from ttmem.workloads import Workload

pytestmark = pytest.mark.slow


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
    untested = [alert.name for alert in ALERTS if alert.name not in tested]
    assert untested == ["TtmemDramAlmostFull"]  # as TtmemL1AlmostFull


def test_the_dashboard_has_the_structure_that_grafana_wants() -> None:
    made = dashboard()

    assert "id" not in made
    assert made["schemaVersion"] >= 36
    assert [entry["name"] for entry in made["__inputs"]] == ["DS_PROMETHEUS"]
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


def daemon_set_command() -> list[str]:
    pod = yaml.safe_load((FOLDER / "kubernetes" / "daemonset.yml").read_text())["spec"]["template"]
    command: list[str] = pod["spec"]["containers"][0]["command"]
    return command


def unit_command() -> list[str]:
    text = (FOLDER / "systemd" / "ttmem.service").read_text().replace("\\\n", "")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("command", [daemon_set_command(), unit_command()], ids=["pod", "unit"])
def test_a_scraper_with_the_token_gets_processes_and_telemetry_from_what_is_shipped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    watch: Callable[..., Watched],
    command: list[str],
) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()").wait_for(
        "made"
    )
    (tmp_path / "sys").mkdir()
    add_n300(tmp_path / "sys")
    Written(number=N300_LOCAL).write(tmp_path)
    monkeypatch.setenv("TTMEM_SYSFS", str(tmp_path / "sys"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = {"--http": f"127.0.0.1:{port}", "--key-file": str(tmp_path / "key")}
    places["--socket"] = str(tmp_path / "socket")
    here = [
        places.get(before, word)
        for before, word in pairwise(command)
        if "--group" not in (before, word)  # which this machine may not have
    ]
    start = [sys.executable, "-m", "ttmem", *here, "--shm", str(tmp_path)]
    with subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: (tmp_path / "key").exists())
            token = Tokens(kept_key(str(tmp_path / "key"))).for_metrics()
            page = WebSite(port, token, process)  # type: ignore[arg-type]

            def scraped() -> str:
                with suppress(OSError):
                    return page.ask("/metrics").body.decode()
                return ""

            wait_until(lambda: "ttmem_process_memory_bytes" in scraped())
            wait_until(lambda: "ttmem_temperature_celsius" in scraped())
        finally:
            process.terminate()


@pytest.fixture
def busy(tmp_path: Path, watch: Callable[..., Watched]) -> Iterator[WebSite]:
    """A page over a server with a demo workload, and a watched process whose allocation has failed."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    script = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); buffer(mesh, 7, 0, 2 << 40)"
    watch(f"{script}\nsay('failed')\ninput()").wait_for("failed")
    server = RunningServer(tmp_path, "--shm", str(tmp_path)).wait_ready()
    simulate = ["simulate", "transformer", "--size", "small", "--steps", "0"]
    command = [sys.executable, "-m", "ttmem", *simulate, "--socket", server.path]
    try:
        with subprocess.Popen(command) as workload:
            try:
                server.sees(lambda seen: any(device.kernels.dispatches for device in seen.devices))
                server.sees(lambda seen: any(device.failed_allocations for device in seen.devices))
                with website("--socket", server.path, "--per-process") as site:
                    yield site
            finally:
                workload.kill()
    finally:
        server.stop()


def test_every_expression_returns_data_from_a_real_prometheus(
    tmp_path: Path, busy: WebSite
) -> None:
    token = tmp_path / "token"
    token.write_text(busy.token)
    scraped = {
        "job_name": "ttmem",
        "authorization": {"credentials_file": str(token)},
        "static_configs": [{"targets": [f"127.0.0.1:{busy.port}"]}],
    }
    # Most alerts have no data here, and should not. What they are made of has.
    parts = {
        name
        for alert in ALERTS
        for name in re.findall(r"[a-z_]*:?ttmem[a-z0-9_:]+", alert.expression)
    }
    wanted = [*expressions(), *RECORDED, *RECORDED_SLOWLY, *sorted(parts)]
    with prometheus(tmp_path, scraped) as (url, ask):
        wait_until(lambda: all(ask(expression) for expression in wanted))
        firing = 'ALERTS{alertname="TtmemAllocationFailed",alertstate="firing"}'
        wait_until(lambda: ask(firing))
        with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=30) as got:
            groups = json.load(got)["data"]["groups"]
        assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
        (failed,) = ask(FAILED)
        assert failed["value"][1] == "1"
        total = ask('sum(ttmem_memory_used_bytes{memory="dram"})')
        mine = ask('sum(ttmem_process_memory_bytes{memory="dram"})')
        assert total[0]["value"][1] == mine[0]["value"][1]


@pytest.mark.parametrize(
    "target",
    [{}, {"pod": "ttmem-x7f", "namespace": "monitoring", "container": "ttmem"}, {"namespace": "monitoring"}],
    ids=["plain", "kubernetes", "namespace only"],
)  # fmt: skip
def test_memory_by_pod_names_the_pod_that_holds_it_not_that_of_the_exporter(
    tmp_path: Path, target: dict[str, str]
) -> None:
    llama = Workload(container="c" * 64, pod="llama-0", namespace="serving", pod_uid="u", job="7")

    def process(pid: int, dram: int, workload: Workload | None) -> Process:
        held = {"77": Amounts(dram, 0, 0, 0, 0)}
        return Process(pid, pid, "ann", "serve.py", True, (), False, held, workload=workload)

    processes = process(1, 10, llama), process(2, 20, None)
    text = render(families(replace(idle_host(), processes=processes), per_process=True))
    (panel,) = [panel for panel in panels() if "by pod" in panel["title"]]
    (wanted,) = [target["expr"] for target in panel["targets"]]
    wanted = wanted.replace("$host", ".*").replace("$device", ".*")

    with answering(lambda _: text.encode()) as (url, _):
        where = {"targets": [url.partition("//")[2]], "labels": target}
        scraped = {"job_name": "ttmem", "params": {"query": ["all"]}, "static_configs": [where]}
        with prometheus(tmp_path, scraped) as (_, ask):
            wait_until(lambda: len(ask(wanted)) == 2)
            found = {row["value"][1]: row["metric"] for row in ask(wanted)}

    named = {"namespace": "serving", "pod": "llama-0", "exported_job": "7", "memory": "dram"}
    assert found == {"10": named, "20": {"memory": "dram"}}
