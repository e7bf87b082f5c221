"""The fault classes. Each injects faults for some seconds, stops them all, and says how many it tried."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.other_user import OTHER
from tests.sources.region_writer import Slot, Written

from chaos.stage import ROOT, Failure, Hired, Stage
from ttmem.probe.layout import SECTION, SECTIONS_AT, Section
from ttmem.wire import frames
from ttmem.wire.frames import Frame
from ttmem.wire.historical import Head, Message, encode

SMALL = 256  # KiB of a disk that is soon full
MEMORY_LIMIT = 200.0  # MiB that a hostile user may cost the server, beside its accounts
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ttmem" / "libfaketime"
DAYS = ("+0", "-1d", "+1d", "-20000d", "+90000d", "+3650d", "-3650d")  # 1970 and 2262 are passed


# A process sleeps by the monotonic clock, which nobody sets; libfaketime 0.9.10 shifts even that deadline.
PLAIN_SLEEP = """\
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *rest) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, rest) ? errno : 0;
}
"""


class Skipped(Exception):
    """This class of faults cannot be had here; the reason is one line."""


@dataclass
class Round:
    """What a class has to work with."""

    stage: Stage
    chance: random.Random
    seconds: float

    def turns(self, pause_s: float = 0.05) -> Iterator[None]:
        """Until the time is over; the server's sums are looked at in between."""
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            yield
            self.stage.look(pause_s)


def kill(it: Round) -> int:
    """SIGKILL for the server, clients and watched processes."""
    it.stage.start_server()
    tried = 0
    with it.stage.working():
        for _ in it.turns(0.2):
            tried += 1
            kind = it.chance.choice(("server", "client", "watched", "counters", "historical"))
            if kind == "server":
                it.stage.kill_server()
                time.sleep(it.chance.choice((0.0, 0.3)))
                it.stage.start_server()
            elif there := it.stage.of(kind):
                it.stage.dismiss(it.chance.choice(there))
                if it.chance.random() < 0.5:
                    it.stage.cast.append(it.stage.hire(kind))
                    it.stage.cast[-1].say("go")
    return tried


def stop(it: Round) -> int:
    """SIGSTOP for a while, then SIGCONT."""
    it.stage.start_server()
    tried = 0
    with it.stage.working():
        for _ in it.turns():
            tried += 1
            assert it.stage.server is not None
            pids = [it.stage.server.pid, *(worker.pid for worker in it.stage.cast)]
            chosen = it.chance.sample(pids, it.chance.randint(1, 3))
            if it.chance.random() < 0.5:
                chosen = [it.stage.server.pid]
            for pid in chosen:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(it.chance.uniform(0.1, 1.0))
            for pid in chosen:
                os.kill(pid, signal.SIGCONT)
    return tried


def unlink(it: Round) -> int:
    """Socket, lock, regions and counter files are removed or replaced."""
    it.stage.start_server()
    tried = 0
    with it.stage.working():
        for _ in it.turns():
            tried += 1
            it.chance.choice((_no_socket, _no_lock, _no_file_for_a_while, _no_file))(it)
    return tried


def _no_socket(it: Round) -> None:
    place = Path(it.stage.path)
    if not place.exists():
        return  # it will come back
    if it.chance.random() < 0.5:
        place.unlink()
    else:
        place.rename(place.with_name("elsewhere"))
    how = it.chance.choice(("", "file", "folder", "link", "pipe", "socket"))
    _put(place, how, it.stage.folder / "nothing")
    if how:
        time.sleep(it.chance.uniform(0.0, 1.5))
        _remove(place)
    if it.chance.random() < 0.5:  # somebody comes while nobody can connect
        it.stage.wait_until(lambda: "" if it.stage.answers() else "the socket does not come back")


def _no_lock(it: Round) -> None:
    """Without the socket, too, a second server could not know of the first, and would rightly take its place."""
    it.stage.wait_until(lambda: "" if it.stage.answers() else "the socket does not come back")
    lock = Path(it.stage.path + ".lock")
    lock.unlink(missing_ok=True)
    how = it.chance.choice(("", "file", "link", "pipe"))
    _put(lock, how, it.stage.folder / "nothing")
    command = [sys.executable, "-m", "ttmem", "serve", "--socket", it.stage.path, "--no-shm"]
    try:
        second = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise Failure("a second server does not end") from None
    if second.returncode not in (2, 5):
        raise Failure(f"a second server ended with {second.returncode}: {second.stderr[-500:]!r}")
    _remove(lock)


