"""Try ttmem with no card and no server: made-up devices, a real server, the table.

A private server, and two applications on a model of the runtime: a transformer on four p150 chips, and
two processes that serve requests on the first of them. On a terminal the table follows them live, and
--top shows them in the live monitor until you press q; otherwise two pictures are printed. A summary of
what happened comes last. Nothing stays behind.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time

from ttmem.api import snapshot
from ttmem.commands.demo_processes import DemoProcesses
from ttmem.errors import BadInput
from ttmem.sizes import human, several
from ttmem.snapshots import Device, Snapshot
from ttmem.views.table import render
from ttmem.views.terminal import Screen, spelled, wants_color, width

LONGEST = 24 * 3600.0
PERIOD = 0.25  # seconds between two pictures


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem demo`."""
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="how long it runs (default %(default)g)"
    )
    parser.add_argument(
        "--top", action="store_true", help="the live monitor instead of the table; q ends it"
    )


def run(options: argparse.Namespace) -> int:
    """Server, workloads and table in one process tree."""
    if not 0 < options.seconds <= LONGEST or math.isnan(options.seconds):
        raise BadInput(f"--seconds must be above 0, and at most {LONGEST:g}")
    if options.top:
        from ttmem.commands.live_monitor import check_terminal  # before anything is started

        check_terminal()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)  # out through the `with`, which ends all processes
    with DemoProcesses() as processes:
        begun = time.monotonic()
        if options.top:
            last = _monitor(processes)
        elif sys.stdout.isatty():
            last = _follow(processes, begun + options.seconds)
        else:
            last = _print_pictures(processes, options.seconds)
    print(spelled(summary(last, time.monotonic() - begun), sys.stdout))
    return 0


def summary(last: Snapshot, seconds: float) -> str:
    """What happened on each device, up to the last picture."""
    lines = [
        f"\nafter {seconds:.0f} s: {several(len(last.processes), 'process', 'processes')}"
        f" on {several(len(last.devices), 'device')}"
    ]
    for device in sorted(last.devices, key=lambda one: one.logical_id or 0):
        lines.append(_story(device))
    lost = last.losses.dropped_events
    lines.append(f" {lost or 'no'} events were lost; server, processes and socket are gone")
    return "\n".join(lines)


def _story(device: Device) -> str:
    kernels = device.kernels
    hits, misses = kernels.cache_hits or 0, kernels.cache_misses or 0
    cached = "N/A" if kernels.cache_entries is None else f"{kernels.cache_entries:,}"
    return (
        f" device {device.logical_id}: peak DRAM {human(device.memory.dram.peak)}, "
        f"peak L1 {human(device.l1_peak)}; {cached} programs cached, "
        f"{kernels.dispatches:,} dispatches ({hits:,} cache hits, {misses:,} misses, the others replayed from a trace)"
    )


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)


def _monitor(processes: DemoProcesses) -> Snapshot:
    """`ttmem top` at the demo's own server."""
    from ttmem.commands import live_monitor, top
    from ttmem.feeds import ServerFeed

    parser = argparse.ArgumentParser()
    top.prepare(parser)
    live_monitor.watch_live(ServerFeed(processes.socket), parser.parse_args([]))
    return _look(processes)


def _follow(processes: DemoProcesses, end: float) -> Snapshot:
    with Screen(sys.stdout) as screen:
        while True:
            picture = _look(processes)
            screen.draw(_shown(picture, screen.height))
            if time.monotonic() >= end:
                return picture
            time.sleep(PERIOD)


def _print_pictures(processes: DemoProcesses, seconds: float) -> Snapshot:
    for moment, share in (("warming up", 0.3), ("answering", 0.7)):
        _rest(processes, seconds * share)
        picture = _look(processes)
        print(f"\n--- {moment}\n\n{_shown(picture)}", flush=True)
    return picture


def _rest(processes: DemoProcesses, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        processes.check()
        time.sleep(min(left, PERIOD))


def _look(processes: DemoProcesses) -> Snapshot:
    processes.check()
    return snapshot(processes.socket)


def _shown(picture: Snapshot, height: int | None = None) -> str:
    text = render(
        picture,
        width=width(sys.stdout),
        color=wants_color(sys.stdout),
        height=height,
        choices=(),
    )
    return spelled(text, sys.stdout)
