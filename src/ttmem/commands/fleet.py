"""Many hosts for `ttmem top` and `ttmem ps`: the options, and what they show."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ttmem.commands.options import drawn, path
from ttmem.errors import BadInput

if TYPE_CHECKING:
    from ttmem.feeds.remote_feed import RemoteFeed

UNSUPPORTED = ("at", "socket", "shm", "device", "pid", "telemetry", "umd", "sysfs", "remote_ttmem")
INTERVAL_S = 5.0  # between two queries; a Prometheus usually scrapes every 15 seconds or more


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--prometheus",
        metavar="URL",
        type=path,
        help="show all hosts that this Prometheus scrapes, worst first; with --host NAME, one of them",
    )
    add(
        "--host",
        metavar="USER@BOX",
        type=path,
        action=_Once,
        help="run ttmem on this host over SSH and show its memory; with --prometheus: the host to show",
    )
    add(
        "--remote-ttmem",
        metavar="PATH",
        type=path,
        help="with --host: the ttmem to run there (default: ttmem in its PATH)",
    )


class _Once(argparse.Action):
    """Rejects a second --host, which argparse would let replace the first one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        value: Any,
        _: Any = None,
    ) -> None:
        if getattr(options, self.dest) is not None:
            parser.error("--host names one host; for several, see `ttmem top --prometheus`")
        setattr(options, self.dest, value)


def remote_feed(options: argparse.Namespace) -> RemoteFeed:
    """The feed of --host; --socket and --shm are paths there."""
    wrong = {"a recording": options.file, "--at": options.at, "--umd": options.umd}
    wrong |= {"--telemetry": options.telemetry, "--sysfs": options.sysfs}
    if given := [name for name, value in wrong.items() if value]:
        raise BadInput(f"--host cannot be combined with {given[0]}")
    from ttmem.feeds.remote_feed import RemoteFeed

    return RemoteFeed(
        options.host, options.remote_ttmem or "ttmem", socket=options.socket, shm=options.shm
    )


def check_fleet(options: argparse.Namespace, *more: str) -> None:
    """Raises BadInput if there are options that cannot be combined with --prometheus; `more`: those of one verb."""
    if options.file is not None:
        raise BadInput("--prometheus cannot be combined with a recording")
    for name in (*UNSUPPORTED, *more):
        if getattr(options, name):
            raise BadInput(f"--prometheus cannot be combined with --{name.replace('_', '-')}")


def fleet_text(options: argparse.Namespace, _: int | None = None) -> str:
    """The current state, as text or JSON."""
    from ttmem.fleet.asking import ask
    from ttmem.fleet.prometheus import Prometheus
    from ttmem.views.fleet import render_fleet
    from ttmem.views.terminal import as_json

    found = ask(Prometheus(options.prometheus), options.host)
    if options.json:
        return as_json(found.to_json(), sys.stdout.isatty() and options.watch is None)
    return drawn(options, partial(render_fleet, found))


def watch_fleet(options: argparse.Namespace) -> int:
    """The monitor on this terminal, or one page of it as text."""
    from ttmem.commands.options import check_terminal, print_screen
    from ttmem.fleet.asking import ask
    from ttmem.fleet.prometheus import Prometheus
    from ttmem.views.monitor.app import run_session
    from ttmem.views.monitor.fleet import FleetMonitor
    from ttmem.views.monitor.live_data import Poller, Reading
    from ttmem.views.monitor.theme import depth_of
    from ttmem.views.terminal import lacks_signs

    prometheus = Prometheus(options.prometheus)
    monitor = FleetMonitor(
        prometheus.url,
        interval=options.interval or INTERVAL_S,
        host=options.host,
        ascii_only=options.ascii or lacks_signs(sys.stdout),
        paper=options.once,
    )
    read = partial(ask, prometheus)
    if not options.once:
        check_terminal()
        poller = Poller(
            read, lambda: monitor.host, lambda: monitor.interval, lambda: prometheus.url
        )
        return run_session(monitor, poller, depth_of(options.no_color))
    monitor.take([Reading(monitor.host, time.monotonic(), read(monitor.host))])
    print_screen(options, monitor.screen)
    return 0
