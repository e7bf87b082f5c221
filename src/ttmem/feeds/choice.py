"""Which feed the arguments of a verb ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ttmem.errors import BadInput
from ttmem.wire.socket_path import SOCKET_VARIABLE

if TYPE_CHECKING:
    from ttmem.feeds.feed import Feed


def open_feed(socket: str | None = None, shm: str | None = None) -> Feed:
    """A named socket (argument or TTMEM_SOCKET): that server. A named folder: that shared memory.

    Neither: the server at the usual place if there is one, else this host's shared memory.
    """
    if socket and shm:
        raise BadInput("--socket asks a server and --shm reads files; give one of them")
    if shm:
        if not os.path.isdir(shm):
            raise BadInput(f"--shm {shm} is no folder; regions usually lie in /dev/shm")
        from ttmem.feeds.local_feed import LocalFeed

        return LocalFeed(shm)
    if socket or os.environ.get(SOCKET_VARIABLE):
        from ttmem.feeds.server_feed import ServerFeed

        return ServerFeed(socket)
    from ttmem.feeds.host_feed import HostFeed

    return HostFeed()
