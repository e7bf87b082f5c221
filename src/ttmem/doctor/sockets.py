"""Sockets that lead nowhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from ttmem.doctor.finding import Finding, Level
from ttmem.sources.host import SocketFacts, SocketState


def socket_findings(sockets: Iterable[SocketFacts]) -> Iterator[Finding]:
    for socket in sockets:
        path = shlex.quote(socket.path)
        if socket.state is SocketState.STALE:
            yield Finding(
                "stale_socket",
                Level.WARNING,
                f"{socket.path}: a socket that nobody listens at; its server was killed",
                f"ttmem clean --socket {path} --yes",
                "`ttmem serve` removes it as well",
                path=socket.path,
            )
        elif socket.state is SocketState.NO_SOCKET:
            yield Finding(
                "not_a_socket",
                Level.WARNING,
                f"{socket.path} is no socket, so no server can listen there",
                f"rm -i {path}",
                "if you know that nobody needs it",
                path=socket.path,
            )
        elif socket.state is SocketState.CLOSED:
            yield Finding(
                "closed_socket",
                Level.WARNING,
                f"{socket.path}: the server of user {socket.user} is closed to you",
                "ttmem serve --group NAME",
                f"to be run by {socket.user}",
                path=socket.path,
            )
        elif socket.state is SocketState.UNKNOWN:
            yield Finding(
                "unknown_socket",
                Level.WARNING,
                f"{socket.path}: whether anybody listens there cannot be told",
                f"ls -l {path}",
                path=socket.path,
            )
