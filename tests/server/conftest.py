"""Servers for the tests, stopped whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import RunningServer

StartServer = Callable[..., RunningServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers in the test's folder: start('--board', 'n300')."""
    running: list[RunningServer] = []

    def begin(*options: str, **how: Any) -> RunningServer:
        server = RunningServer(tmp_path, *options, **how)
        running.append(server)
        return server.wait_ready()

    yield begin
    for server in running:
        if server.alive:
            server.kill()


@pytest.fixture
def server(start: StartServer) -> RunningServer:
    """A server without options."""
    return start()
