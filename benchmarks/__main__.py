"""`python -m benchmarks [--short] [NAME ...]`: every benchmark, or the named ones, in one table.

--short measures next to nothing: it shows that the benchmarks work, and its figures are not judged.
"""

from __future__ import annotations

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
    "flight_recorder",
    "model",
    "monitor",
    "shared_memory",
    "ps",
    "probe",
    "probe_ttnn",
    "recording_ttnn",
)


def main() -> int:
    """Exit code 1 if a limit is missed, 2 if a benchmark failed: then nothing after it is measured."""
    names = sys.argv[1:]
    if short := "--short" in names:
        names.remove("--short")
        os.environ[SHORT_VARIABLE] = "1"  # before the benchmarks are loaded
    if unknown := [name for name in names if name not in ALL]:
        print(f"benchmarks: no {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # folders are removed
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


if __name__ == "__main__":
    sys.exit(main())
