"""`python -m fuzz [COUNT] [SEED] [NAME ...]`: every target, or the named ones."""

from __future__ import annotations

import sys
from importlib import import_module

ALL = ("streams", "regions", "probe_regions", "recordings")


def main() -> int:
    """Exit code 1 if a law is broken."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    names = sys.argv[3:] or ALL
    codes: list[int] = [import_module(f"fuzz.run_{name}").run(count, seed) for name in names]
    return max(codes)


sys.exit(main())
