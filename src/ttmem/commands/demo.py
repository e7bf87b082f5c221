"""Try ttmem without a card: simulated devices, a private server, and a live table.

Starts a private server and two applications on a model of the runtime: a transformer on four p150
chips, and two processes that serve requests on the first of them. On a terminal, the table is updated
live; otherwise two snapshots are printed. --top opens the live monitor instead, until you press q. A
summary follows, and everything is removed. --report writes an example of `ttmem report` instead.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial

from ttmem.api import snapshot
from ttmem.commands.children import end_all, how_it_ended
from ttmem.commands.options import check_output, drawn_for, ended_by_signals, flag, path
from ttmem.errors import BadInput, TtmemError
from ttmem.own_python import module_command
from ttmem.sizes import human, several
from ttmem.snapshots import Device, Snapshot
from ttmem.text import wrap
from ttmem.views.ps import render
from ttmem.views.terminal import Screen, spelled, width

LONGEST = 24 * 3600.0
PERIOD = 0.25  # seconds between two snapshots
STARTING = 20.0  # seconds
RATE = 20  # steps per second
NEXT = "next: `ttmem run -- python model.py` watches your own program, `ttmem top` all of them"
WORKLOADS = (("transformer",), ("serving", "--processes", "2"))


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="how long to run (default %(default)g)"
    )
    flag(parser, "--top", "show the live monitor instead of the table; q quits")
    parser.add_argument(
        "--report",
        metavar="PATH",
        nargs="?",
        const="ttmem-demo.html",
        type=path,
        help="write a report of a simulated run, for a browser, instead (default %(const)s)",
    )


def run(options: argparse.Namespace) -> int:
    if not 0 < options.seconds <= LONGEST or math.isnan(options.seconds):
        raise BadInput(f"--seconds must be above 0, and at most {LONGEST:g}")
    if options.report:
        return _report(options.report)
    if options.top:
        from ttmem.commands.options import check_terminal  # before starting anything

        check_terminal()
    with ended_by_signals(), DemoProcesses() as processes:
        begun = time.monotonic()
        if options.top:
            last = _monitor(processes)
        elif sys.stdout.isatty():
            last = _follow(processes, begun + options.seconds)
        else:
            last = _print_snapshots(processes, options.seconds)
    print(spelled(summary(last, time.monotonic() - begun, width(sys.stdout)), sys.stdout))
    return 0


def _report(target: str) -> int:
    """A report of the simulated workload `serving`."""
    from ttmem.commands.recording.report import write_report

    check_output(target, overwrite=False)
    with tempfile.TemporaryDirectory(prefix="ttmem-demo-") as folder:
        file = os.path.join(folder, "demo.ttmem")
        workload = ["simulate", "serving", "--steps", "300", "--rate", "0", "-o", file]
        done = subprocess.run(module_command("ttmem", *workload), capture_output=True, text=True)
        if done.returncode:
            raise TtmemError(
                f"the demo's workload {how_it_ended(done.returncode)}: {done.stderr.strip()}"
            )
        write_report(file, target, overwrite=False)
    return 0


def summary(last: Snapshot, seconds: float, columns: int = 80) -> str:
    """The text at the end: peaks and counts of each device."""
    lines = [
        f"\nafter {seconds:.0f} s: {several(len(last.processes), 'process', 'processes')}"
        f" on {several(len(last.devices), 'device')}"
    ]
    for device in sorted(last.devices, key=lambda device: device.logical_id or 0):
        lines += wrap(_story(device), columns - 1)
    lost = last.losses.dropped_events
    lines += wrap(
        f"{lost or 'no'} events were lost; server, processes and socket are gone", columns - 1
    )
    lines += wrap(NEXT, columns - 1)
    return "\n".join([lines[0], *(f" {line}" for line in lines[1:])])


def _story(device: Device) -> str:
    kernels = device.kernels
    hits, misses = kernels.cache_hits or 0, kernels.cache_misses or 0
    cached = "N/A" if kernels.cache_entries is None else f"{kernels.cache_entries:,}"
    return (
        f"device {device.logical_id}: peak DRAM {human(device.memory.dram.peak)}, "
        f"peak L1 {human(device.l1_peak)}; {cached} programs cached, "
        f"{kernels.dispatches:,} dispatches ({hits:,} cache hits, {misses:,} misses, the others replayed from a trace)"
    )


def _monitor(processes: DemoProcesses) -> Snapshot:
    """Runs `ttmem top` on the demo's own server."""
    from ttmem.commands import top
    from ttmem.feeds import ServerFeed

    parser = argparse.ArgumentParser()
    top.prepare(parser)
    top.watch_live(ServerFeed(processes.socket), parser.parse_args([]))
    return _look(processes)


def _follow(processes: DemoProcesses, end: float) -> Snapshot:
    with Screen(sys.stdout) as screen:
        while True:
            now = _look(processes)
            screen.draw(_shown(now, screen.height))
            if time.monotonic() >= end:
                return now
            time.sleep(PERIOD)


def _print_snapshots(processes: DemoProcesses, seconds: float) -> Snapshot:
    for moment, share in (("warming up", 0.3), ("answering", 0.7)):
        _rest(processes, seconds * share)
        now = _look(processes)
        print(f"\n--- {moment}\n\n{_shown(now)}", flush=True)
    return now


def _rest(processes: DemoProcesses, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        processes.check()
        time.sleep(min(left, PERIOD))


def _look(processes: DemoProcesses) -> Snapshot:
    processes.check()
    return snapshot(processes.socket)


def _shown(now: Snapshot, height: int | None = None) -> str:
    return drawn_for(sys.stdout, partial(render, now, height=height, choices=()))


class DemoProcesses:
    """A private server and the applications, in a directory of their own, for the length of a `with` block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = ""

    @property
    def socket(self) -> str:
        return os.path.join(self._folder, "server.sock")

    def __enter__(self) -> DemoProcesses:
        with ExitStack() as stack:
            self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ttmem-demo-"))
            stack.callback(self._end)
            self._start("server", "serve", "--quiet", "--no-shm")
            self._wait_for_server()
            for name, *options in WORKLOADS:
                self._start(name, "simulate", name, *options, "--steps", "0", "--rate", str(RATE))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self) -> None:
        """TtmemError if one of them has died."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise TtmemError(f"the demo's {name} {how_it_ended(code)}{self._last_line(name)}")

    def _start(self, name: str, *arguments: str) -> None:
        """Output goes to a file, because the terminal shows the table; the last line is used if the process fails."""
        command = module_command("ttmem", *arguments, "--socket", self.socket)
        if name != "server":
            command += ["--parent", str(os.getpid())]
        with open(self._log(name), "wb") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for_server(self) -> None:
        end = time.monotonic() + STARTING
        while not os.path.exists(self.socket):
            self.check()
            if time.monotonic() > end:
                raise TtmemError("the demo's server did not start; run `ttmem serve` to see why")
            time.sleep(0.02)

    def _end(self) -> None:
        """Applications first, so that none of them loses its server."""
        processes = list(self._running.values())
        end_all(processes[1:])
        end_all(processes[:1])

    def _log(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.log")

    def _last_line(self, name: str) -> str:
        with open(self._log(name), encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        return f": {lines[-1]}" if lines else ""
