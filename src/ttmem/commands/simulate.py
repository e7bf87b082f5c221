"""Run a workload on made-up devices, which reports like a real application.

A model of the runtime allocates, compiles, caches and dispatches, and tells the server (`ttmem serve`)
each step, as an application with TT_ALLOC_TRACKING_ENABLED=1 would. `--list` explains the workloads.

exit codes: 0 done, 1 the workload failed, or the server is closed to you, 2 wrong arguments, 130 or
143 stopped by Ctrl-C or SIGTERM
"""

from __future__ import annotations

import argparse
import math
import re

from ttmem.commands.source_options import named
from ttmem.errors import BadInput
from ttmem.wire.socket_path import socket_path

SIZES = ("small", "medium", "large")
MOST_PROCESSES = 256


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem simulate`."""
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="which workload; --list explains them")
    add("--list", action="store_true", help="explain each workload")
    add("--board", metavar="NAME", help="n150, n300, p150, galaxy, ... (default: p150, or galaxy)")
    add("--mesh", metavar="RxC", type=_mesh, help="rows and columns of chips, as 1x4")
    add("--steps", type=int, default=200, help="0 = until it is stopped (default %(default)s)")
    add(
        "--rate",
        type=float,
        default=10.0,
        help="steps per second, 0 = as fast as it can (default %(default)g)",
    )
    add("--processes", type=int, default=1, help="how many run it at once (default %(default)s)")
    add("--seed", type=int, default=1, help="the same seed does the same (default %(default)s)")
    add("--size", choices=SIZES, default="medium", help="how large it is (default %(default)s)")
    add(
        "--socket",
        metavar="PATH",
        type=named,
        help=f"the server's socket (default {socket_path()})",
    )
    add("--first-device", type=int, default=0, help=argparse.SUPPRESS)
    add("--parent", type=int, help=argparse.SUPPRESS)  # a child ends with the process that began it


def run(options: argparse.Namespace) -> int:
    """One process runs the workload itself; several are children of this one."""
    from ttmem.commands.simulation import Simulation, Stop, open_mesh
    from ttmem.model.opening import is_system
    from ttmem.model.workloads import WORKLOADS, workload

    if options.list:
        width = max(map(len, WORKLOADS))
        print("\n".join(f"{one.name:<{width}}  {one.about}" for one in WORKLOADS.values()))
        return 0
    if options.name is None:
        raise BadInput("name a workload; `ttmem simulate --list` explains them")
    found = workload(options.name)
    _check(options)
    stop = Stop(options.parent)
    if options.processes > 1:
        from ttmem.commands.child_processes import run_children

        mesh = open_mesh(options, found, None)  # what cannot be opened is said once
        mesh.close()
        one_system = is_system(options.board or found.board)
        own = 0 if found.shared or one_system else mesh.get_num_devices()
        return run_children(options, own, stop.wait) or stop.code
    return Simulation(options, found, stop).run()


def _mesh(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})[xX](\d{1,4})", text)
    if match is None:
        raise BadInput(f"{text!r:.40} is no mesh; write rows and columns, as 1x4")
    return int(match[1]), int(match[2])


def _check(options: argparse.Namespace) -> None:
    if options.steps < 0:
        raise BadInput("--steps must be 0 or more")
    if not 0 <= options.rate < math.inf:
        raise BadInput("--rate must be 0 or more steps per second")
    if not 1 <= options.processes <= MOST_PROCESSES:
        raise BadInput(f"--processes must be 1 to {MOST_PROCESSES}")
