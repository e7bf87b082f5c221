"""Hosts in network namespaces, scraped by a real Prometheus: what `ttmem` shows, also when one is cut off."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.answers import answering
from tests.fleet.hosts import GIB, MIB, Rack, rack
from tests.fleet.scraping import prometheus
from tests.patience import wait_until
from ttmem.exporters.openmetrics import families, render
from ttmem.feeds import idle_host
from ttmem.fleet.asking import AWAITED, ask_fleet
from ttmem.fleet.prometheus import Prometheus

pytestmark = pytest.mark.slow


def fleet(of: Rack) -> Any:
    done = of.ttmem("ps", "--prometheus", of.URL, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def states(of: Rack) -> dict[str, str | None]:
    return {host["name"]: host["stale"] for host in fleet(of).get("hosts", ())}


@pytest.mark.parametrize("rules", [True, False], ids=["recorded", "raw"])
def test_a_host_that_is_cut_off_is_stale_and_it_says_since_when(
    tmp_path: Path, rules: bool
) -> None:
    with rack(tmp_path, 3, rules=rules) as several:
        first, second, third = several.hosts
        up = dict.fromkeys(host.name for host in several.hosts)
        wait_until(lambda: states(several) == up and fleet(several)["recorded"] == rules)
        wait_until(lambda: all(host["l1_share"] for host in fleet(several)["hosts"]))

        before = fleet(several)
        assert [host["name"] for host in before["hosts"]] == [third.name, second.name, first.name]
        worst = before["hosts"][0]
        assert (worst["l1_share"], worst["dram_used"]) == (0.6, 3 * GIB)
        assert [device["l1_used"] for device in before["worst"]] == [60 * MIB, 40 * MIB, 20 * MIB]

        second.cut_off()
        wait_until(lambda: states(several)[second.name] is not None)

        after = fleet(several)
        stale, *others = after["hosts"]
        assert (stale["name"], stale["stale"]) == (second.name, "no answer")
        assert before["time_ns"] - 5e9 < stale["seen_ns"] < after["time_ns"]
        assert stale["l1_share"] is None
        assert [host["stale"] for host in others] == [None, None]
        text = several.ttmem("ps", "--prometheus", several.URL).stdout
        assert re.search(rf"stale since \d\d:\d\d:\d\d: no answer +{second.name}", text)
        assert second.name in several.ttmem("top", "--prometheus", several.URL, "--once").stdout

        last = several.ttmem("ps", "--prometheus", several.URL, "--host", second.address, "--json")
        view = json.loads(last.stdout)
        assert view["host"]["stale"] == "no answer"
        assert view["host"]["seen_ns"] == stale["seen_ns"]
        assert [device["dram_used"] for device in view["devices"]] == [2 * GIB]
        assert [process["l1"] for process in view["processes"]] == [40 * MIB]


def test_a_target_that_never_answered_is_listed_if_its_job_is_of_ttmem(tmp_path: Path) -> None:
    metrics = render(families(idle_host()))

    def job(name: str, *targets: str) -> dict[str, Any]:
        where = [target.partition("//")[2] for target in targets]
        asked = {"query": ["all"]}
        return {"job_name": name, "params": asked, "static_configs": [{"targets": where}]}

    with (
        answering(lambda _: metrics.encode()) as (ours, _),
        answering(lambda _: metrics.encode()) as (beside, _),
        answering(lambda _: b"node_load1 0.5\n") as (other, _),
        prometheus(
            tmp_path,
            job("accelerators", ours, "http://127.0.0.1:1"),
            job("node", beside, other, "http://127.0.0.1:2"),
            job("ttmem", "http://127.0.0.1:3"),
        ) as (url, ask),
    ):
        wait_until(lambda: len(ask("up")) == 6)
        wait_until(lambda: len(ask(AWAITED)) == 2)
        wait_until(lambda: len(ask("ttmem_build_info")) == 2)

        hosts = ask_fleet(Prometheus(url)).hosts

    assert [(host.name, host.stale, host.seen_ns) for host in hosts[:2]] == [
        ("127.0.0.1:1", "no answer", None),
        ("127.0.0.1:3", "no answer", None),
    ]
    up = sorted(url.partition("//")[2] for url in (ours, beside))
    assert [(host.name, host.stale) for host in hosts[2:]] == [(name, None) for name in up]