def _files(it: Round, worker: Hired) -> list[Path]:
    """Its own; a forged one may have its pid in the name, too."""
    return [path for name in worker.files if (path := it.stage.shm / name).exists()]


def _no_file_for_a_while(it: Round) -> None:
    """It comes back; so must what it tells."""
    worker = it.chance.choice(it.stage.of("watched", "counters"))
    for path in _files(it, worker):
        away = path.rename(path.with_name("elsewhere"))
        how = it.chance.choice(("", "file", "folder", "link", "pipe"))
        _put(path, how, away)
        time.sleep(it.chance.uniform(0.0, 1.0))
        _remove(path)
        away.rename(path)


def _no_file(it: Round) -> None:
    """It is gone for good. Its process goes on, and nobody can tell what that holds."""
    worker = it.chance.choice(it.stage.of("watched", "counters"))
    for path in _files(it, worker):
        path.unlink()
    time.sleep(0.2)
    if not worker.pause():
        raise Failure(f"{worker.kind} died of the removal: {worker.errors.read_text()[-2000:]}")
    held = worker.told["held"].values()
    it.stage.bytes_lost += sum(size for kinds in held for size in kinds.values())
    it.stage.dismiss(worker)
    it.stage.fill()
    it.stage.go()


def _put(place: Path, how: str, goal: Path) -> None:
    if how == "file":
        place.write_bytes(os.urandom(8576))
    elif how == "folder":
        place.mkdir()
    elif how == "link":
        place.symlink_to(goal)
    elif how == "pipe":
        os.mkfifo(place)
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(str(place))


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)


