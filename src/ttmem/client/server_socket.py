"""What it means when a client and a server do not meet."""

from __future__ import annotations

import errno
import os
import shlex
import socket
import stat

from ttmem.errors import BadInput, ClosedToYou, NoServer, NotTrusted, TtmemError
from ttmem.process_identity import peer_credentials, user_name
from ttmem.wire.socket_path import DEFAULT_SOCKET, SOCKET_VARIABLE, named_socket, socket_path


def connect(connection: socket.socket, given: str | None) -> None:
    """Connects to the server at `given`, else at the usual place.

    Anybody may listen at the usual place, and would see command lines and paths, or show figures that were made up.
    So there a server must be the user's own or root's, unless the user has named it.
    """
    path = socket_path(given)
    connection.connect(path)
    _, uid = peer_credentials(connection)
    if uid not in (0, os.geteuid()) and named_socket(given) is None:
        raise NotTrusted(
            f"the server at {path} is run by {user_name(uid) or f'uid {uid}'}, not by you or root, and is not asked; "
            f"if you trust it, name it: --socket {path}, or {SOCKET_VARIABLE}"
        )


def trouble(given: str | None, error: Exception) -> TtmemError:
    """What an error on the way to the server means, and what to do."""
    path = socket_path(given)
    if isinstance(error, TtmemError):
        return error
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return NoServer(_absence(path))
    if isinstance(error, PermissionError):
        return ClosedToYou(
            f"the socket {path} belongs to {_owner(path)} and is closed to you; "
            "ask them to start `ttmem serve --group NAME`"
        )
    if isinstance(error, TimeoutError):
        return TtmemError(f"the server at {path} does not answer; is it stopped?")
    if isinstance(error, (ConnectionError, EOFError)):
        return TtmemError(f"the server at {path} closed the connection")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return TtmemError(f"no file can be opened to reach {path}: {error.strerror}")
    if isinstance(error, OSError):
        return BadInput(f"{path} cannot be used as the socket of a server: {error}")
    return TtmemError(f"the conversation with the server at {path} failed: {error!r}")


def _absence(path: str) -> str:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return f"{path} is no socket, so no server listens there; give another --socket"
    except OSError:
        pass
    place = "" if path == DEFAULT_SOCKET else f" --socket {shlex.quote(path)}"
    return f"no server at {path}; start one with `ttmem serve{place}`"


def _owner(path: str) -> str:
    try:
        return user_name(os.stat(path).st_uid) or "somebody else"
    except OSError:
        return "somebody else"
