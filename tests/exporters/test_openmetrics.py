"""Metrics: what they say, and that Prometheus' own tools accept them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.own_process import finish, ran
from tests.views.cases import galaxy, n300_and_an_idle_card, stock_ghosts, stock_one_device
from ttmem.events import Amounts
from ttmem.exporters.openmetrics import families, render
from ttmem.snapshots import Anomaly, Process, Snapshot
from ttmem.workloads import Workload

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
CASES = [stock_one_device, stock_ghosts, galaxy, n300_and_an_idle_card]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str, *, openmetrics: bool = False) -> Samples:
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as strict

    read = (strict if openmetrics else parser).text_string_to_metric_families
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def holder(pid: int, dram: int, command: str, workload: Workload | None = None) -> Process:
    held = {"77": Amounts(dram, 0, 0, 0, 0)}
    return Process(pid, pid, "ann", command, True, ("probe",), False, held, workload=workload)


@pytest.mark.parametrize("case", CASES)
def test_both_formats_say_what_the_snapshot_says(case: Callable[[], Snapshot]) -> None:
    snapshot = case()

    found = families(snapshot, per_process=True, compat=True)
    plain, strict = parsed(render(found)), parsed(render(found, openmetrics=True), openmetrics=True)

    assert plain == strict
    for device in snapshot.devices:
        for kind in ("dram", "l1", "l1_small", "trace"):
            memory, where = (
                getattr(device.memory, kind),
                {"device": device.unique_id, "memory": kind},
            )
            assert value(plain, "ttmem_memory_used_bytes", **where) == memory.held
            assert value(plain, "ttmem_memory_capacity_bytes", **where) == memory.capacity
            assert value(plain, "ttmem_memory_peak_bytes", **where) == memory.peak
            assert value(plain, "ttmem_memory_largest_free_bytes", **where) == memory.largest_free
        assert value(plain, "ttmem_l1_used_bytes", device=device.unique_id) == device.l1_used
        for meaning in ("resident", "cached", "demand"):
            where = {"device": device.unique_id, "meaning": meaning}
            expected = getattr(device.memory.cb, meaning)
            assert value(plain, "ttmem_circular_buffer_bytes", **where) == expected


@pytest.mark.parametrize("case", CASES)
def test_promtool_has_no_complaint(case: Callable[[], Snapshot]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    text = render(families(case(), per_process=True))

    done = ran([promtool, "check", "metrics"], input=text)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_is_unknown_has_no_sample() -> None:
    snapshot = stock_one_device()
    device = snapshot.devices[0]
    assert device.memory.dram.reserved is None  # the counters tell requested bytes only

    samples = parsed(render(families(snapshot)))

    where = {"device": device.unique_id, "memory": "dram"}
    assert value(samples, "ttmem_memory_reserved_bytes", **where) is None
    assert value(samples, "ttmem_memory_used_bytes", **where) == device.memory.dram.held
    assert value(samples, "ttmem_failed_allocations_total", device=device.unique_id) is None


def test_processes_with_the_same_labels_are_one_series() -> None:
    pod = Workload(container="c" * 64, pod="llama-0", namespace="serving", pod_uid="u")
    processes = (
        holder(1, 10, "/usr/bin/python3 /home/ann/serve.py --port 80"),
        holder(2, 20, "python serve.py --port 81"),
        holder(3, 5, "python serve.py", pod),
    )

    samples = parsed(
        render(families(replace(stock_one_device(), processes=processes), per_process=True))
    )

    base = {"device": "77", "user": "ann", "program": "serve.py", "memory": "dram"}
    in_pod = {"pod": "llama-0", "namespace": "serving", "container": "c" * 64}
    assert value(samples, "ttmem_process_memory_bytes", **base) == 30
    assert value(samples, "ttmem_process_memory_bytes", **base, **in_pod) == 5
    assert not any("--port" in text for _, labels in samples for _, text in labels)


def test_without_the_option_there_is_nothing_about_single_processes() -> None:
    snapshot = replace(stock_one_device(), processes=(holder(1, 10, "python a.py"),))

    names = {name for name, _ in parsed(render(families(snapshot, compat=True)))}

    assert not any("proc_" in name or name.startswith("ttmem_process_") for name in names)


def test_a_hostile_name_stays_inside_its_label() -> None:
    hostile = 'x"} 1\nttmem_l1_used_bytes{device="77"} 99\\\udcff'
    snapshot = replace(stock_one_device(), processes=(holder(1, 10, hostile),))

    samples = parsed(render(families(snapshot, per_process=True)))

    assert value(samples, "ttmem_l1_used_bytes", device="77") is None
    held = [number for (name, _), number in samples.items() if "process_memory" in name]
    assert max(held) == 10


@pytest.mark.parametrize("all_dead", [True, False])
def test_a_device_of_which_only_the_dead_are_listed_is_a_phantom_to_tt_exporter(
    all_dead: bool,
) -> None:
    ghostly = stock_ghosts()
    snapshot = replace(ghostly, processes=()) if all_dead else ghostly
    ghosts = {device for left in snapshot.left_behind if left.ghost for device in left.devices}
    used = {device for process in snapshot.processes for device in process.devices}
    assert ghosts

    samples = parsed(render(families(snapshot, compat=True)))

    for device in snapshot.devices:
        where = {"asic_id": f"0x{int(device.unique_id):016x}", "device_id": device.pci or ""}
        phantom = value(samples, "tenstorrent_mem_phantom", **where)
        assert phantom == (device.unique_id in ghosts - used)
        shown = None if all_dead else device.memory.dram.held
        assert value(samples, "tenstorrent_dram_used_bytes", **where) == shown
        assert value(samples, "tenstorrent_shm_version", **where) == 3
        assert value(samples, "tenstorrent_shm_info", **where, metal_device_id="0") == 1


def test_tt_exporter_cannot_say_phantom_where_processes_cannot_be_found() -> None:
    snapshot = stock_one_device()
    (device,) = snapshot.devices
    hidden = replace(device, anomalies=(Anomaly("elsewhere", "in a container"),))

    samples = parsed(render(families(replace(snapshot, devices=(hidden,)), compat=True)))

    where = {"asic_id": f"0x{int(device.unique_id):016x}", "device_id": ""}
    assert value(samples, "tenstorrent_shm_liveness_unverifiable", **where) == 1
    assert value(samples, "tenstorrent_mem_phantom", **where) is None
    assert value(samples, "tenstorrent_dram_used_bytes", **where) == device.memory.dram.held


def test_sensors_have_the_labels_of_tt_exporter_also_of_idle_cards() -> None:
    snapshot = n300_and_an_idle_card()

    samples = parsed(render(families(snapshot, compat=True)))

    first, idle = snapshot.devices[0], snapshot.cards[0]
    assert first.telemetry is not None
    assert first.pci is not None
    assert idle.pci is not None
    power, limit = first.telemetry.power_w, first.telemetry.limits.power_w
    assert power is not None
    assert limit is not None
    assert value(samples, "tenstorrent_power_watts", device_id=first.pci) == power
    utilization = value(samples, "tenstorrent_utilization_percent", device_id=first.pci)
    assert utilization == 100 * power / limit
    idle_temperature = value(samples, "tenstorrent_temperature_celsius", device_id=idle.pci)
    assert idle_temperature == idle.telemetry.temperature_c


def test_a_textfile_is_replaced_at_once_and_nothing_else_stays(tmp_path: Path) -> None:
    shm, out = tmp_path / "shm", tmp_path / "out"
    shm.mkdir()
    out.mkdir()
    (out / "ttmem.prom").write_text("old")

    done = finish("metrics", "--shm", shm, "--textfile", out)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(out) == ["ttmem.prom"]
    assert value(parsed((out / "ttmem.prom").read_text()), "ttmem_processes") == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--textfile", "/no/such/place"], "is not a directory"),
        (["--every", "15s"], "--every needs --textfile or --otlp"),
        (["--otlp", "collector:4318"], "write http://HOST:4318"),
        (["--otlp", "http://127.0.0.1:1"], "cannot be reached"),
        (["--textfile", "/tmp", "--every", "soon"], "is not a duration"),
    ],
)
def test_a_wrong_call_is_told_what_to_write(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    done = finish("metrics", "--shm", tmp_path, *arguments)

    assert done.returncode in (1, 2)
    assert says in done.stderr
