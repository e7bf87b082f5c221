"""`python -m benchmarks [NAME ...]`: every benchmark, or the named ones, in one table."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.table import Row, show

ALL = (
    "client",
    "server",
    "snapshot",
    "ledger",
    "model",
    "monitor",
    "shared_memory",
    "ps",
    "probe",
    "probe_ttnn",
)


def main() -> int:
    """Exit code 1 if a limit is missed."""
    rows: list[Row] = []
    for name in sys.argv[1:] or ALL:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += import_module(f"benchmarks.{name}").measure()
    print(show(rows))
    return int(any(row.ratio < 1 for row in rows))


sys.exit(main())
