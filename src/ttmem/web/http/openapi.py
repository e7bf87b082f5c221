"""The description of the API, for programs."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from ttmem.snapshots import DETAILS
from ttmem.version import __version__


@cache
def openapi() -> dict[str, Any]:
    """OpenAPI 3.1. The snapshot is described by the schema that is installed with ttmem."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ttmem",
            "version": __version__,
            "description": "Who uses the memory of the Tenstorrent accelerators of this host.",
        },
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": {
            "/healthz": _open("Whether this process answers."),
            "/readyz": _open("Whether there is a snapshot to show."),
            "/metrics": _get("Metrics for Prometheus.", {}, _text("text/plain")),
            "/api/v1/snapshot": _get(
                "The document of `ttmem ps --json`.", _choice(), _document("snapshot-1")
            ),
            "/api/v1/history": _get(
                "Bytes held on each device, a sample a second, an hour at most.",
                {"device": _DEVICE},
                _object(),
            ),
            "/api/v1/events": _get(
                "Snapshots as server-sent events: `snapshot` with the document, `problem` with a sentence.",
                _choice()
                | {"hz": ("How many a second.", {"type": "number", "minimum": 0.1, "maximum": 10})},
                _text("text/event-stream"),
            ),
            "/api/v1/doctor": _get(
                "The document of `ttmem doctor --json`.", {}, _document("doctor-1")
            ),
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "ttmem"},
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}},
                    "required": ["error"],
                }
            },
        },
    }


_DEVICE = ("Only these devices, by logical or unique id, separated by commas.", {"type": "string"})
Parameters = dict[str, tuple[str, dict[str, Any]]]


def _choice() -> Parameters:
    names = "|".join(DETAILS)
    return {
        "detail": (
            f"What to list in full: any of {', '.join(DETAILS)}, separated by commas.",
            {"type": "string", "pattern": f"^(({names})(,({names}))*)?$"},
        ),
        "device": _DEVICE,
        "pid": ("Only this process.", {"type": "integer", "minimum": 1, "maximum": 1 << 31}),
        "limit": ("Rows of each list.", {"type": "integer", "minimum": 1, "maximum": 100_000}),
    }


def _get(about: str, parameters: Parameters, answer: dict[str, Any]) -> dict[str, Any]:
    given = [
        {"name": name, "in": "query", "description": text, "schema": schema}
        for name, (text, schema) in parameters.items()
    ]
    answers = {"200": {"description": "The answer.", "content": answer}}
    for status, text in _PROBLEMS.items():
        answers[status] = {"description": text, "content": _ERROR}
    answers["401"] = {"description": "A token is needed.", "content": _text("text/plain")}
    return {"get": {"summary": about, "parameters": given, "responses": answers}}


def _open(about: str) -> dict[str, Any]:
    answers = {
        "200": {"description": "Yes.", "content": _text("text/plain")},
        "503": {"description": "No.", "content": _text("text/plain")},
    }
    return {"get": {"summary": about, "security": [], "responses": answers}}


def _text(kind: str) -> dict[str, Any]:
    return {kind: {"schema": {"type": "string"}}}


def _object() -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object"}}}


def _document(name: str) -> dict[str, Any]:
    text = resources.files("ttmem").joinpath("schemas", f"{name}.json").read_text("utf-8")
    return {"application/json": {"schema": _without_references(json.loads(text))}}


def _without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """References within a schema are relative to its root, which it is not in here: they are filled in."""
    definitions = schema.pop("$defs", {})

    def filled(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                name = part["$ref"].rpartition("/")[2]
                return filled(definitions[name])
            return {key: filled(value) for key, value in part.items()}
        return [filled(one) for one in part] if isinstance(part, list) else part

    found: dict[str, Any] = filled(schema)
    return {key: value for key, value in found.items() if key not in ("$schema", "$id")}


_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_PROBLEMS = {
    "400": "The question is wrong; the answer says why.",
    "403": "Not for this user.",
    "404": "There is no such device or process.",
    "503": "There is no snapshot, or too many streams are open.",
}
