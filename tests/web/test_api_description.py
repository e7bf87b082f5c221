"""The API keeps to its own description: schemathesis asks whatever that allows, and reads the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import RunningServer
from tests.web.site import WebSite, website
from ttmem.client import AllocationClient, MemoryKind
from ttmem.commands import main
from ttmem.web.http.guard import HEADERS

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import HealthCheck, settings  # noqa: E402
from openapi_spec_validator import validate  # noqa: E402
from schemathesis import Case  # noqa: E402
from schemathesis.checks import (  # noqa: E402
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ttmem.web.http.openapi import openapi  # noqa: E402

DOCUMENT = openapi()
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STREAM = "/api/v1/events"  # never ends; tests/web/test_http.py reads it
schema = schemathesis.openapi.from_dict(
    {
        **DOCUMENT,
        "paths": {path: methods for path, methods in DOCUMENT["paths"].items() if path != STREAM},
    }
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    folder = tmp_path_factory.mktemp("described")
    file = folder / "cnn.ttmem"
    assert main(["simulate", "cnn", "--steps", "3", "--rate", "0", "-o", str(file)]) == 0
    server = RunningServer(folder, "--no-shm").wait_ready()
    try:
        with closing(AllocationClient(server.path)) as client:
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM)
            server.sees(lambda seen: any(device.memory.dram.held for device in seen.devices))
            options = ("--socket", server.path, "--interval", "0.1", "--max-upload", "64KiB")
            with website(str(file), *options) as running:
                yield running
    finally:
        server.stop()


def test_the_description_is_one() -> None:
    validate(DOCUMENT)


@schema.parametrize()  # type: ignore[untyped-decorator,unused-ignore]
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: Case[Any], site: WebSite) -> None:
    if "id" in (case.path_parameters or {}) and case.method != "DELETE":
        case.path_parameters["id"] = "file" if len(case.path_parameters["id"]) % 4 else "past"

    answer = case.call(base_url=f"http://127.0.0.1:{site.port}", headers=bearer(site))

    assert answer.status_code < 500 or answer.status_code in (503, 507), answer.text
    case.validate_response(answer, checks=CHECKS)
    assert {name.decode() for name, _ in HEADERS} <= set(answer.headers)


def bearer(site: WebSite) -> dict[str, str]:
    return {"Authorization": f"Bearer {site.token}"}


def test_a_golden_recording_can_be_uploaded_and_is_as_described(site: WebSite) -> None:
    golden = Path(__file__).parent.parent / "data" / "recordings" / "version-1.ttmem"
    operation = schema["/api/v1/recording"]["POST"]
    case = operation.Case(body=golden.read_bytes(), media_type="application/octet-stream")

    answer = case.call(base_url=f"http://127.0.0.1:{site.port}", headers=bearer(site))

    assert answer.status_code == 201
    case.validate_response(answer, checks=CHECKS)
