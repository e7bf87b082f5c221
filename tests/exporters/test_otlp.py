"""OTLP: the official schema reads the document, and a collector on loopback gets it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

import pytest

from tests.views.cases import n300_and_an_idle_card
from ttmem.errors import BadInput, TtmemError
from ttmem.exporters.otlp import Collector, document
from ttmem.snapshots import Anomaly, Losses
from ttmem.version import __version__

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


class Request(NamedTuple):
    path: str
    headers: Message
    body: bytes


@contextmanager
def collector(
    status: int, said: object = None, **headers: str
) -> Iterator[tuple[str, list[Request]]]:
    """One on loopback that answers everything in the same way: its address, and what it got."""
    got: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(Request(self.path, self.headers, body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if said is None else json.dumps(said).encode())

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
        Collector(url).send(snapshot)

    (request,) = got
    assert (request.path, json.loads(request.body)) == ("/v1/metrics", document(snapshot))
    assert request.headers["User-Agent"] == f"ttmem/{__version__}"


def test_a_collector_that_refuses_is_named_with_what_it_says() -> None:
    said = {"code": 8, "message": "too many series"}

    with (
        collector(429, said) as (url, _),
        pytest.raises(TtmemError, match=r"refused the metrics: 429 .*: too many series"),
    ):
        Collector(url).send(n300_and_an_idle_card())


def test_values_that_a_collector_rejects_are_told() -> None:
    said = {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "out of order"}}

    with (
        collector(200, said) as (url, _),
        pytest.raises(TtmemError, match="rejected 3 values: out of order"),
    ):
        Collector(url).send(n300_and_an_idle_card())


@pytest.mark.parametrize(
    "said", [[], 3, {}, {"partialSuccess": None}, {"partialSuccess": {"rejectedDataPoints": 0}}]
)
def test_an_answer_without_rejected_values_is_a_good_one(said: object) -> None:
    with collector(200, said) as (url, got):
        Collector(url).send(n300_and_an_idle_card())

    assert len(got) == 1


def test_a_password_is_sent_and_never_told() -> None:
    with collector(403) as (url, got):
        secret = Collector(url.replace("//", "//me:s3cret@"))
        with pytest.raises(TtmemError) as told:
            secret.send(n300_and_an_idle_card())

    assert got[0].headers["Authorization"] == "Basic bWU6czNjcmV0"
    assert "s3cret" not in str(told.value)


def test_a_token_comes_from_the_variable_of_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-team = a ")

    with collector(200) as (url, got):
        Collector(url).send(n300_and_an_idle_card())

    assert (got[0].headers["Authorization"], got[0].headers["X-Team"]) == ("Bearer abc", "a")


def test_a_redirect_is_told_and_not_followed() -> None:
    with (
        collector(302, Location="http://elsewhere/") as (url, got),
        pytest.raises(TtmemError, match="redirects to http://elsewhere/"),
    ):
        Collector(url).send(n300_and_an_idle_card())

    assert len(got) == 1


@pytest.mark.parametrize("url", ["host:4318", "ftp://host", "http://me:s3cret@host:x", "http://"])
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadInput) as told:
        Collector(url)

    assert "s3cret" not in str(told.value)
