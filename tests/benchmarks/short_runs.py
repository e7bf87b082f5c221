"""Short runs of the benchmarks, on a host that is busy with other work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.ground import owners
from benchmarks.shared_memory import region

from tests.own_process import ran
from ttmem.sources.counters.layout import STOCK

SHM = Path("/dev/shm")


@contextmanager
def foreign_region() -> Iterator[None]:
    """Where every program looks by default: the counters of a live process that is none of ours."""
    number = time.time_ns() | 1 << 62
    path = SHM / f"tt_device_{number}_memory"
    with owners(1, [str(path)], STOCK.size) as (owner,):
        path.write_bytes(region(number, [owner.pid], 0))
        try:
            yield
        finally:
            path.unlink()


def short_run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TTMEM_SHM", "TT_"))}
    return ran(
        [sys.executable, "-m", "benchmarks", "--short", *arguments],
        cwd=Path(__file__).parents[2],
        env=environment | variables,
        timeout=600,
    )
