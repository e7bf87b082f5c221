"""/api/v1/fleet: all hosts that a Prometheus scrapes. It is queried once per interval, however many pages are open."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ttmem.fleet.asking import ask_fleet, ask_host
from ttmem.fleet.prometheus import Prometheus
from ttmem.web.http.live import seen
from ttmem.web.http.questions import json_answer, known

INTERVAL_S = 5.0
MOST_HOSTS = 64  # whose answers are cached
LONGEST_NAME = 256
THREADS = 2  # a slow question about one host delays no other page for long


class FleetPages:
    """The state in Prometheus, for every user with a token."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._threads = ThreadPoolExecutor(THREADS, "ttmem-prometheus")
        # By host; None: all of them.
        self._known: dict[str | None, tuple[float, asyncio.Future[dict[str, Any]]]] = {}

    def routes(self) -> list[Route]:
        return [Route("/api/v1/fleet", self.fleet), Route("/api/v1/fleet/host", self.host)]

    async def fleet(self, request: Request) -> Response:
        known(request)
        return json_answer(await self._document(None))

    async def host(self, request: Request) -> Response:
        known(request, "name")
        name = request.query_params.get("name", "")
        if not 0 < len(name) <= LONGEST_NAME:
            raise HTTPException(
                400, f"name must be the name of a host, at most {LONGEST_NAME} characters"
            )
        return json_answer(await self._document(name))

    async def _document(self, host: str | None) -> dict[str, Any]:
        now = time.monotonic()
        asked = self._known.get(host)
        if asked is None or (asked[1].done() and now - asked[0] >= INTERVAL_S):
            loop = asyncio.get_running_loop()
            answer = loop.run_in_executor(self._threads, self._ask, host)
            answer.add_done_callback(seen)
            self._known.pop(host, None)  # the latest is the last
            asked = self._known[host] = now, answer
            while len(self._known) > MOST_HOSTS:
                del self._known[next(iter(self._known))]
        return await asyncio.shield(asked[1])  # others may wait for it, too

    def _ask(self, host: str | None) -> dict[str, Any]:
        if host is None:
            return ask_fleet(self._prometheus).to_json()
        return ask_host(self._prometheus, host).to_json()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
