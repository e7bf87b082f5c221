"""The page of a server; each file of tests has a server of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.harness import RunningServer
from tests.web.site import WebSite, website


@pytest.fixture(scope="module")
def site(server: RunningServer) -> Iterator[WebSite]:
    with website("--socket", server.path) as running:
        yield running
