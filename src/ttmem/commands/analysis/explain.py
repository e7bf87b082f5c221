"""Explain failed allocations in a recording or in a log of the runtime.

    ttmem explain run.ttmem
    ttmem explain < log.txt

For each failed allocation in a recording: what was requested and by whom, what was free, why it failed,
which call sites to free so that it fits, and what held the rest. The same failure again is only counted;
--json has each of them.

A log is any text with the runtime's error messages, of any version since 2024: a job's output, a bug
report. Colours and MPI prefixes do no harm. A message tells what was requested and often what was free,
but not who asked or what held the rest; the explanation says which of these are missing.

exit codes: 0 explained, 1 nothing failed, failures were not recorded, or the log has no known message,
2 wrong arguments, or the file cannot be read
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ttmem.commands.options import add_output_options, drawn, open_recording, path
from ttmem.errors import BadInput
from ttmem.events.runtime_messages import LogMessage, found_in
from ttmem.sizes import several
from ttmem.text import clean
from ttmem.views.analysis.runtime_messages import explained, render_said
from ttmem.views.terminal import as_json

if TYPE_CHECKING:
    from ttmem.analysis.failures import Explanation

SCHEMA = "ttmem.explain/1"
LONGEST_LINE = 1 << 20  # bytes that are read at once: a file of zeros has no lines
RECORDING = b"\xf7TTM"  # the first bytes of a recording


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=path,
        help="a recording, or a log (default: a log from standard input)",
    )
    add_output_options(parser)


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
    from ttmem.views.analysis.failures import as_document, render_failure

    with open_recording(options.file) as recording:
        found = [explain(failure) for failure in recorded_failures(recording)]
        unknown = recording.failures_unknown
        part = "the part that can be read of " if recording.unfinished else ""
        damaged = len(recording.info().damages)
    if damaged:
        lacks = "names, or what was held, may be missing here"
        print(
            f"ttmem: {several(damaged, 'part')} of the recording cannot be read: {lacks}",
            file=sys.stderr,
        )
    if options.json:
        document = {
            "schema": SCHEMA,
            "file": options.file,
            "log": False,
            "unknown": unknown or None,
        }
        _print_json(document | {"failures": [as_document(explanation) for explanation in found]})
    elif found:
        texts = [
            drawn(
                options,
                partial(render_failure, same[0].failure.pid or 0, same[0], times=len(same)),
            )
            for same in _alike(found)
        ]
        print("\n\n".join(texts))
    elif unknown:
        print(f"{clean(options.file)}: {unknown}")
    else:
        print(f"no allocation failed in {part}{clean(options.file)}")
    return 0 if found else 1


def _alike(found: Iterable[Explanation]) -> Iterable[list[Explanation]]:
    """Failures of the same line with the same request and verdict, in the order of the first."""
    groups: dict[object, list[Explanation]] = {}
    for explanation in found:
        failure = explanation.failure
        request = (failure.what, failure.kind, failure.chips, explanation.asked)
        key = (failure.pid, failure.origin, *request, explanation.verdict)
        groups.setdefault(key, []).append(explanation)
    return groups.values()


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
        _print_json(document | {"messages": [_document(message) for message in found]})
    elif found:
        texts = [drawn(options, partial(render_said, message)) for message in found]
        told = f"{several(len(found), 'message')} about memory"
        print("\n\n".join([told, *texts]))
    else:
        print(
            "no message of the runtime about memory in this text; `ttmem run -- COMMAND` explains failures as they"
            " happen"
        )
    return 0 if found else 1


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Invalid UTF-8 is replaced; the carriage returns of progress bars also end a line."""
    while line := file.readline(LONGEST_LINE):
        yield from line.decode("utf-8", "replace").split("\r")


def _document(message: LogMessage) -> dict[str, Any]:
    title, verdict, short_by, facts = explained(message.said)
    return {
        "title": title,
        "verdict": verdict,
        "short_by": short_by,
        "said": asdict(message.said),
        "facts": facts,
        "line": message.line,
        "times": message.times,
        "ranks": list(message.ranks),
    }


def _print_json(document: dict[str, Any]) -> None:
    print(as_json(document, sys.stdout.isatty()))
