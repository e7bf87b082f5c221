"""Finds out who listens on a socket, by connecting and closing again."""

from __future__ import annotations

import os
import socket
import stat
from enum import Enum

from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import peer_credentials, process_facts, user_name

_PATIENCE_S = 2.0


class SocketState(Enum):
    ABSENT = "absent"
    SERVED = "served"
    STALE = "stale"  # a socket file that nobody listens on
    CLOSED = "closed"  # another user's, who does not let this user connect
    NO_SOCKET = "no socket"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SocketFacts:
    path: str
    state: SocketState
    user: str | None = None
    server_pid: int | None = None
    server: str | None = None  # its command line


def knock(path: str) -> SocketFacts:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return SocketFacts(path, SocketState.ABSENT)
    except OSError:
        return SocketFacts(path, SocketState.UNKNOWN)
    user = user_name(status.st_uid)
    if not stat.S_ISSOCK(status.st_mode):
        return SocketFacts(path, SocketState.NO_SOCKET, user)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE_S)
        try:
            client.connect(path)
            pid, _ = peer_credentials(client)
        except ConnectionRefusedError:
            return SocketFacts(path, SocketState.STALE, user)
        except FileNotFoundError:
            return SocketFacts(path, SocketState.ABSENT)
        except PermissionError:
            return SocketFacts(path, SocketState.CLOSED, user)
        except OSError:
            return SocketFacts(path, SocketState.UNKNOWN, user)
    # The pid is 0 if the server is in a container that is not visible from here.
    command = process_facts(pid).command if pid else None
    return SocketFacts(path, SocketState.SERVED, user, pid or None, command)
