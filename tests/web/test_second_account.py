"""Another account of the machine against the page of root: links over root's socket, and everything they open."""

from __future__ import annotations

import grp
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.other_user import needs_root
from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.web.site import WebSite, website
from tests.web.test_siege import REPORTER, answer, request
from ttmem.snapshots import DETAILS

pytestmark = needs_root
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

SECRETS = (b"hunter2", b"private_directory")
LIST = "/api/v1/recording"
MALLORY, CAROL = 65534, 65533
GROUP = grp.getgrgid(65534)  # of both, which may use the socket
# Everything is imported before: another user may not be able to read the interpreter's folders.
AS_USER = """
import locale, os, sys
import ttmem.client.query, ttmem.commands.web, ttmem.server.server, ttmem.wire.socket_path
os.setgroups([])
os.setgid({1})
os.setuid({0})
"""
MAIN = "sys.exit(ttmem.commands.main())"


def link(path: str, uid: int) -> str:
    """What `ttmem web --link` prints for a user."""
    asked = ["web", "--link", "--socket", path]
    command = [sys.executable, "-c", AS_USER.format(uid, GROUP.gr_gid) + MAIN, *asked]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Attacked:
    """Root's server and page, with a process of root that nobody else may read."""

    def __init__(self, path: str, site: WebSite) -> None:
        self.path, self.site = path, site

    def token(self, uid: int) -> str:
        wait_until(lambda: link(self.path, uid))
        address, _, token = link(self.path, uid).partition("/#token=")
        assert address.endswith(f":{self.site.port}")
        return token


@pytest.fixture(scope="module", params=["serve --http", "web"])
def attacked(request: pytest.FixtureRequest) -> Iterator[Attacked]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # the way to the socket
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        http = ["--http", f"127.0.0.1:{port}"] if request.param == "serve --http" else []
        server = RunningServer(folder, "--no-shm", "--group", GROUP.gr_name, *http).wait_ready()
        stack.callback(server.stop)
        program = folder / "private_directory" / "model.py"
        program.parent.mkdir()
        program.write_text(REPORTER)
        command = [sys.executable, str(program), server.path, "--password=hunter2"]
        victim = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        stack.callback(victim.kill)
        assert victim.stdout is not None
        victim.stdout.readline()
        if http:
            wait_until(lambda: link(server.path, 0))
            token = link(server.path, 0).partition("#token=")[2]
            site = WebSite(port, token, server.process)  # type: ignore[arg-type]
        else:
            site = stack.enter_context(website("--socket", server.path, "--per-process"))
        wait_until(lambda: b"hunter2" in site.ask("/api/v1/snapshot").body)
        past = f"{LIST}/past/snapshot?detail=buffers"
        wait_until(lambda: all(secret in site.ask(past).body for secret in SECRETS))
        yield Attacked(server.path, site)


def addresses(site: WebSite) -> list[str]:
    described = site.ask("/openapi.json").document["paths"]
    found = [path for path in described if "{" not in path]
    found += [
        path.replace("{id}", recording) for path in described if "{id}" in path for recording in IDS
    ]
    found += [
        f"/api/v1/{kind}?detail={name}" for name in DETAILS for kind in ("snapshot", "events")
    ]
    return [
        *found,
        *(f"{LIST}/{recording}/snapshot?detail={name}" for recording in IDS for name in DETAILS),
    ]


IDS = ("past", "file")


def test_no_address_shows_another_account_what_root_runs(attacked: Attacked) -> None:
    site, token = attacked.site, attacked.token(MALLORY)
    asked = addresses(site)

    seen = {path: answer(site, request(path, token)) for path in asked}
    of_root = {path: answer(site, request(path, site.token)) for path in asked}

    leaks = [where for where, got in seen.items() if any(secret in got for secret in SECRETS)]
    assert leaks == []
    shown = [where for where, got in of_root.items() if any(secret in got for secret in SECRETS)]
    assert {"/api/v1/snapshot", "/api/v1/events", f"{LIST}/past"} <= set(shown)  # it is there
    assert seen["/api/v1/snapshot"].split()[1] == b"200"
    assert seen["/api/v1/doctor"].split()[1] == b"403"
    assert {got.split()[1] for where, got in seen.items() if "/file" in where} == {b"404"}


