"""A page that has ended is noticed: nobody gets a link to its address, where anyone may listen by now."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.web.site import website
from ttmem.client.query import ServerConnection
from ttmem.errors import TtmemError

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


def link(server: RunningServer) -> str | None:
    with ServerConnection(server.path) as connection:
        try:
            return str(connection.query("web_link")[0]["link"])
        except TtmemError:  # there is no page, or it has ended
            return None


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_no_link_leads_to_a_page_that_has_ended(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    try:
        with website("--socket", server.path):
            assert wait_until(lambda: link(server))

        assert link(server) is None
    finally:
        server.kill()


def test_a_killed_page_is_logged_and_started_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = RunningServer(tmp_path, "--no-shm", "--http", f"127.0.0.1:{port}").wait_ready()
    try:
        before = wait_until(lambda: link(server))
        (page,) = children(server.process.pid)
        os.kill(page, signal.SIGKILL)

        wait_until(lambda: link(server) is None)
        server.logs(
            r"WARNING the page has ended \(killed by signal 9\); it is started again in 2 s"
        )
        after = wait_until(lambda: link(server))

        assert None not in (before, after)
        assert before != after
        assert page not in children(server.process.pid)
        assert server.stop() == 0
    finally:
        server.kill()
