"""Collect reports from every process on this machine.

Listens on a Unix socket for runtimes with the allocation client (TT_ALLOC_TRACKING_ENABLED=1) and for
programs that use ttmem.client, and reads the counters that stock ttnn publishes in shared memory.
`ttmem ps` shows the result. SIGUSR1 logs a summary; SIGTERM and Ctrl-C stop the server.
--record DIR records continuously, into at most --keep bytes; the minutes around a failed allocation or
a `ttmem mark` are kept in a file of their own. Output of --log-events that is not read fast enough is
dropped and counted.

exit codes: 0 stopped, 2 wrong arguments, 5 another server uses the socket
"""

from __future__ import annotations

import argparse
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ttmem.commands.options import add_umd_option, flag, path
from ttmem.commands.web import add_http_options, checked_address, http_arguments
from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration
from ttmem.events.device import declared_chip
from ttmem.fast_dataclasses import replace
from ttmem.hw import board as board_by_name
from ttmem.hw import device_spec
from ttmem.hw.descriptor import Cluster, read_cluster
from ttmem.own_python import installing, module_command
from ttmem.sizes import human, parse_size
from ttmem.wire.socket_path import socket_path

MAX_PERIOD = 86_400  # seconds
SMALLEST_KEEP = 1 << 20
PAGES_PATIENCE_S = 0.5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # until a page that has ended is started again


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--socket", metavar="PATH", type=path, help=f"where to listen (default {socket_path()})")
    add("--group", metavar="NAME", help="also let members of this group report and query")
    add(
        "--board",
        metavar="NAME",
        help="the board of clients that do not declare one: n150, n300, p150, ...",
    )
    add(
        "--cluster",
        metavar="FILE",
        help="cluster descriptor (YAML) for clients that do not declare their devices",
    )
    add(
        "--l1-capacity",
        metavar="SIZE",
        type=parse_size,
        help="L1 per device (85MiB, 89128960) for clients that do not declare it",
    )
    add(
        "--shm",
        metavar="DIR",
        type=path,
        help="directory with the counters of stock ttnn and the regions of the probe (default /dev/shm)",
    )
    add_umd_option(parser)
    flag(parser, "--no-shm", "do not read shared memory")
    add(
        "--max-live",
        metavar="N",
        type=int,
        default=4_000_000,
        help="live entries to keep (default %(default)s)",
    )
    flag(parser, "--log-events", "print a line for each event except dispatches")
    flag(parser, "--log-dispatches", "print a line for each event, including dispatches")
    add(
        "--summary",
        metavar="SECONDS",
        type=float,
        help="log a summary at this interval, besides the one at the end",
    )
    add(
        "--record",
        metavar="DIR",
        type=path,
        help="record continuously, into a directory that only you can read",
    )
    add(
        "--keep",
        metavar="SIZE",
        type=parse_size,
        default=2 << 30,
        help="the most that DIR may hold; the oldest recordings are removed (default 2GiB)",
    )
    add(
        "--keep-for",
        metavar="TIME",
        default="24h",
        help="remove recordings older than this, except those kept for a failure or mark (default %(default)s)",
    )
    add(
        "--http",
        metavar="ADDR",
        type=path,
        help="also serve the live page, the HTTP API and /metrics at HOST:PORT, from a separate process;"
        " each user gets a link with `ttmem web --link`. Needs the extra `web`",
    )
    add_http_options(parser.add_argument_group("with --http"))
    add("--quiet", "-q", action="store_true", help="log warnings only")


def _check(options: argparse.Namespace) -> None:
    """Raises BadInput for options that contradict each other, before anything is started."""
    if options.max_live < 1:
        raise BadInput("--max-live must be 1 or more")
    if options.summary is not None and not 0.1 <= options.summary <= MAX_PERIOD:
        raise BadInput(f"--summary must be from 0.1 to {MAX_PERIOD:,} seconds")
    if options.summary is not None and options.quiet:
        raise BadInput("--summary and --quiet cannot be combined")
    if options.shm and options.no_shm:
        raise BadInput("--shm and --no-shm cannot be combined")
    if options.record and options.keep < SMALLEST_KEEP:
        raise BadInput(f"--keep must be {human(SMALLEST_KEEP)} or more")
    for_pages = http_arguments(options)
    if for_pages and not options.http:
        raise BadInput(f"{for_pages[0].partition('=')[0]} needs --http ADDR")
    if options.http:
        checked_address(options)
        if find_spec("uvicorn") is None:
            raise BadInput(f"--http needs starlette and uvicorn: {installing('web')}")
        if options.key_file:
            from ttmem.wire.tokens import kept_key

            kept_key(options.key_file)


