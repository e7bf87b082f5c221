"""The HTTP API: the same numbers as `ttmem ps --json`, for those who may see them."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import finish, printed
from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.web.site import WebSite, website
from ttmem.client import AllocationClient, MemoryKind
from ttmem.client.query import ServerConnection
from ttmem.events import Remark
from ttmem.fast_dataclasses import replace
from ttmem.feeds import idle_host
from ttmem.feeds.local_feed import LocalFeed
from ttmem.procfs import user_name
from ttmem.snapshots import (
    Anomaly,
    Buffer,
    Kernel,
    LeftBehind,
    LoggedEvent,
    Process,
    Program,
    Question,
    Snapshot,
    from_json,
    to_json,
)
from ttmem.web.http.documents import visible_to
from ttmem.web.http.live import Live
from ttmem.wire.tokens import LIFETIME_S, Tokens

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """With one client that holds 3 MiB of DRAM on device 0."""
    running = RunningServer(tmp_path_factory.mktemp("web"), "--no-shm").wait_ready()
    try:
        with closing(AllocationClient(running.path)) as client:
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM)
            running.sees(lambda seen: any(device.memory.dram.held for device in seen.devices))
            yield running
    finally:
        running.stop()


def without_time(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "time_ns"}


def test_the_snapshot_is_that_of_ps(server: RunningServer, site: WebSite) -> None:
    expected = printed("ps", "--socket", server.path, "--detail", "buffers")

    answer = site.ask("/api/v1/snapshot?detail=buffers")

    assert answer.headers["content-type"] == "application/json"
    assert without_time(answer.document) == without_time(expected)


def test_a_page_gets_a_stream_of_snapshots(site: WebSite) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    headers = {"Authorization": f"Bearer {site.token}"}
    connection.request("GET", "/api/v1/events?hz=10", headers=headers)
    answer = connection.getresponse()

    lines = [answer.readline().decode() for _ in range(8)]

    connection.close()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [line.partition(":")[0] for line in lines[:4]] == ["event", "id", "data", "\n"]
    first, second = (from_json(json.loads(lines[at][6:])) for at in (2, 6))
    assert first.time_ns < second.time_ns


def test_a_stream_is_as_fast_as_the_interval(server: RunningServer) -> None:
    with website("--socket", server.path, "--interval", "0.1") as site:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        headers = {"Authorization": f"Bearer {site.token}"}
        connection.request("GET", "/api/v1/events", headers=headers)
        answer = connection.getresponse()
        lines = [answer.readline().decode() for _ in range(40)]
        connection.close()

    times = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) < 1_000_000_000  # without hz it was one a second at most


def test_history_and_findings_are_there(site: WebSite) -> None:
    history = site.ask("/api/v1/history").document

    assert [device["dram"][-1] for device in history["devices"].values()] == [3 << 20]
    assert site.ask("/api/v1/doctor").document["schema"] == "ttmem.doctor/1"


def test_metrics_come_in_the_format_that_is_asked_for(site: WebSite) -> None:
    plain = site.ask("/metrics")
    strict = site.ask("/metrics", headers={"Accept": "application/openmetrics-text"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert strict.headers["content-type"].startswith("application/openmetrics-text")
    assert b" 3145728\n" in plain.body
    assert strict.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/v1/snapshot?detail=everything", 400, "there is no detail"),
        ("/api/v1/snapshot?limit=0", 400, "limit is a whole number"),
        ("/api/v1/snapshot?pid=x", 400, "pid is a whole number"),
        ("/api/v1/snapshot?colour=red", 400, "there is no parameter"),
        ("/api/v1/snapshot?device=77", 404, "no process has reported device"),
        ("/api/v1/events?hz=1000", 400, "hz is a number"),
        ("/api/v1/nothing", 404, "Not Found"),
        ("/static/app.py", 404, "no such file"),
    ],
)
def test_a_wrong_question_is_told_why(site: WebSite, path: str, status: int, says: str) -> None:
    answer = site.ask(path)

    assert (answer.status, says in answer.document["error"]) == (status, True)


# -- who may ask -----------------------------------------------------------------------------------------------------

DATA = ["/api/v1/snapshot", "/api/v1/history", "/api/v1/events", "/api/v1/doctor", "/metrics"]


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_without_a_token_there_is_no_data(site: WebSite, path: str, method: str) -> None:
    answer = site.ask(path, method, token=None)

    assert answer.status == 401
    assert method == "HEAD" or "token" in answer.document["error"]


@pytest.mark.parametrize(
    "token",
    [
        "0.99999999999.0000",
        "nonsense",
        "0..",
        "-1.1.1",
        pytest.param(Tokens(b"another key").issue(0), id="of another process"),
        "9" * 5000,
        "٣.٣.٣",
    ],
)
def test_a_token_of_somebody_else_is_none(site: WebSite, token: str) -> None:
    header = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}

    assert site.ask("/api/v1/snapshot", headers=header, token=None).status == 401
    assert site.ask("/login", "POST", token.encode(), token=None).status in (403, 413)


def test_an_expired_token_is_none() -> None:
    tokens = Tokens()
    token = tokens.issue(1000, now=0)

    assert tokens.uid(token, now=LIFETIME_S - 1) == 1000
    assert tokens.uid(token, now=LIFETIME_S + 1) is None
    assert tokens.uid(token.replace("1000.", "0."), now=1) is None


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(site: WebSite) -> None:
    answer = site.ask("/login", "POST", site.token.encode(), token=None)

    cookie = answer.headers["set-cookie"]
    assert answer.status == 204
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    name = cookie.partition(";")[0]
    assert site.ask("/api/v1/snapshot", headers={"Cookie": name}, token=None).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost:x", "", "127.0.0.1.nip.io"]
)
@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/api/v1/snapshot", "/static/../api/v1/snapshot"]
)
def test_a_name_that_was_not_allowed_reaches_nothing(site: WebSite, host: str, path: str) -> None:
    assert site.ask(path, headers={"Host": host}).status in (400, 421)


def test_a_request_without_a_host_reaches_nothing(site: WebSite) -> None:
    with socket.create_connection(("127.0.0.1", site.port), 30) as peer:
        peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = peer.recv(1 << 16)

    assert answer.split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_page_cannot_change_anything(site: WebSite, headers: dict[str, str]) -> None:
    answer = site.ask("/login", "POST", site.token.encode(), headers)

    assert answer.status == 403


def test_nothing_is_changed_by_a_get(site: WebSite) -> None:
    assert {site.ask(path).status for path in ("/login", "/logout")} == {405}


@pytest.mark.parametrize(
    "path",
    ["/static/%2e%2e/http/app.py", "/static/..%2fpage.py", "//api/v1/snapshot", "/./api", "/a\\b"],
)
def test_tricks_with_paths_lead_nowhere(site: WebSite, path: str) -> None:
    assert site.ask(path, token=None).status in (400, 401, 404)


def test_every_answer_keeps_browsers_from_running_anything(site: WebSite) -> None:
    for path in ("/", "/api/v1/snapshot", "/nothing", "/healthz"):
        headers = site.ask(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_commands_and_paths_are_for_their_owner_and_root(server: RunningServer) -> None:
    seen = server.picture("buffers")

    def commands(found: Snapshot) -> list[str | None]:
        return [process.command for process in found.processes]

    stranger = visible_to(seen, 54_321)

    assert commands(visible_to(seen, 0)) == commands(seen)
    assert None not in commands(seen)
    assert commands(stranger) == [None] * len(seen.processes)
    assert stranger.devices[0].memory == seen.devices[0].memory


def test_others_see_what_a_kernel_is_called_but_not_where_its_source_is() -> None:
    path, phase = "/home/bob/secret/kernels/attn.cpp", "acquisition of Initech"
    process = Process(42, None, user_name(65_534), "x", True, (), True, {})
    seen = replace(
        idle_host(),
        processes=(process,),
        kernels=(Kernel(42, None, "application", name=path),),
        programs=(Program(42, None, name=path),),
        buffers=(Buffer(42, None, "DRAM", name="ttnn::add", phase=phase),),
        events=(LoggedEvent(1, 42, None, "KERNEL_LOAD", name=path, phase=phase),),
    )

    theirs, own = visible_to(seen, 54_321), visible_to(seen, 65_534)

    assert own == seen
    assert not any(word in json.dumps(to_json(theirs)) for word in ("secret", "Initech"))
    assert [kernel.name for kernel in theirs.kernels or ()] == ["attn.cpp"]
    assert [program.name for program in theirs.programs or ()] == ["attn.cpp"]
    assert [event.name for event in theirs.events or ()] == ["attn.cpp"]
    assert [buffer.name for buffer in theirs.buffers or ()] == ["ttnn::add"]


def test_whoever_gets_the_pid_of_another_user_sees_nothing_of_the_earlier_process() -> None:
    nobody, stranger, second = user_name(65534), user_name(54_321), 1_000_000_000
    start = time.time_ns() - 10 * second
    mine = Process(42, start, stranger, "mine.py", True, ("socket",), True, {})
    theirs = LeftBehind(42, "theirs.py --password", start - second, {}, user=nobody)
    ghost = LeftBehind(43, None, None, {}, ghost=True, user=stranger)  # a file of the stranger
    failed = Anomaly("failed_allocation", "at theirs.py:3", 42, time_ns=start - 2 * second)

    def event(pid: int, site: str, seconds: int) -> LoggedEvent:
        return LoggedEvent(start + seconds * second, pid, None, "ALLOC", site=site)

    buffer = Buffer(42, None, "DRAM", time_ns=start + 2 * second, site="mine.py:1")
    early, late = event(42, "theirs.py:3", -2), event(42, "mine.py:1", 2)
    other = event(43, "theirs.py:3", -2)
    reused = replace(
        idle_host(), processes=(mine,), left_behind=(ghost,), remarks=(failed,),
        buffers=(buffer,), events=(early, late, other),
    )  # fmt: skip

    # when: nothing but the start of the present process tells that there was another
    seen = visible_to(reused, 54_321)

    assert [process.command for process in seen.processes] == ["mine.py"]
    assert [event.site for event in seen.events or ()] == [None, "mine.py:1", None]
    assert "theirs" not in seen.remarks[0].text
    # when: the other is known
    remembered = visible_to(reused, 54_321, {42: None})
    listed = visible_to(replace(reused, left_behind=(theirs,)), 54_321)
    for seen in (remembered, listed):
        assert "theirs" not in json.dumps(to_json(seen))
        assert [event.site for event in seen.events or ()] == [None, None, None]
        assert [buffer.site for buffer in seen.buffers or ()] == ["mine.py:1"]  # it is alive
    seen = visible_to(replace(reused, left_behind=(theirs,)), 65_534)
    assert [left.command for left in seen.left_behind] == ["theirs.py --password"]
    assert [process.command for process in seen.processes] == [None]


def test_a_page_remembers_that_a_pid_had_two_users() -> None:
    def seen(user: str) -> Snapshot:
        process = Process(42, None, user, "x", True, (), True, {})
        return replace(idle_host(), processes=(process,))

    class Reused(LocalFeed):
        snapshots = iter([seen("a"), seen("b"), seen("b")])

        def answer(self, question: Question, remarks: Iterable[Remark] = ()) -> Snapshot:
            return next(self.snapshots)

    async def look_three_times(live: Live) -> None:
        for _ in range(3):
            await live.snapshot()

    with tempfile.TemporaryDirectory() as folder:
        live = Live(Reused(folder), 0.0)
        asyncio.run(look_three_times(live))
        live.close()

    assert live.users == {42: None}


# -- bad clients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
        + b"x" * 9999,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        bytes(range(256)) * 64,
    ],
)
def test_a_malformed_request_ends_its_own_connection_only(
    site: WebSite, request_bytes: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", site.port), 30) as peer:
        try:
            peer.sendall(request_bytes)
            answer = peer.recv(1 << 16)
        except ConnectionError:
            answer = b""

    assert not answer or answer.split()[1].startswith(b"4")
    assert site.ask("/healthz").status == 200


def opens_a_stream(site: WebSite, request: bytes) -> bool:
    with socket.create_connection(("127.0.0.1", site.port), 30) as peer:
        peer.sendall(request)
        return peer.recv(12).split()[1] == b"200"


def test_streams_beyond_the_limit_are_refused_and_come_back(site: WebSite) -> None:
    streams = []
    request = (
        "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {site.token}\r\n\r\n"
    ).encode()
    for _ in range(140):
        peer = socket.create_connection(("127.0.0.1", site.port), 30)
        peer.sendall(request)
        streams.append(peer)
    statuses = [peer.recv(12).split()[1] for peer in streams]

    assert statuses.count(b"200") == 128
    assert statuses.count(b"503") == 12
    assert site.ask("/api/v1/snapshot").status == 200
    for peer in streams:
        peer.close()
    wait_until(lambda: opens_a_stream(site, request))
    assert opens_a_stream(site, request)


# -- beside a server -------------------------------------------------------------------------------------------------


def test_a_server_hands_out_links_to_the_page_it_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    http = ["--http", f"127.0.0.1:{port}", "--public-metrics"]
    server = RunningServer(tmp_path, "--no-shm", *http).wait_ready()

    def link() -> str:
        return finish("web", "--link", "--socket", server.path).stdout.strip()

    wait_until(lambda: bool(link()))
    address, _, token = link().partition("/#token=")
    assert address == f"http://127.0.0.1:{port}"
    site = WebSite(port, token, server.process)  # type: ignore[arg-type]
    assert site.ask("/api/v1/snapshot").status == 200
    assert site.ask("/api/v1/snapshot", token=None).status == 401
    assert site.ask("/metrics", token=None).status == 200

    assert server.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        site.ask("/healthz")


def test_links_are_those_of_the_page_that_was_there_first(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    try:
        with ServerConnection(server.path) as connection:
            for address in ("http://first", "http://second", "http://first"):
                connection.query("web_register", address=address, key="0" * 64)
            answer, _ = connection.query("web_link")
    finally:
        server.stop()

    assert answer["link"].startswith("http://first/#token=")
    assert server.log.count("the page is at") == 1


def test_a_signal_before_it_serves_stops_it_too(tmp_path: Path) -> None:
    early = """
