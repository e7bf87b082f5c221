"""Which feed the arguments of a verb ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ttmem.errors import BadInput
from ttmem.sources.shm import check_directories
from ttmem.wire.socket_path import SOCKET_VARIABLE

if TYPE_CHECKING:
    from ttmem.feeds.feed import Feed
    from ttmem.hw.umd import Discovery


def open_feed(
    socket: str | None = None,
    shm: str | None = None,
    *,
    file: str | None = None,
    at: str | float | None = None,
    discovery: Discovery | None = None,
) -> Feed:
    """A recording: `file`, and `at` an instant of it.

    A named socket (argument or TTMEM_SOCKET): that server. A named folder: that shared memory.

    Neither: the server at the usual place if there is one, else this host's shared memory. `discovery`: asks
    the user-mode driver what chips there are, where no server is asked.
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
    from ttmem.feeds.host_feed import HostFeed

    return HostFeed(discovery=discovery)
