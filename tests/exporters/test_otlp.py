"""OTLP: the official schema reads the document, and a collector on loopback gets it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.views.cases import n300_and_an_idle_card
from ttmem.errors import TtmemError
from ttmem.exporters.otlp import document, send
from ttmem.snapshots import Anomaly, Losses

pytest.importorskip("opentelemetry.proto", reason="opentelemetry-proto is not installed")


def points(request: Any) -> dict[tuple[str, str, str], int | float]:
    """Values by metric, hardware id and memory."""
    found = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        form = metric.sum if metric.HasField("sum") else metric.gauge
        for point in form.data_points:
            texts = {attribute.key: attribute.value.string_value for attribute in point.attributes}
            key = metric.name, texts.get("hw.id", ""), texts.get("hw.memory.type", "")
            found[key] = getattr(point, point.WhichOneof("value"))
    return found


def metrics(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    return found


def test_the_official_schema_reads_every_figure() -> None:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    snapshot = n300_and_an_idle_card()

    request = json_format.Parse(
        json.dumps(document(snapshot, per_process=True)), ExportMetricsServiceRequest()
    )

    found = points(request)
    for device in snapshot.devices:
        dram = device.memory.dram
        assert found["hw.gpu.memory.usage", device.unique_id, "dram"] == dram.held
        assert found.get(("hw.gpu.memory.limit", device.unique_id, "dram")) == dram.capacity
        assert found["hw.gpu.memory.usage", device.unique_id, "l1"] == device.l1_used
        assert device.telemetry is not None
        assert found.get(("hw.temperature", device.unique_id, "")) == device.telemetry.temperature_c


def test_counters_are_monotonic_since_the_server_started_and_amounts_are_not() -> None:
    snapshot = n300_and_an_idle_card()
    first = snapshot.devices[0]
    odd = (Anomaly("clash", "a"), Anomaly("clash", "b"))
    busy = replace(
        snapshot,
        host={**snapshot.host, "server": {"started_ns": 5}},
        losses=Losses(7, 2, 1),
        devices=(replace(first, failed_allocations=3, anomalies=odd),),
    )

    found = {metric["name"]: metric["sum"] for metric in metrics(document(busy)) if "sum" in metric}

    counters = {
        "hw.errors": 3,
        "ttmem.events.lost": 7,
        "ttmem.events.gaps": 2,
        "ttmem.records.rejected": 1,
    }
    for name, value in counters.items():
        (point,) = found[name]["dataPoints"]
        assert (point["asInt"], point["startTimeUnixNano"]) == (str(value), "5")
        assert found.pop(name)["isMonotonic"]
    (clashes,) = found["ttmem.anomalies"]["dataPoints"]
    assert clashes["asInt"] == "2"
    assert not any(form["isMonotonic"] for form in found.values())


def test_without_a_server_counters_start_with_the_sender() -> None:
    (lost,) = [
        metric["sum"]["dataPoints"][0]
        for metric in metrics(document(n300_and_an_idle_card(), since_ns=9))
        if metric["name"] == "ttmem.events.lost"
    ]

    assert lost["startTimeUnixNano"] == "9"


@contextmanager
def collector(status: int) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    got: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_the_document() -> None:
    snapshot = n300_and_an_idle_card()

    with collector(200) as (url, got):
        send(snapshot, url)

    assert [(path, json.loads(body)) for path, body in got] == [("/v1/metrics", document(snapshot))]


def test_a_collector_that_refuses_is_named() -> None:
    with collector(429) as (url, _), pytest.raises(TtmemError, match="refused the metrics: 429"):
        send(n300_and_an_idle_card(), url)
