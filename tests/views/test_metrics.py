"""`ttmem metrics`, without the tools that read them: figures, absent ones, and a hostile name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.views.cases import stock_one_device
from ttmem.commands import main
from ttmem.exporters.openmetrics import families, render
from ttmem.exporters.otlp import document
from ttmem.snapshots import Snapshot


def samples(snapshot: Snapshot) -> dict[str, str]:
    """Values by name and labels."""
    text = render(families(snapshot, per_process=True, compat=True))
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_a_figure_is_that_of_the_snapshot_and_an_unknown_one_is_absent() -> None:
    snapshot = stock_one_device()
    device = snapshot.devices[0]

    found = samples(snapshot)

    where = f'{{device="{device.unique_id}",memory="dram"}}'
    assert found[f"ttmem_memory_used_bytes{where}"] == str(device.memory.dram.held)
    assert device.memory.dram.reserved is None
    assert f"ttmem_memory_reserved_bytes{where}" not in found
    assert found[f'ttmem_l1_used_bytes{{device="{device.unique_id}"}}'] == str(device.l1_used)


def test_a_name_cannot_end_its_label() -> None:
    snapshot = stock_one_device()
    named = replace(snapshot.processes[0], command='a"} 1\nttmem_l1_used_bytes{device="x"')

    found = samples(replace(snapshot, processes=(named,)))

    assert not any(name.startswith('ttmem_l1_used_bytes{device="x"') for name in found)


def test_openmetrics_ends_and_names_counters_without_their_suffix() -> None:
    text = render(families(stock_one_device()), openmetrics=True)

    assert text.endswith("# EOF\n")
    assert "# TYPE ttmem_lost_events counter\n" in text
    assert "\nttmem_lost_events_total 0\n" in text


def test_a_collector_gets_integers_as_strings() -> None:
    snapshot = stock_one_device()

    metrics = document(snapshot, per_process=True)["resourceMetrics"][0]["scopeMetrics"][0][
        "metrics"
    ]

    (usage,) = [metric for metric in metrics if metric["name"] == "hw.gpu.memory.usage"]
    assert usage["sum"]["dataPoints"][0]["asInt"] == str(snapshot.devices[0].memory.dram.held)


def test_an_idle_host_has_metrics_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--shm", str(tmp_path)]) == 0

    assert "\nttmem_processes 0\n" in capsys.readouterr().out


def test_a_textfile_is_written(tmp_path: Path) -> None:
    assert main(["metrics", "--shm", str(tmp_path), "--textfile", str(tmp_path)]) == 0

    assert "ttmem_build_info" in (tmp_path / "ttmem.prom").read_text()


@pytest.mark.parametrize(
    "options",
    [
        ["--otlp", "http://127.0.0.1:1", "--openmetrics"],
        ["--otlp", "http://127.0.0.1:1", "--compat", "tt-exporter"],
        ["--textfile", ".", "--openmetrics"],
    ],
)
def test_options_that_would_have_no_effect_are_refused(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "--shm", str(tmp_path), *options]) == 2

    assert "of their own" in (told := capsys.readouterr().err) or "of its own" in told
