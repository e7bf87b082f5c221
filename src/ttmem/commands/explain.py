"""Explain failed allocations: of a recording, or in a log of the runtime.

    ttmem explain run.ttmem
    ttmem explain < log.txt

For each failed allocation of a recording: who asked for what, what was free, why it failed, which
call sites to free so that it fits, and what held the rest.

A log is anything that contains the runtime's error messages, of any version since 2024, with colours
and prefixes of MPI: a job's output, a bug report. A message says what was asked for and often what
was free, but not by whom, and not what holds the rest; the explanation says what is missing.

exit codes: 0 explained, 1 nothing failed, or the log has no message that ttmem knows, 2 wrong
arguments, or a file that cannot be read
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any

from ttmem.commands.options import path
from ttmem.errors import BadInput
from ttmem.events.runtime_messages import LogMessage, found_in
from ttmem.sizes import several
from ttmem.text import clean
from ttmem.views.said import explained, render_said, short_by, verdict_of
from ttmem.views.terminal import as_json, spelled, wants_color, width

SCHEMA = "ttmem.explain/1"
RECORDING = b"\xf7TTM"  # how a recording begins


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=path,
        help="a recording, or a log (default: a log from standard input)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-color", action="store_true", help="print no colors")


def run(options: argparse.Namespace) -> int:
    if options.file is not None and _is_recording(options.file):
        return _recording(options)
    return _log(options)


def _is_recording(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return opened.read(len(RECORDING)) == RECORDING
    except OSError as problem:
        raise BadInput(f"{file} cannot be read: {problem.strerror}") from None


def _recording(options: argparse.Namespace) -> int:
    from ttmem.analysis.failures import explain
    from ttmem.analysis.recorded_failures import recorded_failures
    from ttmem.recording import Recording
    from ttmem.views.failures import as_document, render_failure

    with Recording(options.file) as recording:
        found = [explain(failure) for failure in recorded_failures(recording)]
    if options.json:
        document = {"schema": SCHEMA, "file": options.file, "log": False}
        _print_json(document | {"failures": [as_document(one) for one in found]})
    elif found:
        wide, color = width(sys.stdout), wants_color(sys.stdout, options.no_color)
        texts = [
            render_failure(one.failure.pid or 0, one, width=wide, color=color) for one in found
        ]
        print(spelled("\n\n".join(texts), sys.stdout))
    else:
        print(f"no allocation failed in {clean(options.file)}")
    return 0 if found else 1


def _log(options: argparse.Namespace) -> int:
    if options.file is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise BadInput(
                "give a recording, or a log: ttmem explain run.ttmem, ttmem explain < log.txt"
            )
        found = found_in(_lines(sys.stdin.buffer))
    else:
        with open(options.file, "rb") as file:
            found = found_in(_lines(file))
    if options.json:
        document = {"schema": SCHEMA, "file": options.file, "log": True}
        _print_json(document | {"messages": [_document(one) for one in found]})
    elif found:
        wide, color = width(sys.stdout), wants_color(sys.stdout, options.no_color)
        texts = [render_said(one, width=wide, color=color) for one in found]
        told = f"{several(len(found), 'different message')} about memory"
        print(spelled("\n\n".join([told, *texts]), sys.stdout))
    else:
        print(
            "no message of the runtime about memory in this text; `ttmem run -- COMMAND` explains failures as they"
            " happen"
        )
    return 0 if found else 1


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Bytes that are no text cost themselves only; a progress bar's carriage returns separate lines, too."""
    for line in file:
        yield from line.decode("utf-8", "replace").split("\r")


def _document(message: LogMessage) -> dict[str, Any]:
    title, facts = explained(message.said)
    return {
        "title": title,
        "verdict": verdict_of(message.said),
        "short_by": short_by(message.said),
        "said": asdict(message.said),
        "facts": dict(facts),
        "line": message.line,
        "times": message.times,
        "ranks": list(message.ranks),
    }


def _print_json(document: dict[str, Any]) -> None:
    print(as_json(document, sys.stdout.isatty()))
