"""Find what grows from iteration to iteration, in a recording or a running process.

    ttmem leaks run.ttmem
    ttmem leaks --pid 4711 --duration 30s

For each line of code, the least that it held during an iteration is compared with the iteration before. What an
iteration allocates and frees again makes no difference, nor do weights that stay until the end. Verdicts: leak (it
never falls and rises in most iterations of the second half), cache growth (kernel binaries and the like, which go with
the program cache), left by a dead process, warm-up (it rose at first, and then no more) and steady.

Iterations are the time between two marks (`ttmem mark`), or between two entries of the phase that comes most often
(`with ttmem.phase('step'):`); without either, equal parts of the run. A recording with losses gets no verdict.

exit codes: 0 no leak, 1 a leak, or no verdict because of losses or too few iterations, 2 wrong arguments, or no
recording, 3 the process is not watched
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ttmem.commands.options import add_output_options, path, size
from ttmem.errors import BadInput
from ttmem.views.terminal import as_json, spelled, wants_color, width

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from ttmem.recording import Recording

BY = ("mark", "phase", "window")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=path, help="a recording")
    parser.add_argument("--pid", metavar="PID", type=int, help="watch this process instead")
    parser.add_argument(
        "--duration", metavar="TIME", default="30s", help="with --pid: for how long (default 30s)"
    )
    parser.add_argument("--shm", metavar="DIR", type=path, help="with --pid: its region is here")
    parser.add_argument("--by", choices=BY, help="what an iteration is")
    parser.add_argument(
        "--min-bytes",
        metavar="SIZE",
        type=size,
        default=0,
        help="call growth of less than this, over the part of the run that is judged, steady",
    )
    parser.add_argument(
        "--ignore-phase",
        metavar="NAME",
        action="append",
        default=[],
        help="do not judge what this phase allocates; may be repeated",
    )
    parser.add_argument("--all", action="store_true", help="also list what only warmed up")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.history import History
    from ttmem.analysis.leaks import Verdict, find_leaks
    from ttmem.views.leaks import leaks_document, render_leaks

    with _recording(options) as recording:
        history = History(recording)
        found = find_leaks(
            history,
            options.by,
            min_bytes=options.min_bytes,
            ignore_phases=options.ignore_phase,
        )
        if options.json:
            print(as_json(leaks_document(history, found), sys.stdout.isatty()))
        else:
            text = render_leaks(
                history,
                found,
                every=options.all,
                width=width(sys.stdout),
                color=wants_color(sys.stdout, options.no_color),
            )
            print(spelled(text, sys.stdout))
    return 1 if found.of(Verdict.LEAK) else 0


@contextmanager
def _recording(options: argparse.Namespace) -> Iterator[Recording]:
    from ttmem.recording import Recording

    if (options.file is None) == (options.pid is None):
        raise BadInput("name either a recording or, with --pid, a process under `ttmem run`")
    if options.file is not None:
        with Recording(options.file) as recording:
            yield recording
        return
    from ttmem.feeds import recorded
    from ttmem.recording.when import SECOND_NS, parse_duration

    seconds = parse_duration(options.duration) / SECOND_NS
    with _interruptible() as stop:
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"watching pid {options.pid} for {seconds:g} s; Ctrl-C ends it", file=sys.stderr)
        recording = recorded(seconds, pid=options.pid, shm=options.shm, stop=stop)
    with recording:
        yield recording


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets: the answer is about what was seen until then."""
    import threading

    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
