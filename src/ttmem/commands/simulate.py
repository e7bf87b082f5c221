"""Run a workload on simulated devices that reports like a real application.

A model of the runtime allocates, compiles, caches and dispatches, and reports each step to the server
(`ttmem serve`), like an application with TT_ALLOC_TRACKING_ENABLED=1. `--list` describes the workloads.
With `-o FILE` a private server records the run; `ttmem top FILE` and `ttmem ps FILE` show it, and `ttmem explain FILE`
says why an allocation failed (oom-fragmented, clash).

exit codes: 0 done, 1 the workload failed, or the server refused you, 2 wrong arguments, 130 or 143
stopped by Ctrl-C or SIGTERM
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

from ttmem.commands.children import run_children
from ttmem.commands.options import add_overwrite, flag, path
from ttmem.errors import BadInput, ClosedToYou, NoServer, TtmemError
from ttmem.own_python import module_command
from ttmem.wire.socket_path import socket_path

if TYPE_CHECKING:  # loaded when a workload runs, not for every `ttmem --help`
    from ttmem.client import AllocationClient
    from ttmem.model import MeshDevice
    from ttmem.model.workloads import ModelWorkload, Steps

SIZES = ("small", "medium", "large")
MOST_PROCESSES = 256
MOST_SAID = 10  # messages of a workload that are printed; the others are counted
ANSWER_TIME = 1.0  # seconds for a server to answer
CLOSE_TIME = 5.0  # seconds for the server to read the last events


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="the workload; --list describes them")
    flag(parser, "--list", "describe the workloads")
    add("--board", metavar="NAME", help="n150, n300, p150, galaxy, ... (default: p150, or galaxy)")
    add("--mesh", metavar="RxC", type=_mesh, help="rows and columns of chips, such as 1x4")
    add(
        "--steps",
        type=int,
        default=200,
        help="how many steps to run, 0 = until stopped (default %(default)s)",
    )
    add(
        "--rate",
        type=float,
        default=10.0,
        help="steps per second, 0 = as fast as possible (default %(default)g)",
    )
    add(
        "--processes",
        type=int,
        default=1,
        help="how many processes run it in parallel (default %(default)s)",
    )
    add(
        "--seed", type=int, default=1, help="the same seed gives the same run (default %(default)s)"
    )
    add(
        "--size", choices=SIZES, default="medium", help="size of the workload (default %(default)s)"
    )
    add(
        "--socket", metavar="PATH", type=path, help=f"the server's socket (default {socket_path()})"
    )
    add(
        "-o",
        "--output",
        metavar="FILE",
        type=path,
        help="record the run in FILE instead of reporting to a server (%%p pid, %%h host, %%r MPI rank)",
    )
    add_overwrite(parser)
    add("--first-device", type=int, default=0, help=argparse.SUPPRESS)
    # A child ends with the process that started it.
    add("--parent", type=int, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    from ttmem.model.workloads import WORKLOADS, workload

    if options.list:
        width = max(map(len, WORKLOADS))
        print(
            "\n".join(
                f"{workload.name:<{width}}  {workload.about}" for workload in WORKLOADS.values()
            )
        )
        return 0
    if options.name is None:
        raise BadInput("name a workload; `ttmem simulate --list` describes them")
    found = workload(options.name)
    _check(options)
    if options.output and options.socket:
        raise BadInput("-o and --socket cannot be combined")
    stop = _Stop(options.parent)
    if options.parent is None:
        _announce(options)
    if not options.output:
        return _simulate(options, found, stop)
    with _RecordingServer(options) as server:
        options.socket = server.socket
        code = _simulate(options, found, stop)
    return code or server.code


def _announce(options: argparse.Namespace) -> None:
    """On a terminal, how long it will take."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    steps = f"{options.steps:,} steps" if options.steps else "steps until you stop it"
    rate = f", {options.rate:g} per second" if options.rate else ""
    takes = f": {options.steps / options.rate:,.0f} s" if options.steps and options.rate else ""
    print(f"{options.name}: {steps}{rate}{takes}; Ctrl-C ends it", file=sys.stderr)


def _simulate(options: argparse.Namespace, found: ModelWorkload, stop: _Stop) -> int:
    from ttmem.model.opening import is_system

    if options.processes > 1:
        mesh = _open_mesh(options, found, None)  # fails once, not in each child
        mesh.close()
        one_system = is_system(options.board or found.board)
        own = 0 if found.shared or one_system else mesh.get_num_devices()
        commands = (_command(options, number, own) for number in range(options.processes))
        return run_children(commands, stop.wait) or stop.code
    return _Simulation(options, found, stop).run()


def _mesh(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})[xX](\d{1,4})", text)
    if match is None:
        raise BadInput(f"{text!r:.40} is not a mesh; write rows and columns, such as 1x4")
    return int(match[1]), int(match[2])


def _check(options: argparse.Namespace) -> None:
    if options.steps < 0:
        raise BadInput("--steps must be 0 or more")
    if not 0 <= options.rate < math.inf:
        raise BadInput("--rate must be 0 or more steps per second")
    if not 1 <= options.processes <= MOST_PROCESSES:
        raise BadInput(f"--processes must be 1 to {MOST_PROCESSES}")


