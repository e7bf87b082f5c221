"""The routes. Everything under /api/v1 is described by /openapi.json and docs/http-api.md."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ttmem.errors import BadInput, TtmemError
from ttmem.exporters.openmetrics import OPENMETRICS, PLAIN, families, render
from ttmem.snapshots import DETAILS, Snapshot, to_json
from ttmem.views.selection import NotThere, select
from ttmem.web.http.guard import COOKIE, App, Guard
from ttmem.web.http.live import Live, Question, visible_to
from ttmem.web.http.openapi import openapi
from ttmem.web.http.stream import Stream, Streams
from ttmem.wire.tokens import LIFETIME_S, LONGEST, Tokens

STATIC = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}
FASTEST_HZ = 10.0
QUIET_S = 15.0  # between comments that keep a stream open
MOST_ROWS = 100_000
MOST_DOCUMENTS = 16
REGISTER_S = 10.0


class Site:
    """All routes of one process, over one feed."""

    def __init__(
        self,
        live: Live,
        tokens: Tokens,
        doctor: Callable[[], dict[str, Any]],
        *,
        per_process: bool = False,
        register: Callable[[], None] | None = None,
    ) -> None:
        """`doctor` examines the host: the document of `ttmem doctor --json`.

        `register` tells a server where this is; it is called again and again, since the server may be started later.
        """
        self._register = register
        self._live = live
        self._doctor = doctor
        self._tokens = tokens
        self._per_process = per_process
        self._streams = Streams()
        self._documents: dict[object, str] = {}  # the latest

    def app(self, hosts: list[str], *, public_metrics: bool = False) -> App:
        routes = [
            Route("/", self.page),
            Route("/static/{name}", self.static),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.description),
            Route("/api/v1/snapshot", self.snapshot),
            Route("/api/v1/history", self.history),
            Route("/api/v1/events", self.events),
            Route("/api/v1/doctor", self.doctor),
        ]
        inner = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=HANDLERS)
        return Guard(inner, self._tokens, ["localhost", *hosts], public_metrics=public_metrics)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        telling = asyncio.ensure_future(self._tell())
        yield
        telling.cancel()
        self._live.close()

    async def _tell(self) -> None:
        while self._register is not None:
            await asyncio.to_thread(self._register)
            await asyncio.sleep(REGISTER_S)

    # -- the page --------------------------------------------------------------------------------------------

    async def page(self, _: Request) -> Response:
        return _file("live.html")

    async def static(self, request: Request) -> Response:
        return _file(request.path_params["name"])

    async def login(self, request: Request) -> Response:
        """A token for a cookie, so that the page does not have to keep it."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST:
                raise HTTPException(413, "a token is shorter")
        token = body.decode("ascii", "replace").strip()
        if self._tokens.uid(token) is None:
            raise HTTPException(403, "this token is not valid any more; ask for a new link")
        answer = Response(status_code=204)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, token, max_age=LIFETIME_S, httponly=True, samesite="strict", secure=secure
        )
        return answer

    async def logout(self, _: Request) -> Response:
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    # -- for programs ----------------------------------------------------------------------------------------

    async def healthz(self, _: Request) -> Response:
        """This process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _: Request) -> Response:
        """The feed answers."""
        try:
            await self._live.snapshot()
        except TtmemError:
            return PlainTextResponse("no snapshot: the server does not answer\n", 503)
        return PlainTextResponse("ok\n")

    async def description(self, _: Request) -> Response:
        return JSONResponse(openapi())

    async def metrics(self, request: Request) -> Response:
        snapshot = await self._live.snapshot()
        strict = "application/openmetrics-text" in request.headers.get("accept", "")
        known = request.state.uid is not None
        text = render(
            families(snapshot, per_process=self._per_process and known), openmetrics=strict
        )
        return Response(text, media_type=OPENMETRICS if strict else PLAIN)

    async def snapshot(self, request: Request) -> Response:
        question = _question(request)
        document = self._document(request, question, await self._live.snapshot(question))
        return Response(document, media_type="application/json")

    async def history(self, request: Request) -> Response:
        _known(request, "device")
        found = await self._live.snapshot(Question(("history",)))
        histories = to_json(_chosen(request, found)).get("history", {})
        return _json({"time_ns": found.time_ns, "devices": histories})

    async def doctor(self, request: Request) -> Response:
        """Findings about the host, for the user who runs this process and for root."""
        _known(request)
        if request.state.uid not in (0, os.geteuid()):
            raise HTTPException(
                403, "findings are shown to root and to the user who runs ttmem web"
            )
        return _json(await asyncio.to_thread(self._doctor))

    # -- a stream --------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Snapshots as server-sent events."""
        question, period = _question(request, "hz"), _period(request, self._live.interval)
        uid = request.state.uid
        self._streams.open(uid)
        return Stream(self._texts(request, question, period), partial(self._streams.close, uid))

    async def _texts(
        self, request: Request, question: Question, period: float
    ) -> AsyncIterator[str]:
        sent, quiet = -1, 0.0
        while True:
            text = ""
            try:
                snapshot = await self._live.snapshot(question)
                if snapshot.time_ns != sent:
                    sent = snapshot.time_ns
                    document = self._document(request, question, snapshot)
                    text = f"event: snapshot\nid: {sent}\ndata: {document}\n\n"
            except TtmemError as problem:
                text = f"event: problem\ndata: {json.dumps(str(problem))}\n\n"
            quiet = 0.0 if text else quiet + period
            if quiet >= QUIET_S:
                text, quiet = ": still here\n\n", 0.0
            if text:
                yield text
            await asyncio.sleep(period)

    def _document(self, request: Request, question: Question, snapshot: Snapshot) -> str:
        """JSON for one user; many pages of that user ask for the same."""
        choice = tuple(sorted(request.query_params.multi_items()))
        key = (snapshot.time_ns, question, request.state.uid, choice)
        if key not in self._documents:
            shown = _chosen(request, visible_to(snapshot, request.state.uid))
            self._documents[key] = json.dumps(to_json(shown))
            while len(self._documents) > MOST_DOCUMENTS:
                del self._documents[next(iter(self._documents))]
        return self._documents[key]


