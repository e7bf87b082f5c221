"""The description of the API, for programs."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from ttmem.snapshots import DETAILS
from ttmem.snapshots.types import DETAIL_ROWS
from ttmem.version import __version__
from ttmem.views.selection import BY


@cache
def openapi() -> dict[str, Any]:
    """OpenAPI 3.1. Documents of commands are described by the schemas that are installed with ttmem."""
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
            "/metrics": _get("Metrics for Prometheus.", {}, _TEXT, kind="text/plain"),
            "/api/v1/snapshot": _get(
                "The document of `ttmem ps --json`.", _choice() | {"by": _BY}, _snapshot()
            ),
            "/api/v1/history": _get(
                "Bytes held on each device, a sample a second, an hour at most.",
                {"device": _DEVICE},
                _of(time_ns=_INTEGER, devices=_part("snapshot", "history")),
            ),
            "/api/v1/events": _get(
                "Snapshots as server-sent events: `snapshot` with the document, `problem` with a sentence.",
                _choice() | {"by": _BY, "hz": _HZ},
                _TEXT,
                kind="text/event-stream",
            ),
            "/api/v1/doctor": _get("The document of `ttmem doctor --json`.", {}, _read("doctor")),
            **_fleet(),
            **_recordings(),
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "ttmem-7417",
                    "description": "Of POST /login. Its name ends with the port in the address, if there is one.",
                },
            },
            "schemas": {"Error": _of(error=_TEXT)},
        },
    }


_INTEGER = {"type": "integer"}
_MAYBE = {"type": ["integer", "null"]}
_TEXT = {"type": "string"}
_NAME = {**_TEXT, "minLength": 1, "maxLength": 256}
_DEVICE = ("Only these devices, by logical or unique id, separated by commas.", _TEXT)
_BY = (
    "Group all live bytes by this: adds `by`, `groups` and `total` of `ttmem ps --by ... --json`."
    " Not together with detail or limit.",
    {"enum": list(BY)},
)
_HZ = ("How many a second.", {"type": "number", "minimum": 0.1, "maximum": 10})
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


_AT = (
    "An instant: seconds since the start (12.5s), start, end, peak:l1, peak:dram, oom, #POSITION,"
    " @NANOSECONDS since 1970, or a time such as 14:05:30. The end, if it is left out.",
    _TEXT,
)


def _recordings() -> dict[str, Any]:
    """The paths of recordings. `past` is the id of the last hour of the live feed, `file` that of the command line."""
    path = "/api/v1/recording/{id}"
    entry = _of(
        id=_TEXT,
        kind={"enum": ["file", "upload", "past"]},
        name=_TEXT,
        bytes=_MAYBE,
        started_ns=_MAYBE,
        ended_ns=_MAYBE,
        growing={"type": "boolean"},
        problem={"type": ["string", "null"]},
    )
    marker = _part("info", "markers")["items"]["properties"] | {"since_start_ns": _INTEGER}
    history = _of(
        started_ns=_INTEGER,
        ended_ns=_INTEGER,
        sampled=_list(_TEXT),
        devices=_part("snapshot", "history"),
    )
    parts = ("The number of parts of equal time.", {**_INTEGER, "minimum": 1, "maximum": 4000})
    narrow = {name: about for name, about in _choice().items() if name != "detail"}
    listing = _get(
        "Recordings that can be asked for.",
        {},
        _of(recordings=_list(entry), most_bytes=_INTEGER),
    )
    return {
        "/api/v1/recording": listing | {"post": _upload(entry)},
        path: _of_recording("The document of `ttmem info --json`.", {}, _read("info"))
        | {"delete": _delete()},
        f"{path}/instant": _of_recording(
            "Position and time of an instant.",
            {"at": _AT},
            _of(position=_INTEGER, time_ns=_INTEGER, since_start_ns=_INTEGER),
        ),
        f"{path}/snapshot": _of_recording(
            "The document of `ttmem ps FILE --json --at`.",
            {"at": _AT} | _choice() | {"by": _BY},
            _snapshot(),
        ),
        f"{path}/history": _of_recording(
            "Bytes held on each device from start to end, with the highest values in each part.",
            {"parts": parts},
            history,
        ),
        f"{path}/markers": _of_recording(
            "Phases, failed allocations, starts and ends of processes, marks: at most 20,000.",
            {},
            _of(markers=_list(_of(**marker)), left_out=_INTEGER),
        ),
        f"{path}/events": _of_recording(
            "The last events before an instant, at most 4,096.",
            {"at": _AT} | narrow,
            _of(time_ns=_INTEGER, events=_part("snapshot", "events")),
        ),
    }


def _fleet() -> dict[str, Any]:
    """The paths for many hosts; 404 without --prometheus."""
    name = ("Of the host: its `instance`, with or without the port.", _NAME)
    host = _get("One of them: its devices and processes.", {"name": name}, _read("fleet-host"))
    host["get"]["parameters"][0]["required"] = True
    about = "All hosts that a Prometheus scrapes, worst first (--prometheus)."
    return {"/api/v1/fleet": _get(about, {}, _read("fleet")), "/api/v1/fleet/host": host}


def _upload(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": "Opens a recording for its sender and root, until it is closed or this process ends.",
        "parameters": [_parameter("name", "What to call it.", _TEXT)],
        "requestBody": {"required": True, "content": _content(_TEXT, "application/octet-stream")},
        "responses": {
            "201": {"description": "The answer.", "content": _content(entry)},
            **_PROBLEMS,
            "408": _problem("The upload stalled."),
            "413": _problem("It is too large."),
            "507": _problem("There is no space on the disk."),
        },
    }


def _delete() -> dict[str, Any]:
    answers = {"204": {"description": "The answer."}, **_PROBLEMS}
    return {"summary": "Closes an upload.", "parameters": [_ID], "responses": answers}


def _of_recording(about: str, parameters: Parameters, schema: dict[str, Any]) -> dict[str, Any]:
    described = _get(about, parameters, schema)
    described["get"]["parameters"].insert(0, _ID)
    described["get"]["responses"]["413"] = _problem("It takes too much memory or time to read.")
    return described


def _get(
    about: str, parameters: Parameters, schema: dict[str, Any], kind: str = "application/json"
) -> dict[str, Any]:
    answers = {
        "200": {"description": "The answer.", "content": _content(schema, kind)},
        **_PROBLEMS,
    }
    given = [_parameter(name, *about) for name, about in parameters.items()]
    return {"get": {"summary": about, "parameters": given, "responses": answers}}


def _parameter(name: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _open(about: str) -> dict[str, Any]:
    content = _content(_TEXT, "text/plain")
    answers = {
        "200": {"description": "Yes.", "content": content},
        "503": {"description": "No.", "content": content},
    }
    return {"get": {"summary": about, "security": [], "responses": answers}}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": _content({"$ref": "#/components/schemas/Error"})}


def _content(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {kind: {"schema": schema}}


def _of(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object with all of these keys."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _snapshot() -> dict[str, Any]:
    """With what the API adds: groups, and which lists were cut."""
    schema, groups = _read("snapshot"), _read("groups")
    added = {name: groups["properties"][name] for name in ("by", "groups", "total")}
    added["limited"] = _list({"enum": list(DETAIL_ROWS)})
    return schema | {"properties": schema["properties"] | added}


def _part(name: str, of: str) -> dict[str, Any]:
    part: dict[str, Any] = _read(name)["properties"][of]
    return part


@cache
def _read(name: str) -> dict[str, Any]:
    """References in a schema are relative to its root; here it is embedded, so they are resolved."""
    text = resources.files("ttmem").joinpath("schemas", f"{name}-1.json").read_text("utf-8")
    schema = json.loads(text)
    definitions = schema.pop("$defs", {})

    def filled(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                name = part["$ref"].rpartition("/")[2]
                return filled(definitions[name])
            return {key: filled(value) for key, value in part.items()}
        return [filled(item) for item in part] if isinstance(part, list) else part

    found: dict[str, Any] = filled(schema)
    return {key: value for key, value in found.items() if key not in ("$schema", "$id")}


_ID = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
_PROBLEMS = {
    "400": _problem("The question is wrong; the answer says why."),
    "401": _problem("A token is needed."),
    "403": _problem("Not for this user."),
    "404": _problem("There is no such recording, device or process, or no Prometheus."),
    "503": _problem("There is no snapshot, or too many streams, uploads or questions are open."),
}
