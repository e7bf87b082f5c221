"""`--host`: ttmem on another machine over SSH, and the errors when that fails."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.feeds.sshd import Ssh, ssh_server
from tests.patience import wait_until
from tests.server.harness import RunningServer
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind
from ttmem.commands import main
from ttmem.errors import BadInput, NoServer, Refused, TtmemError
from ttmem.feeds import Feed, remote_feed
from ttmem.feeds.remote_feed import RemoteFeed, remote_command
from ttmem.snapshots import Losses, Question, Snapshot
from ttmem.wire.frames import Frame, FrameStream, json_frame, parse_answer, preamble

MIB = 1 << 20


# -- an ssh that stays here --------------------------------------------------------------------------------------


def other_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a program in the place of ssh."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'ssh: Could not resolve hostname box' >&2; exit 255", NoServer, "cannot reach box: ssh: Could"),
        ("echo 'sh: 1: ttmem: not found' >&2; exit 127", NoServer, "ttmem is not found on box; install it"),
        ("echo \"error: argument VERB: invalid choice: 'relay'\" >&2; exit 2", Refused, "ttmem on box is too old"),
        ("echo Welcome to this machine, dear user; cat >/dev/null", Refused, "its shell must print nothing"),
        ("printf 'TTMEM\\r\\n\\032\\011\\0\\0\\0\\0\\0\\0\\0'; sleep 1", Refused, "speaks version 9 of ttmem"),
        ("echo 'Traceback' >&2; printf '\\033[2Jboom\\n' >&2; exit 1", TtmemError, r"ended with code 1: \?\[2Jboom"),
        ("exit 0", NoServer, "box closed the connection"),
    ],
    ids=["unknown host", "no ttmem", "old ttmem", "talkative shell", "other version", "crash", "end"],
)  # fmt: skip
def test_what_went_wrong_is_said_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    kind: type[TtmemError],
    words: str,
) -> None:
    other_ssh(tmp_path, monkeypatch, script)
    monkeypatch.setattr(remote_feed, "PARTING_S", 0.2)

    with closing(RemoteFeed("box")) as feed, pytest.raises(kind, match=words) as told:
        feed.read()

    assert "\n" not in str(told.value)


def test_a_machine_without_ssh_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        TtmemError, match="ssh cannot be run: No such file or directory; install it"
    ):
        RemoteFeed("box").read()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", "", " ", "a\nb"])
def test_a_host_cannot_be_an_option(host: str) -> None:
    with pytest.raises(BadInput, match="is no host"):
        RemoteFeed(host)


def test_two_hosts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ps", "--host", "a", "--host", "b"])

    assert (
        "--host names one host; for several, see `ttmem top --prometheus`"
        in capsys.readouterr().err
    )


def test_options_of_this_host_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", "--host", "a", "--telemetry"]) == 2

    assert "--host cannot be combined with --telemetry" in capsys.readouterr().err


def test_paths_are_quoted_for_the_other_shell() -> None:
    command = remote_command("/opt/my tools/ttmem", "/tmp/a'b; rm -rf x", None)

    assert shlex.split(command) == [
        "/opt/my tools/ttmem",
        "relay",
        "--socket",
        "/tmp/a'b; rm -rf x",
    ]
    assert remote_command("~/venv/bin/ttmem", None, "/x") == "~/venv/bin/ttmem relay --shm /x"


class OneSnapshot(Feed):
    """A feed without a source."""

    @property
    def name(self) -> str:
        return "test"

    def answer(self, question: Question) -> Snapshot:
        return Snapshot(1, {"name": "box"}, (), (), (), Losses(0, 0, 0))

    def close(self) -> None: ...


def test_without_a_server_questions_are_answered_from_here() -> None:
    questions = [
        {"what": "snapshot"},
        {"what": "snapshot", "detail": ["x"]},
        {"what": "record"},
        [],
    ]
    heard = [preamble(), *(json_frame(Frame.QUERY, question) for question in questions), b""]
    written: list[bytes] = []

    remote_feed._answer(OneSnapshot(), lambda: heard.pop(0), written.append)

    stream = FrameStream("server", 1 << 20)
    stream.feed(b"".join(written))
    answers = []
    while (taken := stream.take()) is not None:
        kind, data, start, length = taken
        if kind is Frame.ANSWER:
            answers.append(parse_answer(memoryview(data)[start : start + length])[0])
    first, second, third, fourth = answers
    assert first["snapshot"]["host"]["name"] == "box"
    assert (
        second["error"]
        == "there is no detail 'x'; known are programs, buffers, cores, events, history"
    )
    assert third["error"] == "there is no query 'record' without a server"
    assert fourth["error"].startswith("this is no query")


def test_a_stream_of_something_else_is_refused() -> None:
    heard = [b"GET / HTTP/1.1\r\n\r\n", b""]
    written: list[bytes] = []

    remote_feed._answer(OneSnapshot(), lambda: heard.pop(0), written.append)

    assert b"this is not a ttmem stream" in written[-1]


def test_the_relay_is_not_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    master, terminal = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", "relay"], stdin=terminal, capture_output=True, check=False
    )
    os.close(master)
    os.close(terminal)

    assert (done.returncode, b"ttmem relay is for programs" in done.stderr) == (2, True)


# -- Debian's sshd -----------------------------------------------------------------------------------------------


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ssh]:
    with ssh_server(tmp_path) as found:
        monkeypatch.setenv("PATH", f"{found.programs}:{os.environ['PATH']}")
        yield found


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[RunningServer]:
    """A server with one device in use."""
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    with closing(AllocationClient(server.path)) as client:
        client.declare_device(DeviceDeclaration(0, unique_id="77", board="n300"))
        client.report_allocation(0, 1, 3 * MIB, MemoryKind.DRAM)
        server.sees(lambda seen: any(device.memory.dram.held for device in seen.devices))
        yield server
    server.stop()


@pytest.mark.slow
def test_ps_shows_what_ttmem_shows_there(
    box: Ssh, busy: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> dict[str, object]:
        assert main(["ps", "--json", "--detail", "buffers", "--socket", busy.path, *options]) == 0
        document: dict[str, object] = json.loads(capsys.readouterr().out)
        return document

    here, there = shown(), shown("--host", box.host)

    same = ("devices", "processes", "buffers", "host")
    assert {key: there[key] for key in same} == {key: here[key] for key in same}


@pytest.mark.slow
def test_without_a_server_there_shared_memory_is_read(
    box: Ssh, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", "--json", "--host", box.host, "--shm", str(box.home)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["devices"] == []


@pytest.mark.slow
def test_a_lost_connection_is_said_and_made_again(
    box: Ssh, busy: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_feed, "LONGEST_PAUSE_S", 0.01)
    with closing(RemoteFeed(box.host, socket=busy.path)) as feed:
        assert feed.read().devices[0].memory.dram.held == 3 * MIB

        for session in _descendants(box.sshd.pid):
            with suppress(ProcessLookupError):  # it ends with the one above it
                os.kill(session, signal.SIGKILL)
        with pytest.raises(
            TtmemError, match=r"ssh cannot reach box: .*\(lost since \d\d:\d\d:\d\d\)"
        ):
            feed.read()

        def again() -> bool:
            try:
                return feed.read().devices[0].memory.dram.held == 3 * MIB
            except TtmemError:
                return False

        wait_until(again)


@pytest.mark.slow
def test_who_is_not_let_in_learns_it_from_ssh(box: Ssh, capsys: pytest.CaptureFixture[str]) -> None:
    (box.home.parent / "authorized_keys").write_text("")

    assert main(["ps", "--host", box.host]) == 3

    assert "ssh cannot reach box: tester@127.0.0.1: Permission denied" in capsys.readouterr().err


@pytest.mark.slow
def test_a_ttmem_with_another_path_can_be_named(
    box: Ssh, capsys: pytest.CaptureFixture[str]
) -> None:
    there = box.home.parent / "there" / "ttmem"
    there.rename(box.home / "my ttmem")

    assert main(["ps", "--host", box.host]) == 3
    assert "ttmem is not found on box" in capsys.readouterr().err
    assert main(["ps", "--host", box.host, "--remote-ttmem", str(box.home / "my ttmem")]) == 0
    assert main(["ps", "--host", box.host, "--remote-ttmem", "~/my ttmem"]) == 0


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid for child in map(int, children) for pid in (child, *_descendants(child))]