def test_a_token_is_worth_what_its_account_is(attacked: Attacked) -> None:
    mine = attacked.token(MALLORY)
    uid, until, code = mine.split(".")
    root = attacked.site.token.split(".")
    forged = [
        f"0.{until}.{code}",
        f"0.{root[1]}.{code}",
        f"{uid}.{int(until) + 1}.{code}",
        f"00.{until}.{root[2]}",
        f"{uid}.{root[1]}.{root[2]}x",
        mine[:-1],
        mine.upper() + "=",
    ]

    assert uid == str(MALLORY)
    for token in forged:
        for more in (f"Authorization: Bearer {token}\r\n", f"Cookie: ttmem={token}\r\n"):
            for path in ("/api/v1/snapshot", "/metrics", LIST):
                got = answer(attacked.site, request(path, more=more))
                assert got.split()[1] == b"401", (token, path)


def test_an_upload_is_neither_seen_nor_closed_by_a_third_account(attacked: Attacked) -> None:
    site = attacked.site
    mallory, carol = attacked.token(MALLORY), attacked.token(CAROL)
    golden = Path(__file__).parent.parent / "data" / "recordings" / "version-1.ttmem"
    kept = site.ask(f"{LIST}?name=../../etc/x", "POST", golden.read_bytes(), token=mallory)
    assert (kept.status, kept.document["name"]) == (201, "x")
    path = f"{LIST}/{kept.document['id']}"

    assert [site.ask(path, token=who).status for who in (mallory, carol)] == [200, 404]
    assert site.ask(path, "DELETE", token=carol).status == 404
    assert path.rpartition("/")[2].encode() not in site.ask(LIST, token=carol).body
    assert site.ask(path, "DELETE", token=mallory).status == 204


def test_damaged_uploads_of_another_account_harm_nobody(attacked: Attacked) -> None:
    site, mallory = attacked.site, attacked.token(MALLORY)
    golden = (Path(__file__).parent.parent / "data" / "recordings" / "version-1.ttmem").read_bytes()
    for step in (7, 61, 331):
        hostile = bytearray(golden)
        for at in range(step, len(hostile), step):
            hostile[at] ^= 0xA5
        got = site.ask(LIST, "POST", bytes(hostile), token=mallory)
        assert got.status in (201, 400, 413)
        if got.status == 201:
            path = f"{LIST}/{got.document['id']}"
            for what in ("", "/history", "/markers", "/snapshot?at=peak:l1&detail=buffers"):
                assert site.ask(f"{path}{what}", token=mallory).status in (200, 400)
            assert site.ask(path, "DELETE", token=mallory).status == 204

    assert site.ask("/healthz", token=None).status == 200
    assert b"hunter2" in site.ask("/api/v1/snapshot").body


@pytest.mark.parametrize(
    "path",
    [
        f"{LIST}/..%2f..%2fsnapshot",
        f"{LIST}/%2e%2e/snapshot",
        f"{LIST}/x/../file",
        f"{LIST}//file",
        f"{LIST}/file%00",
        f"{LIST}/file%2finstant",
        f"{LIST}/.%2ffile/snapshot",
        "/static/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/static/%2fetc%2fpasswd",
        "/api/v1/doctor/",
        "/api/v1//doctor",
    ],
)
def test_path_tricks_open_nothing_more(attacked: Attacked, path: str) -> None:
    got = answer(attacked.site, request(path, attacked.token(MALLORY)))

    assert got.split()[1] in (b"307", b"400", b"404")
    assert not re.search(rb"hunter2|private_directory|root:x|findings\":", got)


def test_another_account_cannot_hand_out_links_to_a_page_of_its_own(attacked: Attacked) -> None:
    # when: it says to root's server that the pages are elsewhere
    told = AS_USER.format(MALLORY, GROUP.gr_gid) + (
        "with ttmem.client.query.ServerConnection(sys.argv[1]) as server:\n"
        "    print(server.query('web_register', address='http://evil', key='0' * 64))"
    )
    command = [sys.executable, "-c", told, attacked.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    # then: it is refused, and links lead to root's page, as before
    assert "only root and the server's user" in done.stdout + done.stderr
    for uid in (0, CAROL):
        assert link(attacked.path, uid).startswith(f"http://127.0.0.1:{attacked.site.port}/#")
