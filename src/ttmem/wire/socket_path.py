"""The path of the socket."""

from __future__ import annotations

import os

DEFAULT_SOCKET = "/tmp/tt_allocation_server.sock"  # runtimes with the original client connect here
SOCKET_VARIABLE = "TTMEM_SOCKET"


def named_socket(given: str | None = None) -> str | None:
    """The path that the user has named; None: the default."""
    return given or os.environ.get(SOCKET_VARIABLE) or None


def socket_path(given: str | None = None) -> str:
    """The path that was given, else that of the environment, else the original system's."""
    return named_socket(given) or DEFAULT_SOCKET
