"""Where pictures come from: a server, or this host's own shared memory when there is none."""

from ttmem.feeds.feed import Feed
from ttmem.feeds.server_feed import ServerFeed

__all__ = ["Feed", "ServerFeed"]
