"""Clients that mean no good: the page's process stays small and goes on answering, and the accounts are right."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.own_process import printed
from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import RunningServer
from tests.web.site import WebSite, website
from ttmem.client import AllocationClient, MemoryKind
from ttmem.snapshots import DETAILS
from ttmem.wire.tokens import KEY_BYTES, Tokens

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

HELD = 3 << 20
MOST_GROWTH = 96 << 20  # bytes: 600 connections, and 64 MiB that one user may leave unread
TCP_CLOSE = 7
KEY = b"k" * KEY_BYTES
# A real `ttmem web` whose key is known, so that a test can be any user, and whose patience is short.
WITH_KNOWN_KEY = f"""
import ttmem.wire.tokens as tokens
tokens.secrets.token_bytes = lambda size: {KEY!r}
from ttmem.web.http import app, connection
connection.HEAD_S = app.LOGIN_S = 1.0
from ttmem.commands import program
program()
"""

REPORTER = """
import sys
from ttmem.client import AllocationClient, MemoryKind
client = AllocationClient(sys.argv[1])
client.report_allocation(1, 7, 4096, MemoryKind.DRAM, site=__file__ + ":4")
print("ready", flush=True)
input()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """With a client that holds 3 MiB of DRAM and 20,000 small buffers of L1."""
    running = RunningServer(tmp_path_factory.mktemp("siege"), "--no-shm").wait_ready()
    try:
        with closing(AllocationClient(running.path)) as client:
            client.report_allocation(0, 1, HELD, MemoryKind.DRAM)
            for number in range(20_000):
                client.report_allocation(0, 2 + number, 32, MemoryKind.L1)
            running.sees(
                lambda seen: any(device.memory.l1.count == 20_000 for device in seen.devices)
            )
            yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def site(server: RunningServer) -> Iterator[WebSite]:
    with started(server) as running:
        yield running


def started(server: RunningServer) -> AbstractContextManager[WebSite]:
    return website("--socket", server.path, "--per-process", program=("-c", WITH_KNOWN_KEY))


def token(uid: int) -> str:
    return Tokens(KEY).issue(uid)


def request(path: str, who: str | None = None, method: str = "GET", more: str = "") -> bytes:
    authorization = f"Authorization: Bearer {who}\r\n" if who else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    return f"{head}{authorization}{more}\r\n".encode()