def full_disk(it: Round) -> int:
    """Event lines, dumps, and the regions of a watched process, on a disk without room."""
    inside = it.stage.folder / "small"
    inside.mkdir(exist_ok=True)
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size={SMALL}k,mode=1777 ttmem '{inside}' && "
    try:
        subprocess.run([*own, "sh", "-c", f"{mount} true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise Skipped(f"no small disk can be mounted in a namespace: {problem}") from None

    def on_disk(redirect: str) -> list[str]:
        return [*own, "sh", "-c", f'{mount} exec "$@" {redirect}', "sh"]

    it.stage.start_server("--log-events", prefix=on_disk(f"> '{inside}/out' 2> '{inside}/log'"))
    assert it.stage.server is not None
    seen = Path(f"/proc/{it.stage.server.pid}/root{inside}")
    tried = 0
    with it.stage.working():
        for _ in it.turns():
            tried += 1
            with suppress(OSError), (seen / "filling").open("wb") as filling:
                while True:
                    filling.write(bytes(1024))
                    filling.flush()
            it.stage.server.send_signal(signal.SIGUSR1)
            with _historical(it.stage.path) as asking:
                asking.sendall(encode(144, Head(it.chance.choice(DUMPS))))
            time.sleep(it.chance.uniform(0.1, 0.5))
            (seen / "filling").unlink()
        tried += 1
        lone = it.stage.hire("watched", prefix=on_disk(""), regions=str(inside))
        lone.say("go")
        time.sleep(0.5)
        if not lone.pause():
            raise Failure(f"no space for a region ended it: {lone.errors.read_text()[-2000:]}")
        held = lone.told["held"].values()
        it.stage.bytes_lost += sum(size for kinds in held for size in kinds.values())
        said = lone.errors.read_text()
        lone.end()
        if "ttmem" not in said:
            raise Failure(f"nothing says that there was no space for a region: {said!r}")
    return tried


DUMPS = (Message.DUMP_REMAINING, Message.DUMP_KERNELS)


@contextmanager
def _historical(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        yield connection


def descriptors(it: Round) -> int:
    """RLIMIT_NOFILE of the server, while others connect, and of clients, while they must."""
    it.stage.start_server()
    tried = 0
    with it.stage.working():
        for _ in it.turns():
            tried += 1
            if it.chance.random() < 0.5:
                assert it.stage.server is not None
                with _few_files(it.stage.server.pid, it.chance.randint(0, 4)), ExitStack() as many:
                    for _ in range(40):
                        connection = many.enter_context(socket.socket(socket.AF_UNIX))
                        connection.settimeout(5)
                        with suppress(OSError):
                            connection.connect(it.stage.path)
                    if it.chance.random() < 0.5:
                        it.stage.dismiss(it.chance.choice(it.stage.of("client", "watched")))
                    time.sleep(it.chance.uniform(0.1, 0.5))
                it.stage.fill()
                it.stage.go()
            else:
                with ExitStack() as limits:
                    for one_of in it.stage.of("client"):
                        limits.enter_context(_few_files(one_of.pid, 0))
                    it.stage.kill_server()
                    it.stage.start_server()
                    time.sleep(it.chance.uniform(0.1, 0.5))
    return tried


@contextmanager
def _few_files(pid: int, more: int) -> Iterator[None]:
    """So many beyond those that are open."""
    old = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    few = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1 + more
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(few, old[1]), old[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, old)


def slow(it: Round) -> int:
    """Half frames, answers that nobody reads, connections that say nothing."""
    it.stage.start_server()
    tried = 0
    question = frames.json_frame(Frame.QUERY, {"what": "snapshot", "detail": ["buffers"]})
    hello = frames.preamble() + frames.json_frame(Frame.HELLO, {"pid": 0, "role": "monitor"})
    events = frames.HEADER.pack(Frame.EVENTS, 64 << 10)
    words = (
        b"",
        hello[:3],
        hello[:-1],
        hello + events + bytes(100),
        hello + question[:-1],
        encode(144, Head(Message.QUERY))[:100],
        hello + question * 50,
        encode(144, Head(Message.QUERY)) * 2000,
        encode(144, Head(Message.DUMP_REMAINING)) * 20,
    )
    with it.stage.working(), ExitStack() as open_:
        for _ in it.turns():
            for _ in range(20):
                tried += 1
                peer = open_.enter_context(socket.socket(socket.AF_UNIX))
                peer.settimeout(5)
                peer.connect(it.stage.path)
                peer.setblocking(False)
                with suppress(OSError):  # BlockingIOError: the server does not read on, as it may
                    peer.send(it.chance.choice(words), socket.MSG_NOSIGNAL)
            if tried % 400 == 0:
                open_.close()
    return tried


def clock(it: Round) -> int:
    """The clock of server, client and watched process is set back and forth while they run."""
    libraries, file = (_plain_sleep(it.stage.folder), _faketime()), it.stage.folder / "clock"
    variables = {
        "LD_PRELOAD": ":".join(map(str, libraries)),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    file.write_text("+0")
    new = file.with_suffix(".new")
    it.stage.start_server(variables=variables)
    it.stage.fill()
    for kind in ("client", "watched", "counters"):
        it.stage.dismiss(it.stage.of(kind)[0])
        it.stage.cast.append(it.stage.hire(kind, variables=variables))
    tried = 0
    with it.stage.working():
        for _ in it.turns(0.3):
            tried += 1
            new.write_text(it.chance.choice(DAYS))
            new.rename(file)
        new.write_text("+3650d")
        new.rename(file)
        if it.stage.picture().time_ns < time.time_ns() + 10**17:
            raise Failure("libfaketime is loaded, but the server's clock was never set")
    return tried


def _plain_sleep(folder: Path) -> Path:
    library = folder / "plain_sleep.so"
    if not library.exists():
        build = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(build, input=PLAIN_SLEEP.encode(), check=True)
    return library


def _faketime() -> Path:
    """Debian's library, unpacked below the user's cache; nothing is installed."""
    found = [*CACHE.glob("**/libfaketimeMT.so.1")]
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        fetch = ["apt-get", "download", "libfaketime"]
        try:
            subprocess.run(fetch, cwd=CACHE, check=True, capture_output=True, timeout=60)
            for package in CACHE.glob("*.deb"):
                subprocess.run(
                    ["dpkg", "-x", package, CACHE], check=True, capture_output=True, timeout=60
                )
        except (OSError, subprocess.SubprocessError) as problem:
            raise Skipped(f"Debian's libfaketime cannot be had: {problem}") from None
        found = [*CACHE.glob("**/libfaketimeMT.so.1")]
    if not found:
        raise Skipped("Debian's libfaketime has no libfaketimeMT.so.1")
    return found[0]


def forged(it: Round) -> int:
    """Regions and counter files that are none, or lie; all but second names stay where they are."""
    it.stage.start_server()
    tried = 0
    with it.stage.working():
        for _ in it.turns():
            tried += 1
            for path in it.stage.shm.glob("*second*"):
                path.unlink()
            it.chance.choice(FORGERIES)(it)
        for path in it.stage.shm.glob("*second*"):
            path.unlink()
    return tried


def _new_name(it: Round) -> Path:
    pid = it.chance.choice([77, 2**22 + 5, *(worker.pid for worker in it.stage.cast)])
    number = it.chance.randrange(10**12)
    name = it.chance.choice((f"ttmem_{pid}_{number}", f"tt_device_{number}_memory"))
    return it.stage.shm / name


def _garbage(it: Round) -> None:
    size = it.chance.choice((0, 1, 8576, 9280, 1 << 20))
    _new_name(it).write_bytes(it.chance.randbytes(size))


def _zeros(it: Round) -> None:
    with _new_name(it).open("wb") as file:
        file.truncate(it.chance.choice((8576, 1 << 20, 1 << 40)))


def _no_plain_file(it: Round) -> None:
    there = [*it.stage.shm.iterdir()]
    _put(_new_name(it), it.chance.choice(("link", "pipe", "folder")), it.chance.choice(there))


def _copy(it: Round) -> None:
    """Of a real region, under a name of somebody else, with numbers that fit into no account."""
    worker = it.chance.choice(it.stage.of("watched"))
    for path in _files(it, worker):
        data = bytearray(path.read_bytes())
        data[24:28] = it.chance.choice((77, 2**22 + 5)).to_bytes(4, "little")  # the pid
        if it.chance.random() < 0.7:
            section = SECTIONS_AT + it.chance.choice([*Section]) * SECTION.size
            offset, count, stride = SECTION.unpack_from(data, section)
            size = min(count * stride, 1 << 18)
            data[offset : offset + size] = it.chance.choice((b"\xff", b"\x7f", b"\x01")) * size
        pid = int.from_bytes(data[24:28], "little")
        (it.stage.shm / f"ttmem_{pid}_{it.chance.randrange(10**9)}").write_bytes(data)


def _second_name(it: Round) -> None:
    worker = it.chance.choice(it.stage.of("watched", "counters"))
    for path in _files(it, worker):
        os.link(path, path.with_name(f"{path.name}_second"))


def _counters(it: Round) -> None:
    """Of a dead process, with impossible sums, in a file of ours or of somebody else."""
    huge = it.chance.choice((1 << 33, (1 << 44) - 1, (1 << 64) - 1))
    slots = [Slot(2**22 + 5, (huge, huge, 0, 0, 0))]
    totals = (huge, huge, 0, 0, 0)
    written = Written(number=it.chance.randrange(10**12), slots=slots, totals=totals)
    path = written.write(it.stage.shm)
    if os.geteuid() == 0 and it.chance.random() < 0.5:
        shutil.chown(path, OTHER)


def _stolen(it: Round) -> None:
    """Another user's copy of a real region, for the same live process."""
    if os.geteuid() == 0:
        worker = it.chance.choice(it.stage.of("watched"))
        for path in _files(it, worker):
            copy = it.stage.shm / f"ttmem_{worker.pid}_{it.chance.randrange(10**9)}"
            shutil.copyfile(path, copy)
            shutil.chown(copy, OTHER)


FORGERIES: tuple[Callable[[Round], None], ...] = (
    _garbage,
    _zeros,
    _no_plain_file,
    _copy,
    _second_name,
    _counters,
    _stolen,
)


def hostile(it: Round) -> int:
    """A second user who may connect, and floods, declares, forges and holds what can be held."""
    if os.geteuid() != 0:
        raise Skipped("only root can be two users")
    import grp
    import pwd

    group = grp.getgrgid(pwd.getpwnam(OTHER).pw_gid).gr_name
    (it.stage.folder / "socket").chmod(0o755)
    it.stage.start_server("--group", group)
    it.stage.settle()
    before = it.stage.memory()
    tried = 0
    attackers: list[subprocess.Popen[bytes]] = []
    honest = [worker.first for worker in it.stage.cast], [worker.pid for worker in it.stage.cast]
    words = [",".join(map(str, numbers)) for numbers in honest]
    try:
        with it.stage.working():
            for _ in it.turns(0.2):
                attackers = [process for process in attackers if process.poll() is None]
                if len(attackers) < 4:
                    tried += 1
                    seed = str(it.chance.randrange(10**9))
                    place = [it.stage.path, str(it.stage.shm)]
                    command = [sys.executable, "-m", "chaos.hostile", seed, *place, *words]
                    with open(it.stage.folder / "hostile.log", "ab") as log:
                        attackers.append(subprocess.Popen(command, cwd=ROOT, stderr=log))
    finally:
        for process in attackers:
            process.kill()
            process.wait()
    cost = it.stage.peak - before
    if cost > MEMORY_LIMIT:
        raise Failure(f"a hostile user cost the server {cost:.0f} MiB, not {MEMORY_LIMIT:.0f}")
    return tried


CLASSES: dict[str, Callable[[Round], int]] = {
    "kill": kill,
    "stop": stop,
    "unlink": unlink,
    "full disk": full_disk,
    "descriptors": descriptors,
    "slow peers": slow,
    "clock": clock,
    "forged regions": forged,
    "hostile user": hostile,
}
