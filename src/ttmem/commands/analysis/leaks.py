"""Find what grows from iteration to iteration, in a recording or a running process.

    ttmem leaks run.ttmem
    ttmem leaks --pid 4711 --duration 30s

For each line of code, the low-water mark of each iteration is compared with that of the iteration before, so memory
that is freed within an iteration does not count, and neither do weights that stay until the end. Verdicts: leak (never
falls, rises in most iterations of the second half, and is still held in the end), cache growth (kernel binaries and
other memory of the program cache), left by a dead process, freed in the end, warm-up (rose only in the first half), and
steady.

An iteration is the time between two marks (`ttmem mark`), or between two entries of the most frequent phase
(`with ttmem.phase('step'):`); without either, the run is divided into equal parts, and a line that grew only now and
then gets no verdict. Neither does a process that lost events: the others are judged without it. Bytes are the sum of
the devices of a row.

exit codes: 0 no leak, 1 a leak, or no verdict because of losses or of unknown or too few iterations, 2 wrong arguments,
or not a recording, 3 the process is not watched
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ttmem.commands.options import (
    add_check_options,
    add_output_options,
    flag,
    open_recording,
    path,
    print_answer,
)
from ttmem.errors import BadInput

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from ttmem.recording import Recording

BY = ("mark", "phase", "window")


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", type=path, help="a recording")
    add("--pid", metavar="PID", type=int, help="watch this process instead")
    add(
        "--duration",
        metavar="TIME",
        default="30s",
        help="with --pid: how long to watch (default 30s)",
    )
    add("--shm", metavar="DIR", type=path, help="with --pid: the directory with its region")
    add("--by", choices=BY, help="what an iteration is")
    add_check_options(parser)
    flag(parser, "--all", "also list lines that grew only during warm-up")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.history import History
    from ttmem.analysis.leaks import LeakVerdict, find_leaks
    from ttmem.views.analysis.leaks import leaks_document, render_leaks

    with _recording(options) as recording:
        history = History(recording, pid=options.pid)
        found = find_leaks(
            history,
            options.by,
            min_bytes=options.min_bytes,
            ignore_phases=options.ignore_phase,
        )
        print_answer(
            options,
            lambda: leaks_document(history, found),
            partial(render_leaks, history, found, every=options.all),
        )
    undecided = found.of(LeakVerdict.UNDECIDED) or found.not_judged or found.set_aside
    return 1 if found.of(LeakVerdict.LEAK) or undecided else 0


@contextmanager
def _recording(options: argparse.Namespace) -> Iterator[Recording]:

    if (options.file is None) == (options.pid is None):
        raise BadInput("give either a recording or --pid with a process under `ttmem run`")
    if options.file is not None:
        with open_recording(options.file) as recording:
            yield recording
        return
    from ttmem.feeds import recorded
    from ttmem.recording.times import SECOND_NS, parse_duration

    seconds = parse_duration(options.duration) / SECOND_NS
    with _interruptible() as stop:
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"watching pid {options.pid} for {seconds:g} s; Ctrl-C ends it", file=sys.stderr)
        recording = recorded(seconds, pid=options.pid, shm=options.shm, stop=stop)
    with recording:
        yield recording


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets: the verdict then covers what was seen so far."""
    import threading

    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
