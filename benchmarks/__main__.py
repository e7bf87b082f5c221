"""Every benchmark, or the named ones, in one table."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from importlib import import_module

from benchmarks.ground import SHORT_VARIABLE, Failed, own_folders
from benchmarks.table import Row, show
from ttmem.errors import TtmemError

ALL = (
    "client",
    "server",
    "event_log",
    "questions",
    "snapshot",
    "ledger",
    "recording",
    "report",
    "fleet",
    "flight_recorder",
    "model",
    "monitor",
    "shared_memory",
    "ps",
    "metrics",
    "pages",
    "probe",
    "probe_ttnn",
    "recording_ttnn",
)


def main() -> int:
    """Exit code 1 if a limit is missed, 2 if a benchmark failed: then nothing after it is measured."""
    options = _parser().parse_args()
    names, short = options.names, options.short
    if short:
        os.environ[SHORT_VARIABLE] = "1"  # before the benchmarks are loaded
    if unknown := [name for name in names if name not in ALL]:
        print(f"benchmarks: no {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # folders are removed
    if options.against:
        return _compare(options.against, names, short)
    rows: list[Row] = []
    failure = ""
    with own_folders():
        for name in names or ALL:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            try:
                rows += import_module(f"benchmarks.{name}").measure()
            except Exception as reason:
                if not isinstance(reason, Failed | TtmemError):
                    traceback.print_exc()
                failure = f"benchmarks: {name} failed: {reason or type(reason).__name__}"
                break
    print(show(rows))
    if failure:
        print(failure, file=sys.stderr)
        return 2
    return int(not short and any(row.ratio < 1 for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument(
        "--short",
        action="store_true",
        help="measure next to nothing: shows that the benchmarks work; figures are not judged",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="run them here and at another commit, five times in turns, and compare the medians",
    )
    return parser


def _compare(commit: str, names: list[str], short: bool) -> int:
    from benchmarks.comparison import (
        compare,  # here, since it reads the environment as --short sets it
    )

    try:
        return int(not compare(commit, names) and not short)
    except Failed as reason:
        print(f"benchmarks: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
