"""How a client and a server meet: the connection, the greeting, and what it means when they do not."""

from __future__ import annotations

import errno
import os
import shlex
import socket
import stat
from collections.abc import Iterator
from hashlib import blake2b

from ttmem.errors import BadInput, ClosedToYou, NoServer, NotTrusted, Refused, TtmemError
from ttmem.procfs import (
    in_initial_namespace,
    owner_of,
    peer_credentials,
    process_facts,
    user_name,
)
from ttmem.text import printable
from ttmem.wire.frames import Frame, FrameError, FrameStream, json_frame, preamble
from ttmem.wire.socket_path import DEFAULT_SOCKET, SOCKET_VARIABLE, named_socket, socket_path


def connect(connection: socket.socket, given: str | None) -> None:
    """Connects to the server at `given`, or at the default path.

    Anyone can listen at the default path, where they would receive command lines and paths and could present made-up
    figures. A server there must therefore be run by the same user or by root, unless the user has named it explicitly.
    """
    path = socket_path(given)
    connection.connect(path)
    _, uid = peer_credentials(connection)
    if uid not in (0, os.geteuid()) and named_socket(given) is None:
        raise NotTrusted(
            f"the server at {path} is run by {user_name(uid) or f'uid {uid}'}, not by you or root, so it is not used; "
            f"if you trust it, name it: --socket {path}, or {SOCKET_VARIABLE}"
        )


def opening(role: str, reporter: str | None = None) -> bytes:
    """Preamble and HELLO. `reporter` identifies one client of this process, even when it reconnects."""
    facts = process_facts(os.getpid())
    hello = {
        "pid": facts.pid,
        "start_time_ns": facts.start_time_ns,
        "name": (facts.command or "")[:200],
        "container_pid": facts.pid if in_initial_namespace("pid") is False else None,
        "role": role,
    }
    if reporter is not None:
        hello |= {"reporter": reporter, "image": _image(), "hears": True}
    return preamble() + json_frame(Frame.HELLO, hello)


def _image() -> str | None:
    """Identifies the program this process runs: the kernel chooses new addresses for this data at each `exec`."""
    try:
        with open("/proc/self/auxv", "rb") as vector:
            return blake2b(vector.read(), digest_size=8).hexdigest()
    except OSError:
        return None


def frames_from(stream: FrameStream, path: str) -> Iterator[tuple[Frame, str]]:
    """The frames a server has sent, with their text. Raises `Refused` if it refuses, or is not a ttmem server."""
    try:
        while (taken := stream.take()) is not None:
            kind, data, start, length = taken
            if kind is Frame.REFUSED:
                raise Refused(text_of(data[start : start + length]))
            yield kind, text_of(data[start : start + length])
    except FrameError as error:
        raise Refused(f"what listens at {path} is not a server for this client: {error}") from error


def text_of(payload: bytes | bytearray) -> str:
    """A message from the server, made safe for a terminal."""
    return printable(bytes(payload[:1000]))


def explained(given: str | None, error: Exception) -> TtmemError:
    """Says what an error in talking to the server means, and what to do about it."""
    path = socket_path(given)
    if isinstance(error, TtmemError):
        return error
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return NoServer(_absence(path))
    if isinstance(error, PermissionError):
        return ClosedToYou(
            f"the socket {path} belongs to {owner_of(path) or 'somebody else'} and is closed to you; "
            "ask them to start `ttmem serve --group NAME`"
        )
    if isinstance(error, TimeoutError):
        return TtmemError(f"the server at {path} does not answer; is it stopped?")
    if isinstance(error, (ConnectionError, EOFError)):
        return TtmemError(f"the server at {path} closed the connection")
    if isinstance(error, BlockingIOError):
        return TtmemError(
            f"the server at {path} is busy: too many new connections are waiting; try again"
        )
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return TtmemError(f"no file can be opened to reach {path}: {error.strerror}")
    if isinstance(error, OSError):
        return BadInput(f"{path} cannot be used as the socket of a server: {error}")
    return TtmemError(f"communication with the server at {path} failed: {error!r}")


def _absence(path: str) -> str:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return f"{path} is not a socket, so no server listens there; give another --socket"
    except OSError:
        pass
    if not os.path.lexists(path) and os.sep not in path:
        return (
            f"there is no file {path}: neither a recording nor the socket of a server; `ttmem run -o FILE -- COMMAND`"
            f" records, and `ttmem serve --socket {shlex.quote(path)}` starts a server"
        )
    place = "" if path == DEFAULT_SOCKET else f" --socket {shlex.quote(path)}"
    return f"no server at {path}; start one with `ttmem serve{place}`"
