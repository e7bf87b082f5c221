"""What `ttmem record` costs a loop of stock ttnn on mock devices: with the recorder running, and with it stopped.

The recorder is a process of its own, which reads the region of the probe. So this is what its reading costs the memory
that both use; processor time of the loop's thread, as in `probe_ttnn`. Many short pairs of turns, alternating in one
process: the median of all of them, with the interval that has it in 95 of 100 cases whatever their distribution.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from itertools import cycle, islice
from statistics import median
from tempfile import TemporaryDirectory

from tests.ttnn.bench.environment import Environment, prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine
from tests.ttnn.probed import SIZES

from benchmarks.ground import amount, wait_until
from benchmarks.probe_ttnn import START
from benchmarks.table import Row
from ttmem.probe import environment as with_probe
from ttmem.recording import Recording

BOARD = "p150"
RUNS, ROUNDS = amount(3, 1), amount(100, 2)
BLOCKS = {"models": 40, "allocations": 300}  # in a turn: longer than the pause between two readings
ORDERS = (("recorded", "alone"), ("alone", "recorded"))


def _interval(values: list[float]) -> tuple[float, float]:
    """Between these two of them the median is with a probability of 95 %: ranks of the binomial distribution."""
    ordered, count = sorted(values), len(values)
    away = 1.96 * math.sqrt(count) / 2
    low, high = math.floor(count / 2 - away), math.ceil(count / 2 + away)
    return ordered[max(0, low)], ordered[min(count - 1, high)]


def _compared(there: Machine, folder: str) -> tuple[dict[str, list[float]], int]:
    """The ratios of all pairs of one process, and how many records were made meanwhile."""
    variables = with_probe({"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")})
    variables |= {"TTMEM_REGION_DIR": folder, "TTMEM_LOG": os.devnull}
    path = os.path.join(folder, "run.ttmem")
    command = [sys.executable, "-m", "ttmem", "record", path, "--shm", folder, "--overwrite"]
    found = {}
    with there.session(SIZES, variables=variables) as session:
        session.run(START)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recorder:
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, "no recording")
            for what, blocks in BLOCKS.items():
                ratios = []
                for order in islice(cycle(ORDERS), ROUNDS):
                    took = {}
                    for mode in order:
                        stop = mode == "alone"
                        recorder.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)
                        took[mode] = session.run(f"blocks.turn('on', {what!r}, {blocks})")
                    ratios.append(took["recorded"] / took["alone"])
                found[what] = ratios
            recorder.send_signal(signal.SIGCONT)
            recorder.send_signal(signal.SIGINT)
    with Recording(path) as recording:
        return found, recording.info().end


def _rows(environment: Environment) -> list[Row]:
    # In shared memory, where regions are.
    with Machine(environment, BOARD) as there, TemporaryDirectory(dir="/dev/shm") as folder:
        runs = [_compared(there, folder) for _ in range(RUNS)]

    def row(text: str, what: str) -> Row:
        slower = [100 * (ratio - 1) for run, _ in runs for ratio in run[what]]
        low, high = _interval(slower)
        between = f"between {low:.2f} and {high:.2f} % (95 %), {len(slower):,} pairs"
        note = f"{between}; {min(records for _, records in runs):,} records"
        return Row(f"recording ttnn, {BOARD}: {text}", median(slower), "%", 1, note=note)

    return [
        row("models slower", "models"),
        row("nothing but allocations slower", "allocations"),
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
    return _rows(environment)
