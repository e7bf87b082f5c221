"""Print metrics for Prometheus, write a textfile, or send them to an OpenTelemetry collector.

    ttmem metrics                                        print them once
    ttmem metrics --textfile /var/lib/node_exporter --every 15s
                                                         for the textfile collector of node_exporter
    ttmem metrics --otlp http://collector:4318 --every 15s

Unknown values have no sample. --per-process adds the memory of processes, labelled by user, program,
pod, namespace, container and Slurm job; processes with the same labels are summed. docs/metrics.md
explains each metric.

exit codes: 0 done, 1 failed, 2 wrong arguments, 3 neither server nor shared memory, 4 the server
refused
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ttmem.clock import now_ns
from ttmem.commands.options import (
    add_compat_option,
    add_place_options,
    add_telemetry_options,
    flag,
    path,
    repeat,
    with_telemetry,
)
from ttmem.errors import BadInput, NothingToRead, Refused, TtmemError

if TYPE_CHECKING:
    from ttmem.exporters.openmetrics import Family
    from ttmem.exporters.otlp import Collector
    from ttmem.feeds import Feed

FILE = "ttmem.prom"


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_place_options(parser)
    flag(parser, "--openmetrics", "print OpenMetrics instead of the text format")
    flag(parser, "--per-process", "add the memory of processes, by user, program, pod and job")
    add_compat_option(parser)
    add("--textfile", metavar="DIR", type=path, help=f"write DIR/{FILE} instead of printing")
    add(
        "--otlp",
        metavar="URL",
        type=path,
        help="send to this collector by OTLP/HTTP instead of printing",
    )
    add(
        "--every",
        metavar="TIME",
        type=_period,
        help="with --textfile or --otlp: repeat, for example every 15s",
    )
    add_telemetry_options(parser)


def _period(text: str) -> float:
    from ttmem.recording.times import parse_duration

    try:
        seconds = parse_duration(text) / 1e9
    except BadInput as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1s to 24h")
    return seconds


def run(options: argparse.Namespace) -> int:
    if options.textfile and options.otlp:
        raise BadInput("--textfile and --otlp cannot be combined; run ttmem metrics twice")
    if options.every and not (options.textfile or options.otlp):
        raise BadInput(
            "--every needs --textfile or --otlp; Prometheus itself scrapes `ttmem serve --http`"
        )
    if options.textfile and not os.path.isdir(options.textfile):
        raise BadInput(
            f"{options.textfile} is not a directory; create it, or name another with --textfile"
        )
    if options.openmetrics and (options.textfile or options.otlp):
        raise BadInput("--openmetrics is for printing; a textfile and OTLP have forms of their own")
    if options.compat and options.otlp:
        raise BadInput("--compat has names for Prometheus; OTLP has names of its own")
    from ttmem.feeds import open_feed

    collector: Collector | None = None
    if options.otlp:
        from ttmem.exporters.otlp import Collector

        collector = Collector(options.otlp)
    live = open_feed(options.socket, options.shm)
    feed, since_ns = with_telemetry(live, options, once=options.every is None), now_ns()
    once = partial(_once, options, feed, collector, since_ns)
    try:
        if options.every is None:
            once()
        else:
            repeat(options.every, once, _complain)
    except KeyboardInterrupt:
        pass
    finally:
        feed.close()
    return 0


def _once(
    options: argparse.Namespace, feed: Feed, collector: Collector | None, since_ns: int
) -> None:
    from ttmem.exporters.openmetrics import families, render

    try:
        snapshot = feed.read()
    except NothingToRead:  # an idle host has metrics, too: zero devices in use
        from ttmem.feeds import idle_host

        snapshot = idle_host()
    if collector is not None:
        collector.send(snapshot, per_process=options.per_process, since_ns=since_ns)
        return
    found = families(
        snapshot, per_process=options.per_process, compat=options.compat == "tt-exporter"
    )
    if options.textfile:
        _replace(os.path.join(options.textfile, FILE), found)
    else:
        sys.stdout.write(render(found, openmetrics=options.openmetrics))


def _replace(name: str, found: list[Family]) -> None:
    """Replaces the file atomically, so that a collector never reads half of it."""
    from ttmem.exporters.openmetrics import render

    part = f"{name}.{os.getpid()}"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(render(found))
        os.rename(part, name)
    except OSError as problem:
        with suppress(OSError):
            os.unlink(part)
        raise TtmemError(f"{name} cannot be written: {problem.strerror}") from problem


def _complain(problem: TtmemError, said: str) -> str:
    """Prints a problem once, until it changes."""
    if isinstance(problem, (BadInput, Refused)):
        raise problem
    text = f"ttmem: {problem} (trying again)"
    if text != said:
        print(text, file=sys.stderr, flush=True)
    return text