import os, signal, uvicorn
run = uvicorn.Server.run
def after_a_signal(*given, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    run(*given, **named)
uvicorn.Server.run = after_a_signal
from ttmem.commands import program
program()
"""
    with website("--shm", str(tmp_path), program=("-c", early)) as site:
        assert site.process.wait(30) == 0


def test_a_signal_stops_it_and_is_no_failure(tmp_path: Path) -> None:
    with website("--shm", str(tmp_path)) as site:
        assert site.ask("/healthz").status == 200  # it runs

        site.process.terminate()

        assert site.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_without_a_complaint_while_pages_are_open(
    tmp_path: Path, number: signal.Signals
) -> None:
    with website("--shm", str(tmp_path)) as site:
        stream = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        stream.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {site.token}"})
        assert stream.getresponse().readline() == b"event: snapshot\n"

        site.process.send_signal(number)

        assert site.process.wait(30) == 0
        assert site.errors is not None
        site.errors.seek(0)
        said = site.errors.read().splitlines()
        stream.close()

    assert said == ["ttmem: open this link in a browser; Ctrl-C ends"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--http", "0.0.0.0:0"], "--insecure"),
        (["--http", "nonsense"], "write HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "write HOST:PORT"),
        (["--tls-cert", "a.pem"], "must be given together"),
        (["/etc/passwd", "--http", "127.0.0.1:0"], "is not a recording"),
        (["/no/file", "--http", "127.0.0.1:0"], "cannot be read"),
        (["--max-upload", "much"], "--max-upload"),
        (["--http", "192.0.2.1:80", "--insecure"], "cannot listen"),
        (["--tls-cert", "/no/cert", "--tls-key", "/no/key", "--http", "127.0.0.1:0"], "cannot"),
    ],
)
def test_a_wrong_call_is_told_what_to_do(options: list[str], says: str) -> None:
    done = finish("web", *options)

    assert done.returncode in (1, 2)
    assert says in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--http", "0.0.0.0:0"], "give --tls-cert and --tls-key, or --insecure"),
        (["--http", "127.0.0.1:0", "--tls-key", "a.pem"], "must be given together"),
        (["--public-metrics"], "--public-metrics needs --http ADDR"),
        (["--max-upload", "1MiB"], "--max-upload needs --http ADDR"),
    ],
)
def test_a_server_refuses_wrong_options_of_pages_before_it_starts(
    tmp_path: Path, options: list[str], says: str
) -> None:
    done = finish("serve", "--socket", tmp_path / "s.sock", *options)

    assert done.returncode == 2
    assert says in done.stderr
