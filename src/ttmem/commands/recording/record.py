"""Record the memory events of this host.

    ttmem record today.ttmem --duration 1h

If a server runs (`ttmem serve`), everything it sees is recorded: processes under `ttmem run`, clients of its socket,
and the counters of stock ttnn. Only root and the user who runs the server may do that. Without a server, or with
--shm or --pid, regions and counters are read directly, as in `ttmem top`. The sensors of the cards that the driver
lists are recorded once a second. Ctrl-C stops recording.

`ttmem ps FILE --at 12.5s`, `ttmem top FILE` and `ttmem dump FILE` show the recording at any time. The file is readable
only by its owner; it contains command lines and paths unless --confidential is given.

exit codes: 0 done, 1 the recording is incomplete or cannot be written, 2 wrong arguments, 3 no server at --socket,
4 the server refused
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from ttmem.clock import now_ns
from ttmem.commands.options import add_device_option, add_recording_options, path
from ttmem.errors import BadInput, ClosedToYou, NoServer, Refused, TtmemError
from ttmem.sizes import human, several

if TYPE_CHECKING:
    from ttmem.client.query import ServerConnection
    from ttmem.feeds.recorded_telemetry import TelemetrySampler
    from ttmem.recording import Recording
    from ttmem.recording.writer import Written
    from ttmem.sources.probe.reader import RegionReader

RUN_BYTES = 64 << 20  # for a run without a file: about 8 million events
POLL_S = 0.1
PROGRESS_S = 1.0
PARTING_S = 10.0  # how long to wait for the server to send the end of a recording


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        type=path,
        help="the file to write (%%p pid, %%h host, %%r MPI rank)",
    )
    add(
        "--duration", metavar="TIME", help="how long to record: 90s, 5m, 1h (default: until Ctrl-C)"
    )
    add(
        "--pid",
        metavar="PID",
        type=int,
        action="append",
        default=[],
        help="only this process, if it runs under `ttmem run`",
    )
    add_device_option(parser, "logical or unique id, as `ttmem ps` prints them")
    add("--socket", metavar="PATH", type=path, help="record what the server at this socket sees")
    add(
        "--shm",
        metavar="DIR",
        type=path,
        help="ask no server; read regions and counters in this directory",
    )
    add_recording_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.recording.times import parse_duration

    seconds = parse_duration(options.duration) / 1e9 if options.duration else float("inf")
    server = _server(options)
    if server is not None:
        with server:
            return _record_server(server, options, seconds)
    return _record_here(options, seconds)


def _server(options: argparse.Namespace) -> ServerConnection | None:
    """The server to record; None if there is none, or with --shm or --pid."""
    from ttmem.client.query import ServerConnection
    from ttmem.wire.socket_path import named_socket

    if options.socket is not None and (options.shm is not None or options.pid):
        raise BadInput("--socket cannot be combined with --shm or --pid")
    if options.shm is not None or options.pid:
        return None
    try:
        return ServerConnection(options.socket)
    except (NoServer, ClosedToYou):
        if named_socket(options.socket) is not None:
            raise
        return None


def _record_server(server: ServerConnection, options: argparse.Namespace, seconds: float) -> int:
    from ttmem.feeds.recorded_telemetry import TelemetrySampler
    from ttmem.recording.received import Received

    try:
        server.record()
    except Refused as refusal:
        raise Refused(f"{refusal}; `ttmem record --shm DIR` reads what is yours") from None
    target = _Target(options)
    received = Received(target.sink, target.about, confidential=options.confidential)
    sampler = TelemetrySampler(received.telemetry)
    stop, progress = _Stop(), _Progress()
    end, asked, trouble = time.monotonic() + seconds, 0.0, None
    try:
        while (chunk := server.chunk(POLL_S)) != b"":
            if chunk:
                received.take(chunk)
            if received.written().bytes:  # a file begins with the server's first chunk
                sampler.write()
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
    sampler.close()
    written = received.close()
    progress.end()
    if not asked and trouble is None:
        print("the server has stopped", file=sys.stderr)
    code = target.report(written)
    if trouble is not None:
        raise trouble
    return code


def _record_here(options: argparse.Namespace, seconds: float) -> int:
    from ttmem.feeds import LocalFeed
    from ttmem.feeds.recorded_telemetry import TelemetrySampler
    from ttmem.sources.shm import check_directories

    check_directories(options.shm)
    pids = frozenset(options.pid)
    feed = LocalFeed(
        options.shm, wanted=(lambda region: region.facts.pid in pids) if pids else None
    )
    target = _Target(options)
    recorder = feed.record(target.sink, target.about, confidential=options.confidential)
    sampler = TelemetrySampler(recorder.telemetry)
    stop, progress = _Stop(), _Progress()
    end = time.monotonic() + seconds
    unseen = set(pids)

    def poll() -> None:
        feed.poll()
        unseen.difference_update([pid for pid in unseen if feed.watches(pid)])

    while not stop.asked and time.monotonic() < end:
        poll()
        sampler.write()
        progress.show(recorder.written())
        time.sleep(min(POLL_S, max(0.0, end - time.monotonic())))
    poll()
    sampler.close()
    written = recorder.close()
    feed.close()
    progress.end()
    return target.report(written, unseen)


class _Target:
    """The file to write, what it says about itself, and what is printed about it."""

    def __init__(self, options: argparse.Namespace) -> None:
        from ttmem.recording.files import FileSink, expanded
        from ttmem.recording.recorder import described
        from ttmem.recording.selected import SelectedDevices
        from ttmem.recording.writer import Sink

        self._name = expanded(options.file)
        self._file = FileSink(self._name, overwrite=options.overwrite)
        self._chosen = SelectedDevices(self._file, options.device) if options.device else None
        self.sink: Sink = self._chosen or self._file
        self.about = described(shlex.join(sys.argv), confidential=options.confidential)
        if options.device:
            self.about["devices"] = options.device

    def report(self, written: Written, unseen: Collection[int] = ()) -> int:
        """Prints the outcome, and what was selected but never appeared: a wrong id would go unnoticed."""
        print(outcome(self._name, written._replace(bytes=self._file.size)))
        for device in self._chosen.unseen if self._chosen else ():
            print(f"ttmem: device {device} was not seen; `ttmem ps` prints ids", file=sys.stderr)
        for pid in sorted(unseen):
            text = f"pid {pid} was not seen; --pid selects processes under `ttmem run`"
            print(f"ttmem: {text}", file=sys.stderr)
        return 1 if written.lost or written.problem else 0


def outcome(name: str, written: Written) -> str:
    """The line that is printed at the end."""
    text = (
        f"ttmem: recorded {several(written.records, 'record')}, {human(written.bytes)}, in {name}"
    )
    if written.lost:
        why = written.reason or "the disk, or this machine, is too slow"
        text += f"; {several(written.lost, 'record')} lost: {why}"
    elif written.problem:
        text += f"; it is incomplete: {written.problem}"
    elif written.records and (dropped := _dropped(name)):
        text += (
            f"; {several(dropped, 'event')} of programs were lost before (a larger --events helps)"
        )
    return text


def _dropped(name: str) -> int:
    from ttmem.recording import Recording

    with suppress(TtmemError, OSError), Recording(name) as recording:  # a pipe is none
        return recording.dropped_events()
    return 0


class RunRecording:
    """Records the processes of this launcher, to the file of `ttmem run -o`, else in memory, for the summary."""

    def __init__(self, command: list[str], options: argparse.Namespace) -> None:
        from ttmem.feeds import LocalFeed
        from ttmem.feeds.recorded_telemetry import TelemetrySampler
        from ttmem.recording.files import FileSink, expanded
        from ttmem.recording.memory import ChunkMemory
        from ttmem.recording.recorder import described

        self._since = now_ns()
        self._name = None if options.output is None else expanded(options.output)
        self._memory = ChunkMemory(RUN_BYTES)
        self._feed = LocalFeed(options.shm, wanted=self._is_ours, launched=True)
        self._sampler: TelemetrySampler | None = None
        if self._name is None:
            self._recorder = self._feed.remember(self._memory)
        else:
            sink = FileSink(self._name, overwrite=options.overwrite)
            about = described(shlex.join(command), confidential=options.confidential)
            self._recorder = self._feed.record(sink, about, confidential=options.confidential)
            self._sampler = TelemetrySampler(self._recorder.telemetry)

    def _is_ours(self, reader: RegionReader) -> bool:
        """Anybody could write this launcher's pid into a file."""
        region = reader.region
        ours = region.header().launcher == os.getpid() and region.uid == os.geteuid()
        return ours and region.created_ns >= self._since

    def poll(self) -> None:
        with suppress(Exception):  # the command goes on, whatever happens to its recording
            self._feed.poll()
            if self._sampler is not None:
                self._sampler.write()

    def close(self) -> str | None:
        """Returns the line to print, if there is a file."""
        self.poll()
        self.poll()  # the first one may have found regions that ended meanwhile
        if self._sampler is not None:
            self._sampler.close()
        written = self._recorder.close()
        self._feed.close()
        return None if self._name is None else outcome(self._name, written)

    def recording(self) -> Recording:
        """What was recorded; after `close`."""
        from ttmem.recording import Recording
        from ttmem.recording.memory import MemorySource

        return Recording(self._name or MemorySource(self._memory))


class _Stop:
    """Ctrl-C, SIGTERM and a terminal that is closed end a recording; the file is closed in order."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class _Progress:
    """A status line on a terminal: time, events per second, size, losses."""

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
        with suppress(OSError):  # the terminal was closed
            print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print(file=sys.stderr)
