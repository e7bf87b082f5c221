"""Snapshots from a server, over a persistent connection."""

from __future__ import annotations

from ttmem.client.query import ServerConnection
from ttmem.errors import TtmemError
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import Feed
from ttmem.snapshots import Question, Snapshot, from_json
from ttmem.snapshots.convert import Earlier
from ttmem.snapshots.native_rows import received
from ttmem.wire.socket_path import socket_path


class ServerFeed(Feed):
    """Queries the server at `socket`; connects on first use, and again after an error."""

    def __init__(self, socket: str | None = None, timeout: float = 5.0) -> None:
        self.path = socket_path(socket)
        self.given = socket  # None: the default path, or that of the environment
        self._timeout = timeout
        self._server: ServerConnection | None = None
        self._earlier: Earlier | None = None

    @property
    def name(self) -> str:
        return f"server {self.path}"

    def answer(self, question: Question) -> Snapshot:
        if self._server is None:
            self._server = self._connected()
        try:
            answer, attachments = self._server.query("snapshot", **question._asdict())
        except TtmemError:
            self._disconnect()
            raise
        document = answer["snapshot"]
        snapshot = from_json(document, self._earlier)
        self._earlier = Earlier(document, snapshot)
        return replace(snapshot, **received(answer, attachments)) if attachments else snapshot

    def _connected(self) -> ServerConnection:
        return ServerConnection(self.given, self._timeout)

    def close(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self._earlier = None
