"""The probe in stock ttnn on mock devices, where nothing but the host's work takes time: its worst case."""

from __future__ import annotations

import os
import sys
from statistics import median
from tempfile import TemporaryDirectory

from tests.ttnn.bench.environment import Environment, prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.probed import SIZES

from benchmarks.table import Row
from ttmem.probe import environment as with_probe

BOARDS = ("p150", "p150x4")
RUNS, PAIRS = 5, 600  # processes; pairs of blocks in each of them
TURNS, BLOCKS = 60, 10  # of two processes, which take turns
START = "from benchmarks.probe_blocks import Blocks\nblocks = Blocks(ttnn, device)\nNone"


def _started(there: Machine, regions: str, *, probe: bool, tracking: str = "1") -> Session:
    variables = {"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}
    if probe:
        variables = with_probe(variables) | {"TTMEM_REGION_DIR": regions}
        variables |= {"TTMEM_TRACKING": tracking, "TTMEM_LOG": os.devnull}
    session = there.session(SIZES, variables=variables)
    session.send(START)
    return session


def _switched(there: Machine, regions: str) -> float:
    """Blocks with tracking on over their neighbours without, in one process."""
    with _started(there, regions, probe=True) as session:
        return median(map(float, session.run(f"blocks.switched({PAIRS})")))


def _loaded(there: Machine, regions: str) -> float:
    """Blocks of a process with the library, switched off, over those of one without."""
    with (
        _started(there, regions, probe=False) as without,
        _started(there, regions, probe=True, tracking="0") as loaded,
    ):
        ratios = []
        for number in range(TURNS):
            order = (without, loaded) if number % 2 else (loaded, without)
            took = {one: float(one.run(f"blocks.turn({BLOCKS})")) for one in order}
            ratios.append(took[loaded] / took[without])
    return median(ratios)


def _rows(environment: Environment, board: str) -> list[Row]:
    on, off = [], []
    # In shared memory, where regions are: on a disk, every first touch of a page is the file system's work.
    with Machine(environment, board) as there, TemporaryDirectory(dir="/dev/shm") as regions:
        for _ in range(RUNS):
            on.append(_switched(there, regions))
            off.append(_loaded(there, regions))
    return [
        _row(f"probe in ttnn, {board}: with call sites, over off", on, 1.05),
        _row(f"probe in ttnn, {board}: loaded but off, over without", off, 1.01),
    ]


def _row(what: str, ratios: list[float], limit: float) -> Row:
    spread = f"{min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} runs"
    return Row(what, median(ratios), "x", limit, note=spread)


def measure() -> list[Row]:
    """Nothing, with one line that says why, where ttnn cannot be had."""

    def say(what: str) -> None:
        print(f"ttnn bench: {what}", file=sys.stderr, flush=True)

    try:
        environment = prepare(find_interpreter(), say)
    except Unavailable as reason:
        say(f"not measured: {reason}")
        return []
    return [row for board in BOARDS for row in _rows(environment, board)]
