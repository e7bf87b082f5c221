"""Chooses the feed that the options of a command name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ttmem.errors import BadInput, ClosedToYou, NoServer, NothingToRead
from ttmem.events import Remark
from ttmem.feeds.feed import Feed
from ttmem.snapshots import Question, Snapshot
from ttmem.sources.shm import check_directories
from ttmem.wire.socket_path import SOCKET_VARIABLE

if TYPE_CHECKING:
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.feeds.server_feed import ServerFeed
    from ttmem.hw.umd import Discovery


class HostFeed(Feed):
    """The server at the default path while there is one, else shared memory; decided anew at each `read`."""

    def __init__(
        self, server: ServerFeed | None = None, *, discovery: Discovery | None = None
    ) -> None:
        from ttmem.feeds.server_feed import ServerFeed

        self._server = server or ServerFeed()
        self._discovery = discovery
        self._local: LocalFeed | None = None
        self.current: ServerFeed | LocalFeed = self._server  # the feed that was read last

    @property
    def name(self) -> str:
        """The name of the feed that was read last."""
        return self.current.name

    def answer(self, question: Question) -> Snapshot:
        try:
            snapshot = self._server.answer(question)
        except (NoServer, ClosedToYou) as problem:
            snapshot = self._without_server(question, problem)
        else:
            self.current = self._server
        return snapshot

    def _without_server(self, question: Question, problem: NoServer | ClosedToYou) -> Snapshot:
        if self._local is None:
            from ttmem.feeds.local_feed import LocalFeed

            self._local = LocalFeed(discovery=self._discovery)
        self.current = self._local
        closed = isinstance(problem, ClosedToYou)
        said = [Remark("server_closed", str(problem))] if closed else []
        snapshot = self._local.answer(question, said)
        if not (snapshot.devices or snapshot.processes) and len(snapshot.remarks) == len(said):
            why = self._local.why_blank()
            if closed:
                raise type(problem)(f"{problem}; and {why}")
            raise NothingToRead.because(why)
        return snapshot

    def close(self) -> None:
        """Closes the connection to the server, if there is one."""
        self._server.close()


def open_feed(
    socket: str | None = None,
    shm: str | None = None,
    *,
    file: str | None = None,
    at: str | float | None = None,
    discovery: Discovery | None = None,
) -> Feed:
    """The feed that the options of a command name.

    `file`: a recording, and `at` an instant in it. `socket`, or TTMEM_SOCKET: that server. `shm`: that directory.
    Otherwise the server at the default path if there is one, else this host's shared memory. `discovery` asks the
    user-mode driver which chips exist, unless a server is asked.
    """
    if file is not None:
        if socket is not None or shm is not None:
            raise BadInput(
                "a recording is read instead of a server or shared memory; give one of them"
            )
        from ttmem.feeds.recording_feed import RecordingFeed

        return RecordingFeed(file, "end" if at is None else at)
    if at is not None:
        raise BadInput("--at names an instant of a recording; name the file, too")
    if socket is not None and shm is not None:
        raise BadInput("--socket asks a server and --shm reads files; give one of them")
    if socket == "":
        raise BadInput("--socket '' names no socket; leave it out for the usual one")
    if shm is not None:
        check_directories(shm)
        from ttmem.feeds.local_feed import LocalFeed

        return LocalFeed(shm, alone=True, discovery=discovery)
    if socket or os.environ.get(SOCKET_VARIABLE):
        from ttmem.feeds.server_feed import ServerFeed

        return ServerFeed(socket)
    check_directories()
    return HostFeed(discovery=discovery)
