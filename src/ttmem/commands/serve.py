"""Collect reports from every process on this machine.

Listens on a Unix socket for runtimes with the allocation client (TT_ALLOC_TRACKING_ENABLED=1) and for
programs that use ttmem.client, and reads the counters that stock ttnn publishes in shared memory.
`ttmem ps` shows the result. SIGUSR1 logs a summary; SIGTERM and Ctrl-C stop the server.
--record DIR keeps the last hours in recordings of at most --keep bytes; when an allocation fails, and
on `ttmem mark`, the minutes around it are kept in a file of their own.
Output of --log-events that is not read fast enough is dropped and counted.

exit codes: 0 stopped, 2 wrong arguments, 5 another server has the socket
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec

from ttmem.commands.options import add_umd_option, path
from ttmem.errors import BadInput
from ttmem.sizes import human, parse_size
from ttmem.wire.socket_path import socket_path

MAX_PERIOD = 86_400  # seconds
SMALLEST_KEEP = 1 << 20
PAGES_PATIENCE_S = 0.5


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help=f"where to listen (default {socket_path()})"
    )
    parser.add_argument(
        "--group", metavar="NAME", help="let members of this group report and query, too"
    )
    parser.add_argument(
        "--board",
        metavar="NAME",
        help="board of clients that do not declare one: n150, n300, p150, ...",
    )
    parser.add_argument(
        "--cluster",
        metavar="FILE",
        help="cluster descriptor (YAML) for clients that do not declare their devices",
    )
    parser.add_argument(
        "--l1-capacity",
        metavar="SIZE",
        type=parse_size,
        help="L1 per device (85MiB, 89128960) for clients that do not declare it",
    )
    parser.add_argument(
        "--shm",
        metavar="DIR",
        type=path,
        help="directory with the counters of stock ttnn and the regions of the probe (default /dev/shm)",
    )
    add_umd_option(parser)
    parser.add_argument("--no-shm", action="store_true", help="do not read shared memory")
    parser.add_argument(
        "--max-live",
        metavar="N",
        type=int,
        default=4_000_000,
        help="live entries to keep (default %(default)s)",
    )
    parser.add_argument(
        "--log-events", action="store_true", help="print a line for each event except dispatches"
    )
    parser.add_argument(
        "--log-dispatches",
        action="store_true",
        help="print a line for each event, including dispatches",
    )
    parser.add_argument(
        "--summary",
        metavar="SECONDS",
        type=float,
        help="log a summary at this interval; one is always logged at the end",
    )
    parser.add_argument(
        "--record",
        metavar="DIR",
        type=path,
        help="always record, into a directory that only you can read",
    )
    parser.add_argument(
        "--keep",
        metavar="SIZE",
        type=parse_size,
        default=2 << 30,
        help="bytes in DIR at most; the oldest recordings are removed (default 2GiB)",
    )
    parser.add_argument(
        "--keep-for",
        metavar="TIME",
        default="24h",
        help="remove recordings that are older, unless they were kept (default %(default)s)",
    )
    parser.add_argument(
        "--http",
        metavar="ADDR",
        type=path,
        help="also serve pages, the HTTP API and /metrics at HOST:PORT, in a process of their own;"
        " each user gets a link with `ttmem web --link`. Needs the extra `web`",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="log warnings only")


def run(options: argparse.Namespace) -> int:
    if options.max_live < 1:
        raise BadInput("--max-live must be 1 or more")
    if options.summary is not None and not 0.1 <= options.summary <= MAX_PERIOD:
        raise BadInput(f"--summary must be from 0.1 to {MAX_PERIOD:,} seconds")
    if options.summary is not None and options.quiet:
        raise BadInput("--summary logs summaries and --quiet does not; give one of them")
    if options.shm and options.no_shm:
        raise BadInput("--shm reads shared memory and --no-shm does not; give one of them")
    if options.record and options.keep < SMALLEST_KEEP:
        raise BadInput(f"--keep must be {human(SMALLEST_KEEP)} or more")
    if options.http and find_spec("uvicorn") is None:
        raise BadInput("--http needs starlette and uvicorn: pip install 'ttmem[web]'")
    from ttmem.hw.umd import discovery
    from ttmem.recording.when import parse_duration
    from ttmem.server.device_options import DeviceOptions
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
        try:
            server.record_always(options.record, options.keep, parse_duration(options.keep_for))
        except BadInput:
            server.close()
            raise
    server.handle_signals()
    with _pages(options) if options.http else nullcontext():
        server.run()
    return 0


@contextmanager
def _pages(options: argparse.Namespace) -> Iterator[None]:
    """`ttmem web` beside the server; it ends when its standard input does, even if the server is killed."""
    command = [sys.executable, "-m", "ttmem", "web", "--http", options.http, "--until-eof"]
    command += ["--socket", socket_path(options.socket)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as pages:
        try:
            yield
        finally:
            if pages.stdin is not None:
                pages.stdin.close()
            try:
                pages.wait(PAGES_PATIENCE_S)
            except subprocess.TimeoutExpired:
                pages.kill()
