"""Metrics for OpenTelemetry collectors: OTLP over HTTP, as JSON, by the conventions for hardware (`hw.*`).

64-bit integers are strings in this encoding, and enums are numbers.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ttmem.errors import BadInput, TtmemError
from ttmem.snapshots import Device, Process, Snapshot
from ttmem.text import program_name
from ttmem.version import __version__
from ttmem.workloads import Workload

PATH = "/v1/metrics"
TIMEOUT_S = 10.0
CUMULATIVE = 2
ERRORS, LOST, GAPS, REJECTED = (
    "hw.errors",
    "ttmem.events.lost",
    "ttmem.events.gaps",
    "ttmem.records.rejected",
)
COUNTERS = (ERRORS, LOST, GAPS, REJECTED)  # they only grow
Point = tuple[str, str, str, dict[str, Any], int | float]  # name, unit, about, attributes, value


def document(
    snapshot: Snapshot, *, per_process: bool = False, since_ns: int | None = None
) -> dict[str, Any]:
    """An ExportMetricsServiceRequest. Unknown values have no point.

    `since_ns`: when counters were 0; that of a server is its start.
    """
    metrics: dict[str, dict[str, Any]] = {}
    time = str(snapshot.time_ns)
    match snapshot.host.get("server"):
        case {"started_ns": int(started)}:
            since_ns = started
    for name, unit, about, attributes, value in _points(snapshot, per_process):
        metric = metrics.setdefault(name, {"name": name, "unit": unit, "description": about})
        integer = isinstance(value, int)
        point = {
            "attributes": _attributes(attributes),
            "timeUnixNano": time,
            "asInt" if integer else "asDouble": str(value) if integer else value,
        }
        if name in COUNTERS and since_ns is not None:
            point["startTimeUnixNano"] = str(since_ns)
        # An amount that goes up and down adds up over devices: a sum. A temperature does not: a gauge.
        sums = {"aggregationTemporality": CUMULATIVE, "isMonotonic": name in COUNTERS}
        form = metric.setdefault("sum", sums) if integer else metric.setdefault("gauge", {})
        form.setdefault("dataPoints", []).append(point)
    resource = {"host.name": str(snapshot.host.get("name", "")), "service.name": "ttmem"}
    scope = {"name": "ttmem", "version": __version__}
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeMetrics": [{"scope": scope, "metrics": list(metrics.values())}],
            }
        ]
    }


def _attributes(given: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in given.items()
        if value is not None
    ]


def _points(snapshot: Snapshot, per_process: bool) -> Iterator[Point]:
    losses = snapshot.losses
    yield LOST, "{event}", "Events that were dropped or overwritten.", {}, losses.dropped_events
    yield GAPS, "{gap}", "How often a process reported dropped events.", {}, losses.gaps
    yield REJECTED, "{record}", "Records that made no sense.", {}, losses.rejected_records
    for device in snapshot.devices:
        yield from _device(device)
    for process in snapshot.processes if per_process else ():
        yield from _process(process)


def _device(device: Device) -> Iterator[Point]:
    base = {
        "hw.id": device.unique_id,
        "hw.type": "gpu",  # the conventions have no other accelerator
        "hw.vendor": "Tenstorrent",
        "hw.model": device.board or device.arch,
        "hw.name": None if device.logical_id is None else f"device {device.logical_id}",
    }
    memory = device.memory
    used = "Bytes in use."
    for kind, held, capacity in (
        ("dram", memory.dram.held, memory.dram.capacity),
        ("l1", device.l1_used, device.l1_capacity),
        ("trace", memory.trace.held, memory.trace.capacity),
    ):
        where = {**base, "hw.memory.type": kind}
        yield "hw.gpu.memory.usage", "By", used, where, held
        if capacity is not None:
            yield "hw.gpu.memory.limit", "By", "What can be allocated.", where, capacity
            if capacity:
                share = held / capacity
                yield "hw.gpu.memory.utilization", "1", "Usage / limit.", where, share
    if device.failed_allocations is not None:
        where = {**base, "error.type": "allocation_failed"}
        yield ERRORS, "{error}", "Allocations that failed.", where, device.failed_allocations
    for kind, count in Counter(anomaly.kind for anomaly in device.anomalies).items():
        where = {"hw.id": device.unique_id, "ttmem.anomaly.kind": kind}
        yield "ttmem.anomalies", "{anomaly}", "What does not add up at present.", where, count
    sensors = device.telemetry
    if sensors is not None and sensors.temperature_c is not None:
        yield "hw.temperature", "Cel", "Of the ASIC.", base, float(sensors.temperature_c)
    if sensors is not None and sensors.power_w is not None:
        yield "hw.power", "W", "Power of the chip.", base, float(sensors.power_w)


def _process(process: Process) -> Iterator[Point]:
    belongs = process.workload or Workload()
    for unique_id, amounts in process.devices.items():
        for kind, size in amounts._asdict().items():
            yield (
                "ttmem.process.memory.usage",
                "By",
                "Bytes that a process holds on a device.",
                {
                    "hw.id": unique_id,
                    "hw.memory.type": kind,
                    "process.pid": process.pid,
                    "process.executable.name": program_name(process.command),
                    "process.owner": process.user,
                    "k8s.pod.uid": belongs.pod_uid,
                    "k8s.pod.name": belongs.pod,
                    "k8s.namespace.name": belongs.namespace,
                    "container.id": belongs.container,
                    "slurm.job.id": belongs.job,
                },
                size,
            )


def send(
    snapshot: Snapshot, url: str, *, per_process: bool = False, since_ns: int | None = None
) -> None:
    """Sends to a collector, such as http://host:4318; TtmemError if it refuses."""
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"{url!r:.80} is not the address of a collector; write http://HOST:4318")
    whole = url if url.endswith(PATH) else url.rstrip("/") + PATH
    found = document(snapshot, per_process=per_process, since_ns=since_ns)
    body = json.dumps(found).encode()
    try:
        request = urllib.request.Request(whole, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read(1 << 16)
    except (ValueError, http.client.InvalidURL) as problem:
        raise BadInput(f"{url!r:.80} is not the address of a collector: {problem}") from problem
    except urllib.error.HTTPError as problem:
        raise TtmemError(
            f"{whole} refused the metrics: {problem.code} {problem.reason}"
        ) from problem
    except (OSError, http.client.HTTPException) as problem:
        why = getattr(problem, "reason", None) or problem
        raise TtmemError(f"{whole} cannot be reached: {why}") from problem