def connect(site: WebSite, data: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(PATIENCE_S)
    connection.connect(("127.0.0.1", site.port))
    # One that waits among hundreds may be dropped before it has sent anything.
    with suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(data)
    return connection


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def answer(site: WebSite, data: bytes) -> bytes:
    """All that comes until the connection is closed, or the first event of a stream."""
    with closing(connect(site, data)) as connection:
        got = b""
        while part := _received(connection):
            got += part
            if b"event: snapshot" in got and got.endswith(b"\n\n\r\n"):
                break
        return got


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


def accounts_are_right(server: RunningServer) -> bool:
    (device,) = printed("ps", "--socket", server.path)["devices"]
    dram, l1 = device["memory"]["dram"], device["memory"]["l1"]
    return (dram["requested"], l1["count"], l1["requested"]) == (HELD, 20_000, 20_000 * 32)


def test_500_idle_streams_leave_the_rest_as_it_was(server: RunningServer) -> None:
    with started(server) as site, ExitStack() as streams:
        site.ask("/api/v1/snapshot")
        before = resident(site.process.pid)
        for number in range(500):
            ask = request("/api/v1/events?hz=1", token(1000 + number % 5))
            connection = streams.enter_context(closing(connect(site, ask)))
            assert connection.recv(64).startswith(b"HTTP/1.1 200")

        grown = resident(site.process.pid) - before
        assert accounts_are_right(server)
        assert site.ask("/healthz").status == 200
        assert site.ask("/api/v1/snapshot").status == 200
    assert grown < MOST_GROWTH


def test_clients_that_never_read_cost_a_bounded_amount(server: RunningServer) -> None:
    ask = request("/api/v1/snapshot?detail=buffers", token(1000))
    with started(server) as site, ExitStack() as clients:
        site.ask("/api/v1/snapshot?detail=buffers")
        size = len(site.ask("/api/v1/snapshot?detail=buffers").body)
        before = resident(site.process.pid)
        for _ in range(300):  # together they would take more than a GiB
            clients.enter_context(closing(connect(site, ask, receive_buffer=2048)))
        # then: sooner or later that user is refused, another one is not
        wait_until(lambda: site.ask("/api/v1/snapshot", token=token(1000)).status == 503)
        assert site.ask("/api/v1/snapshot", token=token(1001)).status == 200
        assert accounts_are_right(server)
        grown = resident(site.process.pid) - before
    assert 300 * size > 1 << 30
    assert grown < MOST_GROWTH + 8 * size  # and what is made anew while others are served


def test_who_connects_and_asks_nothing_keeps_nobody_out(
    server: RunningServer, site: WebSite
) -> None:
    with ExitStack() as clients:
        silent = [clients.enter_context(closing(connect(site))) for _ in range(700)]
        half = request("/api/v1/snapshot", site.token)[:-2]
        slow = [clients.enter_context(closing(connect(site, half))) for _ in range(200)]

        assert site.ask("/healthz").status == 200
        assert site.ask("/api/v1/snapshot").status == 200
        assert accounts_are_right(server)
        # then: all of them are dropped, without an answer
        assert {_received(connection) for connection in (*silent, *slow)} == {b""}


@pytest.mark.parametrize(("method", "path"), [("POST", "/logout"), ("GET", "/healthz")])
def test_who_never_sends_the_rest_of_an_answered_request_keeps_nobody_out(
    site: WebSite, method: str, path: str
) -> None:
    announced = request(path, method=method, more="Content-Length: 1000000\r\n")
    announced = announced.replace(b"Connection: close\r\n", b"")
    with ExitStack() as clients:
        held = [clients.enter_context(closing(connect(site, announced))) for _ in range(1100)]

        assert {site.ask("/healthz").status for _ in range(10)} == {200}
        # then: all of them are dropped after their answer
        for connection in held:
            while _received(connection):
                pass


def test_clients_without_a_token_that_never_read_keep_nobody_out(server: RunningServer) -> None:
    # given: more connections than uvicorn accepts, each with answers that it does not read
    ask = b"GET /static/charts.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400
    with website("--socket", server.path) as site, ExitStack() as clients:
        before = resident(site.process.pid)
        held = []
        for _ in range(1100):
            connection = clients.enter_context(closing(connect(site, receive_buffer=2048)))
            connection.setblocking(False)
            with suppress(OSError):
                connection.send(ask)
            held.append(connection)

        assert {site.ask("/healthz", token=None).status for _ in range(10)} == {200}
        assert {site.ask("/api/v1/snapshot").status for _ in range(10)} == {200}
        assert len(os.listdir(f"/proc/{site.process.pid}/fd")) < 400
        assert resident(site.process.pid) - before < MOST_GROWTH


@pytest.mark.parametrize("more", ["", "Connection: close\r\n"])
def test_an_answer_that_nobody_reads_ends_its_connection(server: RunningServer, more: str) -> None:
    hasty = WITH_KNOWN_KEY.replace("connection.HEAD_S", "connection.READ_S = connection.HEAD_S")
    ask = f"GET /api/v1/snapshot?detail=buffers HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
    ask += f"Authorization: Bearer {token(1000)}\r\n\r\n"
    options = ("--socket", server.path)
    with website(*options, program=("-c", hasty)) as site, ExitStack() as clients:
        site.ask("/api/v1/snapshot?detail=buffers")
        peer = clients.enter_context(closing(connect(site, ask.encode(), receive_buffer=2048)))

        # then: it is reset, so that the kernel keeps nothing of it either
        wait_until(lambda: _tcp_state(peer) == TCP_CLOSE)


def _tcp_state(connection: socket.socket) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0]


def test_logins_whose_tokens_never_come_keep_nobody_out(server: RunningServer) -> None:
    # given: a page that waits long for each of them
    patient = WITH_KNOWN_KEY.replace("= 1.0", "= 600.0")
    ask = request("/login", method="POST", more="Content-Length: 64\r\n")
    options = ("--socket", server.path)
    with website(*options, program=("-c", patient)) as site, ExitStack() as clients:
        waiting = [clients.enter_context(closing(connect(site, ask))) for _ in range(1100)]

        # then: the oldest are refused, or dropped before their request was read, and others get in
        refused = [_received(peer) for peer in waiting[:1000]]
        assert all(got == b"" or got.split()[1] == b"408" for got in refused)
        assert any(refused)
        assert site.ask("/healthz", token=None).status == 200
        assert site.ask("/login", "POST", site.token.encode(), token=None).status == 204
        assert site.ask("/api/v1/snapshot").status == 200


