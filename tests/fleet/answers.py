"""A small HTTP server that answers as Prometheus does, or as it should not."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from ttmem.fleet.recorded import (
    ANOMALIES,
    BOARDS,
    DEVICES,
    DRAM_FULLEST,
    FAILED,
    L1_FULLEST,
    OF_WORST,
    PROCESSES,
    SEEN,
)

NOW = 1_800_000_000.0


def series(name: str, value: float, **labels: str) -> dict[str, object]:
    """One of an answer."""
    return {"metric": {"__name__": name, **labels}, "value": [NOW, str(value)]}


def vector(*found: dict[str, object]) -> bytes:
    data = {"resultType": "vector", "result": found}
    return json.dumps({"status": "success", "data": data}).encode()


@contextmanager
def answering(
    answer: Callable[[str], bytes | tuple[int, bytes]], headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Its URL, and the headers of the requests so far. `answer` gets the expression."""
    heard: list[Mapping[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(dict(self.headers))
            expression = parse_qs(urlsplit(self.path).query)["query"][0]
            given = answer(expression)
            status, body = given if isinstance(given, tuple) else (200, given)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


GIB = 1 << 30


def device(host: str, number: str, l1: int, dram: int) -> list[dict[str, object]]:
    where = {"instance": host, "device": number}
    return [
        series("ttmem_device_info", 1, **where, id="0", board="p150"),
        series("ttmem_l1_used_bytes", l1, **where),
        series("ttmem_l1_capacity_bytes", 100, **where),
        series("ttmem_memory_used_bytes", dram * GIB, **where, memory="dram"),
        series("ttmem_memory_capacity_bytes", 8 * GIB, **where, memory="dram"),
        series("ttmem_memory_used_bytes", 5, **where, memory="trace"),
        series("ttmem_anomalies", 2, **where, kind="clash"),
    ]


OF_A = device("a:1", "11", 90, 1)
OF_B = device("b:1", "22", 10, 2)
PROCESS = {"instance": "a:1", "device": "11", "job": "ttmem", "user": "ann", "program": "serve.py"}
MINE = [
    series("ttmem_process_memory_bytes", GIB, **PROCESS, exported_job="77", memory="dram"),
    series("ttmem_process_memory_bytes", 90, **PROCESS, exported_job="77", memory="l1"),
    series("ttmem_processes", 1, instance="a:1", job="ttmem"),
]


def fleet_of_three(expression: str) -> bytes:
    """a is almost full, b is not, c has not been seen for ten minutes."""
    if "vector(time())" in expression:
        chosen = [
            name for name in ("a:1", "b:1") if "instance=" not in expression or name in expression
        ]
        known = [series("", NOW - 3, instance=name) for name in chosen]
        return vector(*known, series("", NOW))
    if expression.startswith("up"):
        return vector(series("up", 0, instance="c:1"))
    if expression.startswith('{__name__=~"instance:'):
        times = {"a:1": NOW - 60, "b:1": NOW - 60, "c:1": NOW - 600}
        names = {L1_FULLEST: 0.9, DRAM_FULLEST: 0.125, DEVICES: 1, PROCESSES: 1, FAILED: 0.98}
        (top, _), ranked = OF_WORST, {"a:1": "11", "b:1": "22", "c:1": "33"}
        return vector(
            *(series(SEEN, value, instance=name) for name, value in times.items()),
            *(series(name, value, instance="a:1") for name, value in names.items()),
            series(BOARDS, 1, instance="a:1", board="p150"),
            series(L1_FULLEST, 0.1, instance="b:1"),
            series(ANOMALIES, 2, instance="b:1"),
            series(L1_FULLEST, 0.99, instance="c:1"),  # recorded before it went away
            *(series(top, 1, instance=name, device=id) for name, id in ranked.items()),
        )
    if expression.startswith("max by (instance) (max_over_time"):
        wanted = re.search(r'"([abc])', expression)
        found = [f"{wanted.group(1)}:1"] if wanted else []
        return vector(*(series("", NOW - 3, instance=name) for name in found))
    if expression.startswith("{__name__") or expression.startswith("last_over_time"):
        return vector(*OF_A, *([*MINE] if "instance=" in expression else OF_B))
    return vector()
