"""What it means when a client and a server do not meet."""

from __future__ import annotations

import os
import shlex
import stat

from ttmem.errors import BadInput, ClosedToYou, NoServer, TtmemError
from ttmem.process_identity import user_name
from ttmem.wire.socket_path import DEFAULT_SOCKET


def trouble(path: str, error: Exception) -> TtmemError:
    """What an error on the way to the server means, and what to do."""
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
