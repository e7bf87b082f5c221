"""Where a server listens: a path in a folder that other users may write to, some of them hostile."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.other_user import OTHER, needs_root
from tests.own_process import finish, ran
from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer
from ttmem.procfs import user_id
from ttmem.sources.socket.listener import Listener

ROOT = Path(__file__).parents[2]

# Binds as somebody else where clients look by default, and answers nobody; then runs `ttmem ARGUMENTS` as root.
_FALSE_SERVER = """
import os, pwd, runpy, socket, sys
from ttmem.wire.socket_path import DEFAULT_SOCKET
listener = socket.socket(socket.AF_UNIX)
told, tell = os.pipe()
if os.fork() == 0:
    os.setuid(pwd.getpwnam({other!r}).pw_uid)
    listener.bind(DEFAULT_SOCKET)
    os.chmod(DEFAULT_SOCKET, 0o666)
    listener.listen()
    os.write(tell, b"bound")
    while True:
        connection, _ = listener.accept()
        print("somebody said", connection.recv(1 << 16), flush=True)
else:
    os.read(told, 5)
    sys.argv[1:] = {arguments!r}
    runpy.run_module("ttmem", run_name="__main__")
"""


def beside_a_false_server(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In namespaces of its own: /tmp is empty but for this checkout, and every process ends with the command."""
    program = _FALSE_SERVER.format(other=OTHER, arguments=list(arguments))
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    script = 'mount -t tmpfs -o mode=1777 tmpfs /tmp && "$@"'
    if ROOT.is_relative_to("/tmp"):
        script = (
            f"mount --bind '{ROOT}' /mnt && mount -t tmpfs -o mode=1777 tmpfs /tmp"
            f" && mkdir -p '{ROOT}' && mount --bind /mnt '{ROOT}' && \"$@\""
        )
    return ran(
        [*namespaces, "sh", "-c", script, "sh", sys.executable, "-c", program],
        env={**os.environ, "TTMEM_SHM": "/tmp"},
    )


def own_group() -> str:
    try:
        return grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        pytest.skip("the group of this user has no name on this machine")


@needs_root
def test_a_server_of_a_stranger_at_the_usual_place_is_refused_by_name() -> None:
    done = beside_a_false_server("ps")

    assert f"is run by {OTHER}, not by you or root" in done.stderr
    assert "--socket /tmp/tt_allocation_server.sock" in done.stderr
    assert "somebody said b''" in done.stdout  # connected, and left without a word


def test_a_lock_file_of_another_user_or_kind_is_a_clear_error(
    start: StartServer, tmp_path: Path
) -> None:
    lock = tmp_path / "allocation.sock.lock"
    precious = tmp_path / "precious"
    precious.write_text("precious")
    makers: dict[str, Callable[[], object]] = {
        "a FIFO": lambda: os.mkfifo(lock),
        "a hard link": lambda: os.link(precious, lock),
        "a link": lambda: lock.symlink_to(precious),
        "a folder": lambda: lock.mkdir(),
    }
    for what, make in makers.items():
        make()
        server = start(name=what)

        assert server.process.wait(PATIENCE_S) == 2, what
        assert "choose another --socket" in server.log, what
        lock.rmdir() if lock.is_dir() else lock.unlink()
    assert precious.read_text() == "precious"


@needs_root
def test_a_lock_file_on_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    script = (
        f"mount -t tmpfs -o size=8k tmpfs {tmp_path} && touch {tmp_path}/s.lock && "
        f'{{ dd if=/dev/zero of={tmp_path}/fill bs=4k 2>/dev/null; timeout 60 "$@"; }}'
    )
    command = [sys.executable, "-m", "ttmem", "serve", "--socket", f"{tmp_path}/s"]
    done = ran(["unshare", "--mount", "sh", "-c", script, "sh", *command])

    assert (done.returncode, done.stdout) == (2, "")
    assert "No space left on device; free some space, or choose another --socket" in done.stderr


