"""Where pictures come from: a server, or this host's own shared memory when there is none.

Each name loads what it needs: `ttmem ps` shall start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.feeds.choice import open_feed
    from ttmem.feeds.feed import Feed
    from ttmem.feeds.host_feed import HostFeed
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.feeds.recording_feed import RecordingFeed
    from ttmem.feeds.server_feed import ServerFeed

__all__ = ["Feed", "HostFeed", "LocalFeed", "RecordingFeed", "ServerFeed", "open_feed"]

_HOMES = {
    "Feed": "feed",
    "HostFeed": "host_feed",
    "LocalFeed": "local_feed",
    "RecordingFeed": "recording_feed",
    "ServerFeed": "server_feed",
    "open_feed": "choice",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttmem.feeds' has no attribute {name!r}")
    found: object = getattr(import_module(f"ttmem.feeds.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
