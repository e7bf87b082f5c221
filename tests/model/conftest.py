"""A real server for the stories, and a tracker that reports to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.conftest import server, start
from tests.server.harness import RunningServer
from ttmem.client import AllocationClient, GraphTracker

__all__ = ["server", "start"]


@pytest.fixture
def tracker(server: RunningServer) -> Iterator[GraphTracker]:
    made = GraphTracker(AllocationClient(server.path))
    made.enabled = True
    yield made
    made.client.close()
