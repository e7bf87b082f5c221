"""Who listens at a socket: one connection, closed again without a word."""

from __future__ import annotations

import os
import socket
import stat

from ttmem.process_identity import peer_credentials, process_facts, user_name
from ttmem.sources.host.facts import SocketFacts, SocketState

_PATIENCE_S = 2.0


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
