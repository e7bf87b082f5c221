"""Snapshots from a server, over one lasting connection."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.client.query import ServerConnection
from ttmem.errors import TtmemError
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import checked
from ttmem.snapshots import Snapshot, from_json
from ttmem.snapshots.convert import Earlier
from ttmem.snapshots.detail import received
from ttmem.wire.socket_path import socket_path


class ServerFeed:
    """Asks the server at `socket`; connects when it is first asked, and again after trouble."""

    def __init__(self, socket: str | None = None, timeout: float = 5.0) -> None:
        self.path = socket_path(socket)
        self.given = socket  # None: the default path, or that of the environment
        self._timeout = timeout
        self._server: ServerConnection | None = None
        self._earlier: Earlier | None = None

    @property
    def name(self) -> str:
        """'server /tmp/tt_allocation_server.sock'."""
        return f"server {self.path}"

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """See `Feed.read`."""
        wanted = checked(detail)
        if self._server is None:
            self._server = ServerConnection(self.given, self._timeout)
        try:
            answer, attachments = self._server.query(
                "snapshot", detail=wanted, device=device, limit=limit
            )
        except TtmemError:
            self.close()
            raise
        document = answer["snapshot"]
        snapshot = from_json(document, self._earlier)
        self._earlier = Earlier(document, snapshot)
        return replace(snapshot, **received(answer, attachments)) if attachments else snapshot

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self._earlier = None