def test_a_folder_where_others_exchange_files_is_refused(
    start: StartServer, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    server = start()

    assert server.process.wait(PATIENCE_S) == 2
    assert "other users can replace files in" in server.log

    tmp_path.chmod(0o1777)  # as /tmp is
    with OldClient(start(name="second").path) as client:
        assert client.ask()["l1_allocated"] == 0


@needs_root
def test_sharing_the_socket_never_follows_a_link_that_was_put_in_its_place(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    group = own_group()
    place = tmp_path / "allocation.sock"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            if place.exists() and not place.is_symlink():
                place.unlink(missing_ok=True)
                place.symlink_to(secret)

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        for number in range(4):
            server = RunningServer(tmp_path, "--group", group, name=f"server{number}")
            wait_until(lambda: "listens at" in server.log or not server.alive)  # noqa: B023
            server.kill()
            place.unlink(missing_ok=True)
    finally:
        done.set()
        attacker.join()

    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_shared_socket_belongs_to_the_group_and_nothing_else_is_left(
    start: StartServer, tmp_path: Path
) -> None:
    group = own_group()
    server = start("--group", group)
    status = os.stat(server.path)

    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, os.getgid())
    assert [name for name in os.listdir(tmp_path) if name.startswith(".ttmem")] == []


@pytest.fixture
def start_for_group() -> Iterator[Callable[[str], RunningServer]]:
    """In a folder that others can enter, too."""
    started = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        def start(group: str) -> RunningServer:
            started.append(RunningServer(Path(folder), "--group", group).wait_ready())
            return started[-1]

        yield start
        for server in started:
            server.kill()


# As a member of the group: reports 1 GiB in the name of pid 1, then runs a program that is root's.
_MEMBER = """
import os, socket, sys
from ttmem.events import Event, Op
from ttmem.wire import frames
from ttmem.wire.frames import Frame
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[3]))
report = socket.socket(socket.AF_UNIX)
report.connect(sys.argv[1])
report.sendall(frames.preamble())
report.sendall(frames.json_frame(Frame.HELLO, {"pid": 1, "name": "init", "role": "application"}))
report.sendall(frames.json_frame(Frame.DEVICE, {"logical_id": 0, "unique_id": "77"}))
report.sendall(frames.frame(Frame.EVENTS, Event(Op.ALLOC, id=1, size=1 << 30).pack()))
sys.stdin.readline()
os.set_inheritable(report.fileno(), True)
os.execv("/usr/bin/su", ["su"])
"""


@needs_root
@pytest.mark.skipif(not os.access("/usr/bin/su", os.X_OK), reason="there is no program of root's")
def test_a_member_of_the_group_speaks_for_itself_whatever_it_claims_and_becomes(
    start_for_group: Callable[[str], RunningServer],
) -> None:
    # given a server of root for a group, and somebody of that group
    member = pwd.getpwnam(OTHER)
    server = start_for_group(grp.getgrgid(member.pw_gid).gr_name)
    arguments = [server.path, str(member.pw_gid), str(member.pw_uid)]
    with subprocess.Popen(
        [sys.executable, "-c", _MEMBER, *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        # when it reports in another name, then becomes a program of root's
        server.sees(
            lambda p: (
                [(process.pid, process.user) for process in p.processes] == [(child.pid, OTHER)]
            )
        )
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_until(lambda: user_id(child.pid) == 0)

        # then what it said is its user's, until it is taken for gone
        users = {
            process.user for process in server.picture().processes if process.pid in (1, child.pid)
        }
        assert users <= {OTHER}
        child.kill()


@needs_root
def test_a_user_outside_the_group_is_told_whom_to_ask(
    start_for_group: Callable[[str], RunningServer],
) -> None:
    server = start_for_group(own_group())
    member = pwd.getpwnam(OTHER)
    program = f"""
import locale, os, sys
import ttmem.client.connection, ttmem.commands.ps, ttmem.commands.serve, ttmem.feeds
os.setgroups([])
os.setgid({member.pw_gid})
os.setuid({member.pw_uid})
sys.exit(ttmem.commands.main())
"""
    done = ran([sys.executable, "-c", program, "ps", "--socket", server.path])

    assert (done.returncode, done.stdout) == (1, "")
    assert "belongs to root and is closed to you; ask them to start" in done.stderr


def test_a_long_path_within_the_limits_of_the_kernel_works(
    start: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / ("d" * (107 - len(str(tmp_path)) - len("/allocation.sock") - 1))
    folder.mkdir()
    server = RunningServer(folder).wait_ready()

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(server.path)
    assert len(server.path) == 107
    server.kill()


def test_a_folder_that_was_renamed_ends_nothing(start: StartServer, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    server = RunningServer(folder).wait_ready()
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        folder.rename(elsewhere)
        log = elsewhere / "server.log"
        server._log = log
        server.logs("clients can no longer connect")

        assert client.ask()["l1_allocated"] == 4096
        elsewhere.rename(folder)
        server._log = folder / "server.log"
        with OldClient(server.path) as another:
            assert another.ask()["l1_allocated"] == 4096
    server.kill()


def test_another_users_file_in_place_of_the_socket_is_left_alone(
    server: RunningServer,
) -> None:
    with OldClient(server.path) as client:
        os.unlink(server.path)
        Path(server.path).write_text("mine now")
        server.logs("was replaced by another file")

        assert client.ask()["l1_allocated"] == 0
    assert server.stop() == 0
    assert Path(server.path).read_text() == "mine now"


def test_a_removed_lock_file_is_created_again(server: RunningServer) -> None:
    lock = Path(f"{server.path}.lock")
    lock.unlink()

    wait_until(lambda: lock.exists() and lock.read_text() == f"{server.process.pid}\n")

    second = finish("serve", "--socket", server.path)
    assert second.returncode == 5
    assert f"another ttmem server (pid {server.process.pid}) serves" in second.stderr


def test_a_server_that_lost_its_place_leaves_socket_and_lock_of_the_next_alone(
    server: RunningServer,
) -> None:
    os.kill(server.process.pid, signal.SIGSTOP)
    Path(f"{server.path}.lock").unlink()
    os.unlink(server.path)
    # when: nothing tells the next server of the first
    with closing(Listener(server.path)) as following:
        os.kill(server.process.pid, signal.SIGCONT)
        server.logs("was replaced by another file")

        assert server.stop() == 0
        assert not following.missing()
        assert Path(f"{server.path}.lock").exists()
