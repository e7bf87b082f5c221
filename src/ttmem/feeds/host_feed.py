"""Pictures of this host from the best there is: a server, else shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ttmem.errors import ClosedToYou, NoServer, NothingToRead
from ttmem.events import Remark
from ttmem.feeds.local_feed import LocalFeed
from ttmem.feeds.server_feed import ServerFeed
from ttmem.snapshots import Snapshot

if TYPE_CHECKING:
    from ttmem.hw.umd import Discovery


class HostFeed:
    """Asks the server while there is one; each `read` looks for it anew, so one may come and go."""

    def __init__(
        self, server: ServerFeed | None = None, *, discovery: Discovery | None = None
    ) -> None:
        self._server = server or ServerFeed()
        self._discovery = discovery
        self._local: LocalFeed | None = None
        self._name = self._server.name

    @property
    def name(self) -> str:
        """Of what was read last."""
        return self._name

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """See `Feed.read`. NoServer: there is no region either."""
        wanted = tuple(detail)
        try:
            picture = self._server.read(wanted, device=device, limit=limit)
        except (NoServer, ClosedToYou) as problem:
            picture = self._without_server(wanted, device, limit, problem)
            self._name = self._local.name if self._local else self._server.name
        else:
            self._name = self._server.name
        return picture

    def _without_server(
        self,
        detail: Iterable[str],
        device: str | None,
        limit: int | None,
        problem: NoServer | ClosedToYou,
    ) -> Snapshot:
        if self._local is None:
            self._local = LocalFeed(discovery=self._discovery)
        closed = isinstance(problem, ClosedToYou)
        said = [Remark("server_closed", str(problem))] if closed else []
        picture = self._local.read(detail, device=device, limit=limit, remarks=said)
        if not (picture.devices or picture.processes) and len(picture.remarks) == len(said):
            why = self._local.why_blank()
            if closed:
                raise type(problem)(f"{problem}; and {why}")
            raise NothingToRead(f"{NothingToRead.idle}: {why}; {NothingToRead.advice}")
        return picture

    def close(self) -> None:
        """Ends the connection to the server, if there is one."""
        self._server.close()