def test_a_login_whose_token_never_comes_ends(site: WebSite) -> None:
    ask = request("/login", method="POST", more="Content-Length: 64\r\n")
    with closing(connect(site, ask)) as connection:
        assert b" 408 " in connection.recv(4096)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3" * 1000,
        b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/v1/snapshot HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    ],
    ids=range(14),
)
def test_malformed_requests_are_answered_or_dropped(site: WebSite, data: bytes) -> None:
    got = answer(site, data)

    assert got == b"" or got.split()[1] in (b"200", b"400", b"401", b"403", b"404", b"421", b"431")
    assert b"Traceback" not in got
    assert site.ask("/healthz").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../api/v1/snapshot",
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2flive.html",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/.hidden",
        "/static/live.html%00.js",
        "//api/v1/snapshot",
        "/api//v1/snapshot",
        "/API/v1/snapshot",
        "/api/v1/snapshot/",
        "/healthz/../api/v1/snapshot",
        "/static/..;/api/v1/snapshot",
        "/api/v1/snapshot%3fdetail=events",
        "http://127.0.0.1/api/v1/snapshot",
        "/api/v1/recording/..%2f..%2f..%2fetc%2fpasswd",
    ],
)
def test_path_tricks_reach_nothing_without_a_token(site: WebSite, path: str) -> None:
    got = answer(site, request(path))

    assert got.split()[1] in (b"307", b"400", b"401", b"404")
    assert b"ttmem.snapshot" not in got
    assert b"root:" not in got


def test_a_cookie_takes_no_time_to_read(site: WebSite) -> None:
    # given: what takes http.cookies half a second
    cookie = 'Cookie: ttmem="' + "\\" * 14_000 + '"\r\n'
    spent = _cpu_s(site.process.pid)
    for _ in range(20):
        assert b" 401 " in answer(site, request("/api/v1/snapshot", more=cookie))

    assert _cpu_s(site.process.pid) - spent < 5.0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "[::1].evil.example",
        "[::1]@evil",
        "localhost.",
        "2130706433",
        "0x7f.1",
        "127.0.0.1:80:80",
        "127.0.0.1:x",
        "localhost:",
        "a b",
    ],
)
def test_only_an_address_or_a_known_name_is_a_host(site: WebSite, host: str) -> None:
    headers = f"Host: {host}\r\nAuthorization: Bearer {site.token}\r\n\r\n"
    got = answer(site, f"GET /api/v1/snapshot HTTP/1.1\r\n{headers}".encode())

    assert got.split()[1] in (b"400", b"421")


FORGED = {
    "of another key": Tokens(b"x" * KEY_BYTES).issue(0),
    "of another user": "0." + token(65534).partition(".")[2],
    "that lasts longer": "65534.99999999999." + token(65534).rpartition(".")[2],
    "expired": Tokens(KEY).issue(0, now=0.0),
    "without a code": token(0).rpartition(".")[0] + ".",
    "cut": token(0)[:-1],
    "with more digits": "0" * 200 + token(0),
    "in other digits": token(0).replace("0.", "\u0660.", 1),
    "in two parts": token(0) + " " + token(0),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_token_opens_nothing(site: WebSite, kind: str) -> None:
    given = FORGED[kind].encode("utf-8")
    for how in (b"Authorization: Bearer " + given, b"Cookie: ttmem=" + given):
        data = request("/api/v1/snapshot")[:-2] + how + b"\r\n\r\n"
        assert answer(site, data).split()[1] in (b"400", b"401")


def test_no_address_shows_what_another_user_runs(server: RunningServer, site: WebSite) -> None:
    # given: a process of this user, whose command line and lines of code are nobody else's business
    program = Path(server.path).parent / "private_directory" / "model.py"
    program.parent.mkdir()
    program.write_text(REPORTER)
    command = [sys.executable, str(program), server.path, "--password=hunter2"]
    addresses = [path for path in site.ask("/openapi.json").document["paths"] if "{" not in path]
    addresses += [f"/api/v1/snapshot?detail={name}" for name in DETAILS]
    mine: dict[str, bytes] = {}
    theirs: dict[str, bytes] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ask = partial(site.ask, "/api/v1/snapshot?detail=buffers")
        wait_until(lambda: b"hunter2" in ask().body and b"private_directory" in ask().body)
        for address in addresses:
            for who, found in ((site.token, mine), (token(65534), theirs)):
                found[address] = answer(site, request(address, who))
        process.kill()

    # then: its owner sees it, others see it nowhere, and are answered all the same
    assert [where for where, got in mine.items() if b"hunter2" in got]
    assert [where for where, got in mine.items() if b"private_directory" in got]
    seen = (b"hunter2", b"private_directory")
    assert [where for where, got in theirs.items() if any(text in got for text in seen)] == []
    statuses = {where: got.split()[1] for where, got in theirs.items()}
    assert {status for where, status in statuses.items() if "/fleet" not in where} <= {
        b"200",
        b"403",
    }