# -- questions -------------------------------------------------------------------------------------------------------


def _known(request: Request, *names: str) -> None:
    unknown = sorted(set(request.query_params) - set(names))
    if unknown:
        raise HTTPException(
            400, f"there is no parameter {unknown[0]!r:.60}; there are {', '.join(names) or 'none'}"
        )


def _question(request: Request, *more: str) -> Question:
    _known(request, "detail", "device", "pid", "limit", *more)
    given = request.query_params
    detail = tuple(sorted({name for name in given.get("detail", "").split(",") if name}))
    for name in detail:
        if name not in DETAILS:
            raise HTTPException(
                400, f"there is no detail {name!r:.60}; there are {', '.join(DETAILS)}"
            )
    limit = _number(given.get("limit"), "limit", MOST_ROWS)
    return Question(detail, None, min(limit or MOST_ROWS, MOST_ROWS) if detail else None)


def _number(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19 and 1 <= int(text) <= most):
        raise HTTPException(400, f"{name} is a whole number from 1 to {most:,}, not {text!r:.60}")
    return int(text)


def _period(request: Request, interval: float) -> float:
    text = request.query_params.get("hz", "1")
    try:
        hz = float(text)
    except ValueError:
        hz = 0.0
    if not 0.1 <= hz <= FASTEST_HZ:
        raise HTTPException(400, f"hz is a number from 0.1 to {FASTEST_HZ:g}, not {text!r:.60}")
    return max(interval, 1 / hz)


def _chosen(request: Request, snapshot: Snapshot) -> Snapshot:
    devices = [one for one in request.query_params.get("device", "").split(",") if one]
    pids = [
        pid for one in request.query_params.getlist("pid") if (pid := _number(one, "pid", 1 << 31))
    ]
    return select(snapshot, devices, pids)


# -- answers ---------------------------------------------------------------------------------------------------------


def _json(document: Any) -> Response:
    """Lone surrogates, which JSON in Python allows, are escaped: they are no UTF-8."""
    return Response(json.dumps(document), media_type="application/json")


def _file(name: str) -> Response:
    kind = STATIC.get(os.path.splitext(name)[1])
    place = resources.files("ttmem.web").joinpath("static", name)
    if kind is None or "/" in name or name.startswith(".") or not place.is_file():
        raise HTTPException(404, "there is no such file")
    return Response(place.read_bytes(), media_type=kind)


async def _http_problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return JSONResponse({"error": problem.detail}, problem.status_code, headers=problem.headers)


async def _problem(_: Request, problem: Exception) -> Response:
    status = 404 if isinstance(problem, NotThere) else 400 if isinstance(problem, BadInput) else 503
    return JSONResponse({"error": str(problem)}, status)


HANDLERS: dict[Any, Any] = {HTTPException: _http_problem, TtmemError: _problem}
