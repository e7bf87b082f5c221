"""The probe in stock ttnn on mock devices, where nothing but the host's work takes time: its worst case."""

from __future__ import annotations

import os
import sys
from statistics import median
from tempfile import TemporaryDirectory

from tests.ttnn.bench.environment import Environment, prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine
from tests.ttnn.probed import SIZES

from benchmarks.ground import amount
from benchmarks.table import Row
from ttmem.probe import environment as with_probe

BOARDS = ("p150", "p150x4")[: amount(2, 1)]
RUNS, ROUNDS = amount(7, 1), amount(120, 6)  # processes; rounds in each of them
BLOCKS = {"models": 6, "allocations": 30}  # in a turn: some 10 ms
START = "from benchmarks.probe_blocks import Blocks\nblocks = Blocks(ttnn, device)\nNone"


def _compared(there: Machine, regions: str) -> dict[tuple[str, str], float]:
    """Medians of one process, which is compared with itself."""
    variables = with_probe({"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")})
    variables |= {"TTMEM_REGION_DIR": regions, "TTMEM_LOG": os.devnull}
    found: dict[tuple[str, str], float] = {}
    with there.session(SIZES, variables=variables) as session:
        session.run(START)
        for what, blocks in BLOCKS.items():
            ratios = session.run(f"blocks.compared({what!r}, {blocks}, {ROUNDS})")
            found |= {(what, mode): median(of_mode) for mode, of_mode in ratios.items()}
    return found


def _rows(environment: Environment, board: str) -> list[Row]:
    # In shared memory, where regions are: on a disk, every first touch of a page is the file system's work.
    with Machine(environment, board) as there, TemporaryDirectory(dir="/dev/shm") as regions:
        found = [_compared(there, regions) for _ in range(RUNS)]

    def row(text: str, what: str, mode: str, limit: float) -> Row:
        slower = [100 * (run[what, mode] - 1) for run in found]
        spread = f"{min(slower):.1f} to {max(slower):.1f} in {len(slower)} runs"
        return Row(f"probe in ttnn, {board}: {text}", median(slower), "%", limit, note=spread)

    return [
        row("models slower with call sites", "models", "on", 5),
        row("models slower, loaded but off", "models", "off", 1),
        row("nothing but allocations slower", "allocations", "on", 15),
    ]


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
