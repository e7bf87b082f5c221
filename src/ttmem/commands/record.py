"""Record everything that happens to the memory of this host's devices.

    ttmem record today.ttmem --duration 1h

If a server runs (`ttmem serve`), everything that it sees is recorded: processes under `ttmem run`, clients of
its socket, and the counters of stock ttnn; that is for root and the user who runs the server. Without one,
or with --shm or --pid, the command reads regions and counters itself, like `ttmem top`. `ttmem ps FILE --at 12.5s`,
`ttmem top FILE` and `ttmem dump FILE` show the recording at any instant. Ctrl-C ends it. The file is readable by its
owner only; it has command lines and paths in it, unless --confidential leaves them out.

exit codes: 0 done, 1 some of it could not be recorded, 2 wrong arguments, 3 no server at --socket, 4 the server refused
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from ttmem.clock import now_ns
from ttmem.commands.options import path
from ttmem.errors import BadInput, ClosedToYou, NoServer, Refused, TtmemError
from ttmem.sizes import human, several

if TYPE_CHECKING:
    from ttmem.client.query import ServerConnection
    from ttmem.recording import Recording
    from ttmem.recording.writer import Written
    from ttmem.sources.probe.reader import RegionReader

RUN_BYTES = 64 << 20  # of a run without a file: about 8 million events
POLL_S = 0.1
PROGRESS_S = 1.0
PARTING_S = 10.0  # for the end of a recording to come from the server
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        type=path,
        help="the file to write (%%p pid, %%h host, %%r MPI rank)",
    )
    parser.add_argument(
        "--duration", metavar="TIME", help="how long: 90s, 5m, 1h (default: until Ctrl-C)"
    )
    parser.add_argument(
        "--pid",
        metavar="PID",
        type=int,
        action="append",
        default=[],
        help="only this process, if it runs under `ttmem run`",
    )
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help="record what the server at this socket sees"
    )
    parser.add_argument(
        "--shm",
        metavar="DIR",
        type=path,
        help="ask no server; read regions and counters in this directory",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--confidential", action="store_true", help="leave out command lines and directories"
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.recording.when import parse_duration

    seconds = parse_duration(options.duration) / 1e9 if options.duration else float("inf")
    server = _server(options)
    if server is not None:
        with server:
            return _record_server(server, options, seconds)
    return _record_here(options, seconds)


def _server(options: argparse.Namespace) -> ServerConnection | None:
    """The server to record; None: there is none, or regions were asked for."""
    from ttmem.client.query import ServerConnection
    from ttmem.wire.socket_path import named_socket

    if options.socket is not None and (options.shm is not None or options.pid):
        raise BadInput("--socket records a server; --shm and --pid read regions; give one of them")
    if options.shm is not None or options.pid:
        return None
    try:
        return ServerConnection(options.socket)
    except (NoServer, ClosedToYou):
        if named_socket(options.socket) is not None:
            raise
        return None


def _record_server(server: ServerConnection, options: argparse.Namespace, seconds: float) -> int:
    from ttmem.recording.received import Received
    from ttmem.recording.recorder import described
    from ttmem.recording.writer import FileSink

    try:
        server.record()
    except Refused as refusal:
        raise Refused(f"{refusal}; `ttmem record --shm DIR` reads what is yours") from None
    name = expanded(options.file)
    sink = FileSink(name, overwrite=options.overwrite)
    about = described(shlex.join(sys.argv), confidential=options.confidential)
    received = Received(sink, about, confidential=options.confidential)
    stop, progress = _Stop(), _Progress()
    end, asked, trouble = time.monotonic() + seconds, 0.0, None
    try:
        while (chunk := server.chunk(POLL_S)) != b"":
            if chunk:
                received.take(chunk)
            now = time.monotonic()
            if not asked and (stop.asked or now >= end):
                server.about_recording("end")
                asked = now
            elif asked and now > asked + PARTING_S:
                raise TtmemError("the server did not send the end of the recording")
            elif received.wants_file:
                server.about_recording("again")
            progress.show(received.written())
    except TtmemError as problem:
        trouble = problem
    written = received.close()
    progress.end()
    if not asked and trouble is None:
        print("the server has stopped", file=sys.stderr)
    print(outcome(name, written))
    if trouble is not None:
        raise trouble
    return 1 if written.lost or written.problem else 0


def _record_here(options: argparse.Namespace, seconds: float) -> int:
    from ttmem.feeds import LocalFeed
    from ttmem.recording.recorder import described
    from ttmem.recording.writer import FileSink
    from ttmem.sources.shm import check_directories

    check_directories(options.shm)
    pids = frozenset(options.pid)
    feed = LocalFeed(
        options.shm, wanted=(lambda region: region.facts.pid in pids) if pids else None
    )
    name = expanded(options.file)
    sink = FileSink(name, overwrite=options.overwrite)
    about = described(shlex.join(sys.argv), confidential=options.confidential)
    recorder = feed.record(sink, about, confidential=options.confidential)
    stop = _Stop()
    progress = _Progress()
    end = time.monotonic() + seconds
    while not stop.asked and time.monotonic() < end:
        feed.poll()
        progress.show(recorder.written())
        time.sleep(min(POLL_S, max(0.0, end - time.monotonic())))
    feed.poll()
    written = recorder.close()
    feed.close()
    progress.end()
    print(outcome(name, written))
    return 1 if written.lost or written.problem else 0


def expanded(name: str) -> str:
    """%p, %h and %r in the name of a file."""

    def value(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "p":
            return str(os.getpid())
        if letter == "h":
            return os.uname().nodename
        if letter == "r":
            rank = next((os.environ[name] for name in RANKS if os.environ.get(name)), None)
            if rank is None or not rank.isdecimal():
                raise BadInput(f"%r is the MPI rank, and none of {', '.join(RANKS)} is set")
            return rank
        if letter == "%":
            return "%"
        raise BadInput(f"%{letter} in {name!r}: only %p, %h, %r and %% are known")

    return re.sub(r"%(.?)", value, name)


def outcome(name: str, written: Written) -> str:
    """One line for the end."""
    text = f"recorded {several(written.records, 'record')}, {human(written.bytes)}, in {name}"
    if written.lost:
        text += f"; {several(written.lost, 'record')} lost, because the disk was full, or something too slow"
    if written.problem:
        text += f" ({written.problem})"
    return text


class RunRecording:
    """What the processes of this launcher do: in the file of `ttmem run -o`, else in memory, for the summary."""

    def __init__(self, command: list[str], options: argparse.Namespace) -> None:
        from ttmem.feeds import LocalFeed
        from ttmem.recording.memory import Memory
        from ttmem.recording.recorder import described
        from ttmem.recording.writer import FileSink

        self._since = now_ns()
        self._name = None if options.output is None else expanded(options.output)
        self._memory = Memory(RUN_BYTES)
        self._feed = LocalFeed(options.shm, wanted=self._is_ours)
        if self._name is None:
            self._recorder = self._feed.remember(self._memory)
        else:
            sink = FileSink(self._name, overwrite=options.overwrite)
            about = described(shlex.join(command), confidential=options.confidential)
            self._recorder = self._feed.record(sink, about, confidential=options.confidential)

    def _is_ours(self, region: RegionReader) -> bool:
        """Anybody could write this launcher's pid into a file."""
        ours = region.launcher == os.getpid() and region.uid == os.geteuid()
        return ours and region.created_ns >= self._since

    def poll(self) -> None:
        with suppress(Exception):  # the command goes on, whatever happens to its recording
            self._feed.poll()

    def close(self) -> str | None:
        """One line on what was recorded in a file."""
        self.poll()
        self.poll()  # the first one may have found regions that ended meanwhile
        written = self._recorder.close()
        self._feed.close()
        return None if self._name is None else outcome(self._name, written)

    def recording(self) -> Recording:
        """What was recorded; after `close`."""
        from ttmem.recording import Recording
        from ttmem.recording.memory import MemorySource

        return Recording(self._name or MemorySource(self._memory))


class _Stop:
    """Ctrl-C and SIGTERM end a recording; the file is closed in order."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class _Progress:
    """One line on a terminal, again and again: time, events per second, size, losses."""

    def __init__(self) -> None:
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._begun = self._next = time.monotonic()
        self._last = 0

    def show(self, written: Written) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        rate = (written.records - self._last) / PROGRESS_S
        self._last, self._next = written.records, now + PROGRESS_S
        lost = f", {written.lost:,} lost" if written.lost else ""
        trouble = f", {written.problem}" if written.problem else ""
        line = f"{now - self._begun:8.0f} s  {rate:10,.0f} records/s  {human(written.bytes):>10}{lost}{trouble}"
        print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print(file=sys.stderr)
