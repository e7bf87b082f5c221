"""Servers for the tests, stopped whatever happens."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import RunningServer

StartServer = Callable[..., RunningServer]
Share = Callable[[RunningServer], str]


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


@pytest.fixture
def open_to_everybody() -> Iterator[Share]:
    """Makes a second name of a server's socket, in a folder that everybody can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        def share(server: RunningServer) -> str:
            os.chmod(server.path, 0o666)
            os.link(server.path, os.path.join(folder, "s"))
            return os.path.join(folder, "s")

        yield share