def run(options: argparse.Namespace) -> int:
    _check(options)
    from ttmem.hw.umd import discovery
    from ttmem.recording.times import parse_duration
    from ttmem.server.log import LOG_LIMIT, LogHandler, Output
    from ttmem.server.server import Server
    from ttmem.sources.shm import check_directories, counter_directory, probe_directory

    if not options.no_shm:
        check_directories(options.shm)
    log = Output(None if sys.stderr is None else sys.stderr.fileno(), LOG_LIMIT)
    logging.basicConfig(
        handlers=[LogHandler(log)],
        level=logging.WARNING if options.quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    # A signal that comes as soon as the socket is there must not end the process without a clean shutdown.
    with _held(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        server = Server(
            socket_path(options.socket),
            group=options.group,
            shm=None if options.no_shm else counter_directory(options.shm),
            discovery=discovery(wanted=options.umd),
            probes=None if options.no_shm else probe_directory(options.shm),
            defaults=DeviceOptions(options.board, options.cluster, options.l1_capacity),
            log_events=options.log_events or options.log_dispatches,
            log_dispatches=options.log_dispatches,
            summary_period=options.summary,
            max_live=options.max_live,
            stdout=None if sys.stdout is None else sys.stdout.fileno(),
            log=log,
        )
        if options.record:
            from ttmem.feeds.recorded_telemetry import TelemetrySampler

            try:
                age_ns = parse_duration(options.keep_for)
                server.recordings.record_always(
                    options.record, options.keep, age_ns, TelemetrySampler
                )
            except BadInput:
                server.close()
                raise
        server.handle_signals()
    if not options.http:
        server.run()
        return 0
    pages = Pages(options)
    try:
        server.run(each_second=pages.check)
    finally:
        pages.stop()
    return 0


@contextmanager
def _held(*signals: signal.Signals) -> Iterator[None]:
    """They are delivered at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pages:
    """`ttmem web` beside the server, started again if it ends.

    It exits when its standard input closes, even if the server is killed.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._command = module_command("ttmem", "web", "--http", options.http)
        self._command += [*http_arguments(options), "--until-eof"]
        self._command += ["--socket", socket_path(options.socket)]
        self._pause = FIRST_PAUSE_S
        self._start()

    def _start(self) -> None:
        self._started, self._ended = time.monotonic(), False
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)

    def check(self) -> None:
        """To be called once a second."""
        status = self._process.poll()
        now = time.monotonic()
        if status is None:
            return
        if not self._ended:
            self._ended = True
            lasted = now - self._started >= LONGEST_PAUSE_S
            self._pause = FIRST_PAUSE_S if lasted else min(2 * self._pause, LONGEST_PAUSE_S)
            self._again = now + self._pause
            how = f"killed by signal {-status}" if status < 0 else f"exit code {status}"
            text = "the page has ended (%s); it is started again in %.0f s"
            logging.warning(text, how, self._pause)
        elif now >= self._again:
            self._close_input()
            self._start()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self) -> None:
        self._close_input()
        try:
            self._process.wait(PAGES_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class DeviceOptions:
    """`--board`, `--cluster` and `--l1-capacity`, for clients that declare none."""

    def __init__(
        self, board: str | None = None, cluster: str | None = None, l1_capacity: int | None = None
    ) -> None:
        self._board = board_by_name(board) if board else None
        self._cluster: Cluster | None = read_cluster(cluster) if cluster else None
        self._l1_capacity = l1_capacity
        self._made: dict[int, DeviceDeclaration | None] = {}

    def known_ids(self) -> list[int]:
        """Logical ids of devices that are known to exist: those of the cluster."""
        return [chip.logical_id for chip in self._cluster.chips] if self._cluster else []

    def chips(self) -> int:
        """The chips of a single board; the number of boards is unknown."""
        return self._board.chips if self._board else 0

    def declaration(self, logical_id: int) -> DeviceDeclaration | None:
        """What the options say about a device; None if nothing."""
        if logical_id not in self._made:
            declared = self._hardware(logical_id)
            if self._l1_capacity is not None:
                declared = declared or DeviceDeclaration(logical_id)
                declared = replace(declared, l1_capacity=self._l1_capacity)
            self._made[logical_id] = declared
        return self._made[logical_id]

    def _hardware(self, logical_id: int) -> DeviceDeclaration | None:
        """How the application divided it into L1_SMALL and trace regions is not known."""
        chips = {chip.logical_id: chip for chip in self._cluster.chips} if self._cluster else {}
        if self._cluster is not None and logical_id in chips:
            chip = chips[logical_id]
            full = declared_chip(device_spec(chip.board), chip)
        elif self._board is not None:
            usual = DeviceDeclaration.from_spec(device_spec(self._board), logical_id)
            said = self._board.note and f"{self._board.note}; --cluster FILE says which"
            notes = [note for note in (usual.note, said) if note]
            full = replace(usual, note="; ".join(notes) or None)
        else:
            return None
        return replace(full, l1_bank_size=None, l1_small_bank_size=None, trace_bank_size=None)
