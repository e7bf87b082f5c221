"""`python -m benchmarks.soak`: an hour (SOAK_SECONDS) of everything at once; memory, descriptors and threads stay flat.

`serve` has a busy host to account, `top` shows it while its views are switched, a loop of stock ttnn runs under `ttmem
run` (a twin of it without, for comparison), one client reports all the time, and others come, go or are killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.ttnn.bench.environment import prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine
from tests.views.monitor.terminal_program import TerminalProgram

from benchmarks.busy_host import busy_host
from benchmarks.ground import amount, own_folders, wait_until
from benchmarks.server import running_server
from ttmem.api import snapshot
from ttmem.client import AllocationClient, MemoryKind
from ttmem.errors import TtmemError
from ttmem.procfs import peer_credentials

WARM = 0.2  # of the time: imports, caches, the first pictures and the first round of every list
WINDOW = 0.2  # of the time: the first of these after that is compared with the last
MOST = amount(
    8, 32
)  # MiB that may come; an hour of samples of 32 devices, which `top` keeps, is 6.2
MORE = 2  # descriptors, and threads, by which a median may differ
VIEWS = "123456"
OWN_DEVICE = 1000  # of the clients here; those of the busy host have smaller numbers
LOOP = """\
import time

import ttnn


def tensor(rows):
    return ttnn.empty((1, 1, rows, 256), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
weight = tensor(256)
print("open", flush=True)
step = 0
while True:
    states = tensor(32 * (1 + step % 8))
    made = ttnn.softmax(ttnn.matmul(states, weight, memory_config=ttnn.L1_MEMORY_CONFIG), dim=-1)
    del states, made
    step += 1
    time.sleep(0.05)
"""


class Sample(NamedTuple):
    """One process at one instant."""

    memory: float  # MiB that are resident
    descriptors: float
    threads: float

    @staticmethod
    def of(pid: int) -> Sample:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        resident = int(found["VmRSS"].split()[0]) / 1024
        return Sample(resident, len(os.listdir(f"/proc/{pid}/fd")), int(found["Threads"]))


@dataclass
class Watched:
    """A process and its samples over time."""

    name: str
    pid: int
    twin: Watched | None = None  # grows by itself; only what comes on top of that counts
    judged: bool = True
    samples: list[Sample] = field(default_factory=list)

    def look(self) -> None:
        self.samples.append(Sample.of(self.pid))

    def windows(self) -> tuple[Sample, Sample]:
        """Medians of an early and of the last part."""
        count = len(self.samples)
        width = max(1, int(count * WINDOW))
        first = min(int(count * WARM), count - width)
        early, late = self.samples[first : first + width], self.samples[-width:]
        return (
            Sample(*map(median, zip(*early, strict=True))),
            Sample(*map(median, zip(*late, strict=True))),
        )

    def growth(self) -> Sample:
        early, late = self.windows()
        return Sample(*(after - before for before, after in zip(early, late, strict=True)))

    @property
    def flat(self) -> bool:
        memory, descriptors, threads = self.growth()
        if self.twin is not None:
            memory -= max(0.0, self.twin.growth().memory)
        return memory <= MOST and descriptors <= MORE and threads <= MORE


def main() -> int:
    """Exit code 1 if something has grown."""
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing stays behind
    with own_folders(), running_server() as path, busy_host(path):
        watched, came = soak(path, seconds)
    print(f"{seconds:g} s, {len(watched[0].samples)} samples, {came:,} clients came and went")
    print(table(watched))
    return int(not all(process.flat for process in watched if process.judged))


def soak(path: str, seconds: float) -> tuple[list[Watched], int]:
    """Runs all of it beside the server at that socket; how many clients came and went."""
    command = [sys.executable, "-m", "ttmem", "top", "--socket", path, "--interval", "0.5"]
    with ExitStack() as running:
        watched = [Watched("serve", _server(path))]
        program = running.enter_context(TerminalProgram(command, width=200, height=60))
        program.wait_for("1 Overview")
        watched.append(Watched("top", program.process.pid))
        watched.append(Watched("client", running.enter_context(_client(path, None))))
        watched += running.enter_context(_ttnn())
        shown = {process.pid for process in watched if process.name in ("client", "ttnn under run")}
        wait_until(
            lambda: shown <= {process.pid for process in snapshot(path).processes}, "not all shown"
        )
        begun, came, next_look = time.monotonic(), 0, 0.0
        next_word = seconds / 6
        while (age := time.monotonic() - begun) < seconds:
            program.press(VIEWS[came % len(VIEWS)])
            program.forget()
            program.read_for(min(1.0, seconds / 60))
            _come_and_go(path, came)
            came += 1
            if age >= next_look:
                next_look = age + min(5.0, seconds / 60)
                for process in watched:
                    process.look()
            if age >= next_word:
                next_word += seconds / 6
                _say(f"after {age:.0f} s\n{table(watched)}")
        return watched, came


def table(watched: list[Watched]) -> str:
    """Early and late medians of each."""
    lines = [f"{'process':<24} {'RSS, MiB':>18} {'descriptors':>14} {'threads':>12}"]
    for process in watched:
        early, late = process.windows()
        verdict = ("flat" if process.flat else "GROWS") if process.judged else "for comparison"
        lines.append(
            f"{process.name:<24} {early.memory:>7.1f} -> {late.memory:>7.1f}"
            f" {early.descriptors:>5g} -> {late.descriptors:>5g}"
            f" {early.threads:>4g} -> {late.threads:>4g}  {verdict}"
        )
    return "\n".join(lines)


def _server(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(path)
        return peer_credentials(asking)[0]


def _report(path: str, steps: int | None) -> None:
    """Allocates and frees, so many times or until it is killed; what is left is never freed."""
    client = AllocationClient(path)
    step = 0
    while steps is None or step < steps:
        step += 1
        kind = (MemoryKind.DRAM, MemoryKind.L1)[step % 2]
        site = f"soak.py:{step % 500} step"
        client.report_allocation(OWN_DEVICE, step, 4096, kind, site=site)
        if step > 20:
            old = step - 20
            client.report_deallocation(
                OWN_DEVICE, old, (MemoryKind.DRAM, MemoryKind.L1)[old % 2], 4096
            )
        if steps is None:
            time.sleep(0.01)
    client.close()


@contextmanager
def _client(path: str, steps: int | None) -> Iterator[int]:
    """A process that reports; it is killed at the end, if it is still there."""
    child = multiprocessing.get_context("fork").Process(target=_report, args=(path, steps))
    child.start()
    try:
        yield child.pid or 0
    finally:
        if steps is None:
            child.kill()
        child.join()


def _come_and_go(path: str, turn: int) -> None:
    """Somebody who reports and ends, who is killed, who asks, who says half a word."""
    with _client(path, None if turn % 3 == 0 else 100), suppress(TtmemError):  # a busy host is slow
        snapshot(path, ("buffers",) if turn % 10 == 0 else ())
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        silent.sendall(b"TTM"[: turn % 4])


@contextmanager
def _ttnn() -> Iterator[list[Watched]]:
    """A loop of stock ttnn under `ttmem run`, and one without; nothing, with a line that says why, where it is not."""
    try:
        environment = prepare(find_interpreter(), _say)
    except Unavailable as reason:
        _say(f"no watched loop: {reason}")
        yield []
        return
    run = [sys.executable, "-m", "ttmem", "run", "--quiet", "--"]
    with ExitStack() as running:
        there = running.enter_context(Machine(environment, "p150"))
        (there.folder / "loop.py").write_text(LOOP)
        loop = [str(environment.python), "loop.py"]

        def start(command: list[str]) -> int:
            variables = there.variables(there.folder)
            variables["TTMEM_REGION_DIR"] = os.environ["TTMEM_REGION_DIR"]
            process = subprocess.Popen(
                command,
                cwd=there.folder,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            running.callback(process.wait)
            running.callback(process.terminate)
            assert process.stdout is not None
            running.callback(process.stdout.close)
            wait_until(lambda: "open" in str(process.stdout and process.stdout.readline()), "ttnn")
            return process.pid

        launcher = start([*run, *loop])
        twin = Watched("ttnn, not watched", start(loop), judged=False)
        yield [
            Watched("run", launcher),
            Watched("ttnn under run", _child(launcher), twin),
            twin,
        ]


def _child(pid: int) -> int:
    """The command that `ttmem run` runs."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0])


def _say(what: str) -> None:
    print(f"soak: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