class _Stop:
    """Makes Ctrl-C and SIGTERM take effect between two steps, so that final numbers are consistent."""

    def __init__(self, parent: int | None = None) -> None:
        self.code = 0
        self._parent = parent
        self._event = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def wait(self, seconds: float) -> bool:
        """Whether to stop. A child also stops when its parent has died."""
        if self._parent is not None and os.getppid() != self._parent:
            return True
        return self._event.wait(seconds) if seconds > 0 else self._event.is_set()

    def _stop(self, number: int, _: object) -> None:
        if self.code and number == signal.SIGINT:
            raise KeyboardInterrupt  # the second time: immediately
        self.code = 128 + number
        self._event.set()


def _open_mesh(
    options: argparse.Namespace, found: ModelWorkload, client: AllocationClient | None
) -> MeshDevice:
    """The requested mesh, or the workload's default. Without a client it reports nothing."""
    from ttmem.client import GraphTracker
    from ttmem.model import open_mesh_device

    tracker = GraphTracker(client)
    tracker.enabled = client is not None
    rows, columns = options.mesh or found.mesh
    first = options.first_device
    return open_mesh_device(
        (rows, columns),
        physical_device_ids=range(first, first + rows * columns),
        board=options.board or found.board,
        l1_small_size=found.l1_small_size,
        trace_region_size=found.trace_region_size,
        tracker=tracker,
    )


class _RecordingServer:
    """A private server in a thread, which records what the workload reports until the `with` block ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        from ttmem.recording.files import FileSink, expanded
        from ttmem.recording.recorder import described
        from ttmem.server.server import Server

        self.code = 0
        self._name = expanded(options.output)
        sink = FileSink(self._name, overwrite=options.overwrite)
        self._folder = tempfile.TemporaryDirectory(prefix="ttmem-simulate-")
        self.socket = os.path.join(self._folder.name, "server.sock")
        self._server = Server(self.socket, believes_failures=True)
        self._recorder = self._server.recordings.record(sink, described(shlex.join(sys.argv)))
        self._thread = threading.Thread(target=self._server.run, name="server")

    def __enter__(self) -> _RecordingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        from ttmem.commands.recording.record import outcome

        end = time.monotonic() + CLOSE_TIME
        # It is still reading the last events.
        while self._server.connected and time.monotonic() < end:
            time.sleep(0.01)
        self._server.stop()
        self._thread.join()
        self._folder.cleanup()
        written = self._recorder.written()
        print(outcome(self._name, written))
        self.code = 1 if written.lost or written.problem else 0


class _Simulation:
    """One run of a workload in this process."""

    def __init__(self, options: argparse.Namespace, found: ModelWorkload, stop: _Stop) -> None:
        from ttmem.client import AllocationClient

        self._options = options
        self._workload = found
        self._stop = stop
        self._client = AllocationClient(options.socket)
        self._done = self._said = 0
        self._closed = False

    def run(self) -> int:
        from random import Random

        from ttmem.model.workloads import SCALES

        options = self._options
        with _open_mesh(options, self._workload, self._client) as mesh:
            begun = time.perf_counter()
            if options.output:  # a server that others share would not believe it
                mesh.on_failure = lambda failed: self._client.report_failed_allocation(
                    mesh, *failed
                )
            try:
                steps = self._workload.run(mesh, Random(options.seed), SCALES[options.size])
                self._drive(steps)
            finally:
                mesh.close()
                self._client.close(CLOSE_TIME)
                self._report(time.perf_counter() - begun)
        return self._stop.code or (ClosedToYou.exit_code if self._closed else 0)

    def _drive(self, steps: Steps) -> None:
        options = self._options
        pause = 1 / options.rate if options.rate else 0.0
        due = time.monotonic()
        for news in islice(steps, options.steps or None):
            self._done += 1
            if news is not None:
                self._say(news)
            # A late step does not make the next ones shorter than the rate says.
            due = max(due + pause, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                return

    def _say(self, news: str) -> None:
        self._said += 1
        if self._said <= MOST_SAID:
            print(f"step {self._done}: {news}", flush=True)

    def _report(self, seconds: float) -> None:
        stats = self._client.stats()
        # The client counts its first connection as a resync, too.
        faults = f", {self._said} faults" if self._said else ""
        seen = (
            f"{stats.sent:,} events reported ({stats.sent / max(seconds, 1e-9):,.0f}/s), "
            f"{stats.dropped:,} dropped, {max(0, stats.resyncs - 1):,} resyncs"
        )
        if not stats.sent:
            seen = f"{self._unseen()}: nothing was seen"
        print(
            f"{self._workload.name}: {self._done:,} steps in {seconds:.1f} s{faults}, {seen}",
            flush=True,
        )

    def _unseen(self) -> str:
        """Why no server received anything."""
        from ttmem.client.query import ServerConnection

        place = socket_path(self._options.socket)
        try:
            ServerConnection(self._options.socket, ANSWER_TIME).close()
        except ClosedToYou:
            self._closed = True
            return f"the server at {place} is closed to you"
        except NoServer:
            return f"no server at {place}"
        except TtmemError as problem:
            return str(problem)
        return f"the server at {place} started too late"


def _command(options: argparse.Namespace, number: int, chips: int) -> list[str]:
    """The same workload, with its own seed, and with so many chips of its own; with 0, all use the same."""
    command = module_command("ttmem", "simulate", options.name)
    if options.board:
        command += ["--board", options.board]
    if options.mesh:
        command += ["--mesh", "{}x{}".format(*options.mesh)]
    if options.socket:
        command += ["--socket", options.socket]
    command += ["--steps", str(options.steps), "--rate", repr(options.rate)]
    command += ["--seed", str(options.seed + number), "--size", options.size]
    command += ["--first-device", str(number * chips)]
    return [*command, "--parent", str(os.getpid())]
