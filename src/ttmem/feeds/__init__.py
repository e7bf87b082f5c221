"""Where pictures come from: a server, or this host's own shared memory when there is none."""

from ttmem.feeds.choice import open_feed
from ttmem.feeds.feed import Feed
from ttmem.feeds.host_feed import HostFeed
from ttmem.feeds.local_feed import LocalFeed
from ttmem.feeds.server_feed import ServerFeed

__all__ = ["Feed", "HostFeed", "LocalFeed", "ServerFeed", "open_feed"]
