"""Metrics for OpenTelemetry collectors: OTLP over HTTP, as JSON, by the conventions for hardware (`hw.*`).

64-bit integers are strings in this encoding, and enums are numbers.
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ttmem.addresses import NoRedirects, reason, split_password
from ttmem.errors import BadInput, TtmemError
from ttmem.snapshots import Device, Process, Snapshot
from ttmem.text import printable, program_name
from ttmem.version import __version__
from ttmem.workloads import Workload

PATH = "/v1/metrics"
TIMEOUT_S = 10.0
MOST_BYTES = 1 << 16  # of an answer
HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"  # as every sender of OTLP reads it
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


class Collector:
    """Where to send to, such as http://host:4318; the URL may contain a user and a password."""

    def __init__(self, url: str) -> None:
        base, self._headers = split_password(
            url, "the address of a collector; write http://HOST:4318"
        )
        self._address = base if base.endswith(PATH) else base + PATH
        self._headers |= _given_headers()
        self._headers |= {"Content-Type": "application/json", "User-Agent": f"ttmem/{__version__}"}
        self._opener = urllib.request.build_opener(NoRedirects)

    def send(
        self, snapshot: Snapshot, *, per_process: bool = False, since_ns: int | None = None
    ) -> None:
        """TtmemError if the collector refuses, or takes only a part."""
        found = document(snapshot, per_process=per_process, since_ns=since_ns)
        body = json.dumps(found).encode()
        request = urllib.request.Request(self._address, body, self._headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                said = answer.read(MOST_BYTES)
        except urllib.error.HTTPError as problem:
            with problem:
                raise TtmemError(
                    f"{self._address} refused the metrics: {_refusal(problem)}"
                ) from problem
        except (OSError, http.client.HTTPException) as problem:
            raise TtmemError(f"{self._address} cannot be reached: {reason(problem)}") from problem
        if lost := _partial(said):
            raise TtmemError(f"{self._address} {lost}")


def _given_headers() -> dict[str, str]:
    """Those of OTEL_EXPORTER_OTLP_HEADERS, such as a token: name=value, separated by commas, quoted as in a URL."""
    found = {}
    for part in filter(str.strip, os.environ.get(HEADERS_VARIABLE, "").split(",")):
        name, equals, value = part.partition("=")
        name, value = name.strip(), urllib.parse.unquote(value).strip()
        if not (equals and name and f"{name}{value}".isascii() and f"{name}{value}".isprintable()):
            raise BadInput(f"{HEADERS_VARIABLE} is not a list of NAME=VALUE, separated by commas")
        found[name] = value
    return found


def _refusal(problem: urllib.error.HTTPError) -> str:
    if 300 <= problem.code < 400:
        where = printable(str(problem.headers.get("Location", "elsewhere")))[:200]
        return f"it redirects to {where}; give that URL"
    said = ""
    with suppress(OSError, ValueError, RecursionError, http.client.HTTPException):
        answer = json.loads(problem.read(MOST_BYTES))
        said = str(answer.get("message") or "") if isinstance(answer, dict) else ""
    text = f"{problem.code} {printable(problem.reason)[:100]}"
    return f"{text}: {printable(said)[:300]}" if said else text


def _partial(body: bytes) -> str:
    """What a collector says that took only a part."""
    try:
        answer = json.loads(body or b"{}")["partialSuccess"]
        count, said = int(answer.get("rejectedDataPoints") or 0), answer.get("errorMessage") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""  # an answer is not required to say anything
    about = f": {printable(str(said))[:300]}" if said else ""
    return f"rejected {count:,} values{about}" if count > 0 else ""
