"""The routes. Everything under /api/v1 is described by /openapi.json and docs/http-api.md."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ttmem.errors import BadInput, TtmemError
from ttmem.exporters.openmetrics import OPENMETRICS, PLAIN, families, render
from ttmem.snapshots import Question, Snapshot, to_json
from ttmem.views.selection import NotThere
from ttmem.web.http.connection import HttpConnection
from ttmem.web.http.documents import Asked, document, json_text, visible_to
from ttmem.web.http.fleet import FleetPages
from ttmem.web.http.guard import App, Guard, Receive, Scope, Send, cookie_name
from ttmem.web.http.live import Live, seen
from ttmem.web.http.openapi import openapi
from ttmem.web.http.questions import json_answer, json_response, known, period, question
from ttmem.web.http.recordings import Recordings
from ttmem.wire.tokens import LIFETIME_S, LONGEST, Tokens

MOST_STREAMS = 512  # for all users together
MOST_STREAMS_OF_A_USER = 128


class EventStream(Response):
    """Server-sent events, until the client disconnects, even if there is nothing to send; then calls `closed`."""

    def __init__(self, texts: AsyncIterator[str], closed: Callable[[], None]) -> None:
        super().__init__(media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._texts, self._closed = texts, closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            tasks = [
                asyncio.ensure_future(self._follow(send)),
                asyncio.ensure_future(_gone(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._closed()

    async def _follow(self, send: Send) -> None:
        async for text in self._texts:
            message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
            await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


STATIC = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
FLEET_LINK = b'<a href="/fleet">All hosts</a>'  # in the page of a host, if there is a fleet
QUIET_S = 15.0  # between comments that keep a stream open
MOST_DOCUMENTS, MOST_KEPT = 16, 32 << 20  # characters, of all of them
REGISTER_S = 10.0
LOGIN_S = 10.0  # to send the token
MOST_LOGINS = 64  # that have not sent it; beyond that, the oldest is refused


class Site:
    """All routes of one process, over one feed."""

    def __init__(
        self,
        live: Live,
        tokens: Tokens,
        doctor: Callable[[], dict[str, Any]],
        *,
        per_process: bool = False,
        compat: bool = False,
        register: Callable[[], None] | None = None,
        recordings: Recordings,
        fleet: FleetPages | None = None,
    ) -> None:
        """`doctor` examines the host: the document of `ttmem doctor --json`.

        `register` tells a server where this page is; it is called repeatedly, since the server may be started later.
        """
        self._register = register
        self._live = live
        self._recordings = recordings
        self._fleet = fleet
        self._doctor = doctor
        self._tokens = tokens
        self._per_process = per_process
        self._compat = compat
        self._streams: Counter[int] = Counter()  # that are open, by user
        self._logins: dict[asyncio.Future[str], None] = {}  # not arrived yet, the oldest first
        self._documents: dict[object, asyncio.Future[str]] = {}  # the latest
        self._threads: dict[int, ThreadPoolExecutor] = {}  # by user

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
            *self._recordings.routes(),
        ]
        if self._fleet is not None:
            routes += [Route("/fleet", self.fleet_page), *self._fleet.routes()]
        inner = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=HANDLERS)
        return Guard(
            inner,
            self._tokens,
            ["localhost", *hosts],
            public_metrics=public_metrics,
            is_full=HttpConnection.is_full,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(self._tell())]
        if self._recordings.keeps_past:
            tasks.append(asyncio.ensure_future(self._live.keep_past()))
        yield
        for task in tasks:
            task.cancel()
        self._recordings.close()
        if self._fleet is not None:
            self._fleet.close()
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)
        self._live.close()

    async def _tell(self) -> None:
        while self._register is not None:
            await asyncio.to_thread(self._register)
            await asyncio.sleep(REGISTER_S)

    # -- the page --------------------------------------------------------------------------------------------

    async def page(self, _: Request) -> Response:
        found = _file("live.html")
        if self._fleet is not None:
            return found
        return HTMLResponse(bytes(found.body).replace(FLEET_LINK, b""))

    async def fleet_page(self, _: Request) -> Response:
        return _file("fleet.html")

    async def static(self, request: Request) -> Response:
        return _file(request.path_params["name"])

    async def login(self, request: Request) -> Response:
        """Exchanges a token for a cookie, so that the page need not keep it."""
        arriving = asyncio.ensure_future(_short_text(request))
        self._logins[arriving] = None
        while len(self._logins) > MOST_LOGINS:
            oldest = next(iter(self._logins))
            del self._logins[oldest]
            oldest.cancel()
        with suppress(
            asyncio.CancelledError
        ):  # the page ends; uvicorn would log it for each of them
            await asyncio.wait([arriving], timeout=LOGIN_S)
        self._logins.pop(arriving, None)
        if arriving.cancel() or arriving.cancelled():
            raise HTTPException(408, "the token did not arrive")
        token = arriving.result()
        if self._tokens.uid(token) is None:
            raise HTTPException(403, "this token is no longer valid; ask for a new link")
        answer = Response(status_code=204)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            cookie_name(request.headers["host"]),
            token,
            max_age=LIFETIME_S,
            httponly=True,
            samesite="strict",
            secure=secure,
        )
        return answer

    async def logout(self, request: Request) -> Response:
        answer = Response(status_code=204)
        answer.delete_cookie(cookie_name(request.headers["host"]), httponly=True, samesite="strict")
        return answer

    # -- for programs ----------------------------------------------------------------------------------------

    async def healthz(self, _: Request) -> Response:
        """Liveness: this process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _: Request) -> Response:
        """Readiness: the feed answers."""
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
        per_process = self._per_process and request.state.uid is not None
        found = families(snapshot, per_process=per_process, compat=self._compat)
        text = render(found, openmetrics=strict)
        return Response(text, media_type=OPENMETRICS if strict else PLAIN)

    async def snapshot(self, request: Request) -> Response:
        asked = question(request)
        found = await self._live.snapshot(asked.question, request.state.uid)
        return json_response(await self._document(request.state.uid, asked, found))

    async def history(self, request: Request) -> Response:
        known(request, "device")
        asked = question(request, detail=())
        found = await self._live.snapshot(Question(("history",)), request.state.uid)

        def make() -> str:
            histories = to_json(asked.of(found)).get("history", {})
            return json_text({"time_ns": found.time_ns, "devices": histories})

        return json_response(await self._on_thread_of(request.state.uid, make))

    async def doctor(self, request: Request) -> Response:
        """Findings about the host, for the user who runs this process and for root."""
        known(request)
        if request.state.uid not in (0, os.geteuid()):
            raise HTTPException(
                403, "findings are shown to root and to the user who runs ttmem web"
            )
        return json_answer(await asyncio.to_thread(self._doctor))

    # -- a stream --------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Snapshots as server-sent events."""
        asked, pause = question(request, "hz"), period(request, self._live.interval)
        uid, streams = request.state.uid, self._streams
        if streams.total() >= MOST_STREAMS or streams[uid] >= MOST_STREAMS_OF_A_USER:
            raise HTTPException(503, "too many streams are open; close some pages")
        streams[uid] += 1
        closed = partial(streams.subtract, (uid,))
        return EventStream(self._texts(request, asked, pause), closed)

    async def _texts(self, request: Request, asked: Asked, pause: float) -> AsyncIterator[str]:
        uid, sent, quiet = request.state.uid, -1, 0.0
        while True:
            text = ""
            try:
                snapshot = await self._live.snapshot(asked.question, uid)
                if snapshot.time_ns != sent:
                    sent = snapshot.time_ns
                    data = await self._document(uid, asked, snapshot)
                    text = f"event: snapshot\nid: {sent}\ndata: {data}\n\n"
            except TtmemError as problem:
                text = f"event: problem\ndata: {json.dumps(str(problem))}\n\n"
            quiet = 0.0 if text else quiet + pause
            if quiet >= QUIET_S:
                text, quiet = ": still here\n\n", 0.0
            if text:
                if HttpConnection.is_full(uid):
                    return
                yield text
            await asyncio.sleep(pause)

    async def _document(self, uid: int, asked: Asked, snapshot: Snapshot) -> str:
        """JSON for one user, shared by all pages of that user."""
        key = snapshot.time_ns, asked, uid
        if key not in self._documents:

            def make() -> str:
                visible = visible_to(snapshot, uid, self._live.users)
                return json_text(document(asked, visible))

            self._documents[key] = self._on_thread_of(uid, make)
            while len(self._documents) > MOST_DOCUMENTS or self._kept() > MOST_KEPT:
                del self._documents[next(iter(self._documents))]
        return await asyncio.shield(self._documents[key])  # others may be waiting for it

    def _kept(self) -> int:
        """Characters of the documents that are done."""
        done = (made for made in self._documents.values() if made.done() and not made.cancelled())
        return sum(len(made.result()) for made in done if made.exception() is None)

    def _on_thread_of(self, uid: int, work: Callable[[], str]) -> asyncio.Future[str]:
        """Large answers take seconds of CPU time: a thread for each user, so that other users do not wait."""
        if uid not in self._threads:
            self._threads[uid] = ThreadPoolExecutor(1, "ttmem-answers")
        answer = asyncio.get_running_loop().run_in_executor(self._threads[uid], work)
        answer.add_done_callback(seen)
        return answer


async def _short_text(request: Request) -> str:
    body = b""
    with suppress(ClientDisconnect):  # no user is known who could be told
        async for part in request.stream():
            body += part
            if len(body) > LONGEST:
                raise HTTPException(413, "a token is shorter")
    return body.decode("ascii", "replace").strip()


# -- answers ---------------------------------------------------------------------------------------------------------


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
