"""/api/v1/recording: recordings at any time, and uploads."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ttmem.errors import BadInput
from ttmem.feeds.past import PastFeed
from ttmem.sizes import human
from ttmem.text import printable
from ttmem.web.http.documents import Asked
from ttmem.web.http.fair_thread import Busy
from ttmem.web.http.opened import ANYBODY, GONE, File, LivePast, NotKept, Opened, Upload, Uploads
from ttmem.web.http.questions import json_answer, json_response, known, number, question
from ttmem.web.http.readings import history, info, instant, markers, snapshot, span

MOST_BYTES = 256 << 20  # per upload
MOST_OF_A_USER, MOST = 8, 32  # uploads
OF_A_USER, OF_ALL = 2, 4  # times the largest upload, together
PART = 1 << 20  # bytes that are written together
BODY_S = 30.0  # a client that sends nothing for this long is dropped
LONGEST_NAME = 200
MOST_PARTS = 4000
MOST_TIMELINE = 2 << 20  # characters of an answer that is kept for the next who asks


class Recordings:
    """The open recordings, and their routes."""

    def __init__(
        self,
        file: str | None = None,
        past: PastFeed | None = None,
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`file` is shown to root and to the user of this process. BadInput if it is not a recording."""
        self.keeps_past = past is not None
        self._most_bytes = most_bytes
        self._opened: dict[str, Opened] = {}
        self._arriving: list[Upload] = []
        self._turns: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)  # by user
        self._reading = Uploads()
        self._timelines: dict[tuple[str, int], tuple[int, str]] = {}
        if file is not None:
            found = File(file, printable(file), os.geteuid())
            try:
                found.answer(span)
            except BaseException:
                found.close()
                raise
            self._opened[found.id] = found
        if past is not None:
            kept = LivePast(past)
            self._opened[kept.id] = kept

    def routes(self) -> list[Route]:
        path = "/api/v1/recording/{id}"
        return [
            Route("/api/v1/recording", self.listing, methods=["GET"]),
            Route("/api/v1/recording", self.upload, methods=["POST"]),
            Route(path, self.info, methods=["GET"]),
            Route(path, self.delete, methods=["DELETE"]),
            Route(f"{path}/instant", self.instant),
            Route(f"{path}/snapshot", self.snapshot),
            Route(f"{path}/history", self.history),
            Route(f"{path}/markers", self.markers),
            Route(f"{path}/events", self.events),
        ]

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()

    def _found(self, request: Request) -> Opened:
        """404 for uploads of other users."""
        opened = self._opened.get(request.path_params["id"])
        if opened is None or not opened.is_for(request.state.uid):
            raise HTTPException(404, GONE)
        return opened

    # -- what there is ---------------------------------------------------------------------------------------

    async def listing(self, request: Request) -> Response:
        known(request)
        uid = request.state.uid
        seen = [opened for opened in self._opened.values() if opened.is_for(uid)]
        found = [await self._entry(opened, uid) for opened in seen]
        return json_answer({"recordings": found, "most_bytes": self._most_bytes})

    async def _entry(self, opened: Opened, uid: int) -> dict[str, Any]:
        """The entry in the list; if the recording cannot be read, with the reason."""
        if opened.entry is not None:
            return opened.entry
        entry: dict[str, Any] = {"id": opened.id, "kind": opened.kind, "name": opened.name}
        try:
            entry |= json.loads(await opened.ask(uid, span))
            return entry | {"problem": None}
        except (NotKept, BadInput, Busy) as problem:
            nothing = {"bytes": None, "started_ns": None, "ended_ns": None, "growing": False}
            return entry | nothing | {"problem": str(problem)}

    async def info(self, request: Request) -> Response:
        known(request)
        return await self._visible(request, info)

    async def delete(self, request: Request) -> Response:
        known(request)
        opened = self._found(request)
        if not isinstance(opened, Upload):
            raise HTTPException(403, "only an upload can be closed")
        del self._opened[opened.id]
        for key in [key for key in self._timelines if key[0] == opened.id]:
            del self._timelines[key]
        opened.close()
        return Response(status_code=204)

    # -- at an instant ---------------------------------------------------------------------------------------

    async def instant(self, request: Request) -> Response:
        """Position and time of an instant."""
        known(request, "at")
        at = request.query_params.get("at", "end")
        work = partial(instant, at=at)
        return json_response(await self._found(request).ask(request.state.uid, work))

    async def snapshot(self, request: Request) -> Response:
        """The document of `ttmem ps FILE --json --at`."""
        return await self._at(request, question(request, "at"), ())

    async def events(self, request: Request) -> Response:
        """The last events before an instant."""
        asked = question(request, "at", detail=("events",))
        return await self._at(request, asked, ("time_ns", "events"))

    async def _at(self, request: Request, asked: Asked, keys: tuple[str, ...]) -> Response:
        """The document of an instant, or only these keys of it."""
        at = request.query_params.get("at", "end")
        return await self._visible(request, partial(snapshot, at=at, asked=asked, keys=keys))

    async def _visible(self, request: Request, work: Callable[..., str]) -> Response:
        """An answer with as much of the past hour as the user may see."""
        uid, opened = request.state.uid, self._found(request)
        shown = partial(work, uid=uid if opened.owner == ANYBODY else None)
        return json_response(await opened.ask(uid, shown))

    # -- the whole -------------------------------------------------------------------------------------------

    async def history(self, request: Request) -> Response:
        """Bytes held by each device, from start to end."""
        known(request, "parts")
        parts = number(request.query_params.get("parts"), "parts", MOST_PARTS) or 1000
        opened = self._found(request)
        uid, key = request.state.uid, (opened.id, parts)
        entry = opened.entry or json.loads(await opened.ask(uid, span))
        known_until, text = self._timelines.get(key, (None, ""))
        if known_until != entry["ended_ns"]:
            text = await opened.ask(uid, partial(history, parts=parts))
            if len(text) <= MOST_TIMELINE:
                self._timelines[key] = entry["ended_ns"], text
            while len(self._timelines) > MOST:
                self._timelines.pop(next(iter(self._timelines)))
        return json_response(text)

    async def markers(self, request: Request) -> Response:
        known(request)
        return await self._visible(request, markers)

    # -- uploads ---------------------------------------------------------------------------------------------

    async def upload(self, request: Request) -> Response:
        known(request, "name")
        name = os.path.basename(request.query_params.get("name", "")) or "upload.ttmem"
        name, uid = printable(name)[:LONGEST_NAME], request.state.uid
        owners = [upload.owner for upload in self._uploads()]
        if owners.count(uid) >= MOST_OF_A_USER or len(owners) >= MOST:
            raise HTTPException(
                503, f"too many recordings are open ({MOST_OF_A_USER} of each user); close some"
            )
        # Mode 0600 and no name: nobody else can open it, and it is gone when it is closed.
        file: BinaryIO = tempfile.TemporaryFile(prefix="ttmem-")  # noqa: SIM115
        upload = Upload(name, uid, file, self._turns[uid], self._reading)
        try:
            self._arriving.append(upload)
            try:
                length = request.headers.get("content-length", "0")
                self._expect(upload, int(length) if length.isdigit() and len(length) < 19 else 0)
                await _received(request, file, partial(self._expect, upload))
            finally:
                self._arriving.remove(upload)
            self._opened[upload.id] = upload
            entry = await self._entry(upload, uid)
            if entry["problem"]:
                raise BadInput(entry["problem"])
            # From now on, lists answer from this, even while a slow question holds the recording.
            upload.entry = entry
        except BaseException:
            self._opened.pop(upload.id, None)
            upload.close()
            raise
        return json_answer(entry, 201)

    def _uploads(self) -> list[Upload]:
        """Open uploads, and those being received."""
        there = [opened for opened in self._opened.values() if isinstance(opened, Upload)]
        return [*there, *self._arriving]

    def _expect(self, arriving: Upload, size: int) -> None:
        """Reserves this many bytes for an upload, if they fit the limits."""
        arriving.bytes = max(arriving.bytes, size)
        if arriving.bytes > self._most_bytes:
            raise HTTPException(
                413,
                f"recordings of more than {human(self._most_bytes)} are not accepted;"
                " open it with `ttmem web FILE`, or raise --max-upload",
            )
        there = self._uploads()
        of_user = sum(upload.bytes for upload in there if upload.owner == arriving.owner)
        of_all = sum(upload.bytes for upload in there)
        if of_user > OF_A_USER * self._most_bytes or of_all > OF_ALL * self._most_bytes:
            raise HTTPException(413, "the open recordings take too much space; close some")


async def _received(request: Request, file: BinaryIO, expect: Callable[[int], None]) -> None:
    """Writes the body to the file; refuses it as soon as it is too long."""
    parts, size, received = [], 0, 0
    body = request.stream().__aiter__()
    while True:
        try:
            part = await asyncio.wait_for(body.__anext__(), BODY_S)
        except StopAsyncIteration:
            break
        except asyncio.TimeoutError:
            raise HTTPException(408, "the upload stalled") from None
        received += len(part)
        expect(received)
        parts.append(part)
        size += len(part)
        if size >= PART:
            await _write(file, b"".join(parts))
            parts, size = [], 0
    await _write(file, b"".join(parts))


async def _write(file: BinaryIO, data: bytes) -> None:
    def write() -> None:
        file.write(data)
        file.flush()

    try:
        await asyncio.to_thread(write)
    except OSError as problem:
        raise HTTPException(507, f"it cannot be kept: {problem.strerror}") from problem
