"""Who listens at a socket: one connection, closed again without a word."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from enum import Enum

from ttmem.procfs import peer_credentials, process_facts, user_name

_PATIENCE_S = 2.0


class SocketState(Enum):
    """What became of knocking at a socket."""

    ABSENT = "absent"
    SERVED = "served"
    STALE = "stale"  # a socket file, and nobody behind it
    CLOSED = "closed"  # somebody else's, not open to this user
    NO_SOCKET = "no socket"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """A place where a server may be."""

    path: str
    state: SocketState
    user: str | None = None
    server_pid: int | None = None
    server: str | None = None  # its command line


def knock(path: str) -> SocketFacts:
    """What is at this path."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return SocketFacts(path, SocketState.ABSENT)
    except OSError:
        return SocketFacts(path, SocketState.UNKNOWN)
    user = user_name(status.st_uid)
    if not stat.S_ISSOCK(status.st_mode):
        return SocketFacts(path, SocketState.NO_SOCKET, user)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(_PATIENCE_S)
        try:
            door.connect(path)
            pid, _ = peer_credentials(door)
        except ConnectionRefusedError:
            return SocketFacts(path, SocketState.STALE, user)
        except FileNotFoundError:
            return SocketFacts(path, SocketState.ABSENT)
        except PermissionError:
            return SocketFacts(path, SocketState.CLOSED, user)
        except OSError:
            return SocketFacts(path, SocketState.UNKNOWN, user)
    # A server in a container that we cannot see into has pid 0.
    command = process_facts(pid).command if pid else None
    return SocketFacts(path, SocketState.SERVED, user, pid or None, command)
