"""Where snapshots come from: a server, this host's own shared memory, or a recording.

Each name loads only what it needs, so that `ttmem ps` starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.feeds.ended import of_ended
    from ttmem.feeds.feed import Feed, idle_host
    from ttmem.feeds.local_feed import LocalFeed
    from ttmem.feeds.opening import HostFeed, open_feed
    from ttmem.feeds.past import PastFeed, recorded
    from ttmem.feeds.recording_feed import RecordingFeed
    from ttmem.feeds.server_feed import ServerFeed

__all__ = [
    "Feed",
    "HostFeed",
    "LocalFeed",
    "PastFeed",
    "RecordingFeed",
    "ServerFeed",
    "idle_host",
    "of_ended",
    "open_feed",
    "recorded",
]

_HOMES = {
    "Feed": "feed",
    "HostFeed": "opening",
    "LocalFeed": "local_feed",
    "PastFeed": "past",
    "RecordingFeed": "recording_feed",
    "ServerFeed": "server_feed",
    "idle_host": "feed",
    "open_feed": "opening",
    "of_ended": "ended",
    "recorded": "past",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttmem.feeds' has no attribute {name!r}")
    found: object = getattr(import_module(f"ttmem.feeds.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
