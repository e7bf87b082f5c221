"""One run of a workload in this process: as fast as was asked for, until it is done or stopped."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from itertools import islice
from random import Random

from ttmem.client import AllocationClient, GraphTracker
from ttmem.client.query import ServerConnection
from ttmem.errors import ClosedToYou, NoServer, TtmemError
from ttmem.model import MeshDevice, open_mesh_device
from ttmem.model.workloads import SCALES, Steps, Workload
from ttmem.wire.socket_path import socket_path

MOST_SAID = 10  # sentences of a workload that are printed; the others are counted
KNOCK = 1.0  # seconds for a server to answer
PATIENCE = 5.0  # seconds for the server to read the last events


class Stop:
    """Ctrl-C and SIGTERM end the work between two steps, so that accounts are right at the end."""

    def __init__(self, parent: int | None = None) -> None:
        self.code = 0
        self._parent = parent
        self._event = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def wait(self, seconds: float) -> bool:
        """True if it is time to end; a child ends with its parent too, however that died."""
        if self._parent is not None and os.getppid() != self._parent:
            return True
        return self._event.wait(seconds) if seconds > 0 else self._event.is_set()

    def _stop(self, number: int, _: object) -> None:
        if self.code and number == signal.SIGINT:
            raise KeyboardInterrupt  # the second time: at once
        self.code = 128 + number
        self._event.set()


def open_mesh(
    options: argparse.Namespace, found: Workload, client: AllocationClient | None
) -> MeshDevice:
    """The mesh that was asked for, or the workload's own; without a client it reports nothing."""
    tracker = GraphTracker(client)
    tracker.enabled = client is not None
    rows, columns = options.mesh or found.mesh
    first = options.first_device
    return open_mesh_device(
        (rows, columns),
        physical_device_ids=range(first, first + rows * columns),
        board=options.board or found.board,
        l1_small_size=found.l1_small_size,
        trace_region_size=found.trace_region_size,
        tracker=tracker,
    )


class Simulation:
    """One run in this process, and what it says about itself."""

    def __init__(self, options: argparse.Namespace, found: Workload, stop: Stop) -> None:
        self._options = options
        self._workload = found
        self._stop = stop
        self._client = AllocationClient(options.socket)
        self._done = self._said = 0
        self._closed = False

    def run(self) -> int:
        """The exit code."""
        options = self._options
        with open_mesh(options, self._workload, self._client) as mesh:
            begun = time.perf_counter()
            try:
                steps = self._workload.run(mesh, Random(options.seed), SCALES[options.size])
                self._drive(steps)
            finally:
                mesh.close()
                self._client.close(PATIENCE)
                self._report(time.perf_counter() - begun)
        return self._stop.code or (ClosedToYou.exit_code if self._closed else 0)

    def _drive(self, steps: Steps) -> None:
        options = self._options
        pause = 1 / options.rate if options.rate else 0.0
        due = time.monotonic()
        for news in islice(steps, options.steps or None):
            self._done += 1
            if news is not None:
                self._say(news)
            # Who is late does not hurry: a step is never shorter than the rate says.
            due = max(due + pause, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                return

    def _say(self, news: str) -> None:
        self._said += 1
        if self._said <= MOST_SAID:
            print(f"step {self._done}: {news}", flush=True)

    def _report(self, seconds: float) -> None:
        stats = self._client.stats()
        # The client counts its first connection as a resync; only further ones are news.
        faults = f", {self._said} faults" if self._said else ""
        seen = (
            f"{stats.sent:,} events reported ({stats.sent / max(seconds, 1e-9):,.0f}/s), "
            f"{stats.dropped:,} dropped, {max(0, stats.resyncs - 1):,} resyncs"
        )
        if not stats.sent:
            seen = f"{self._unseen()}: nothing was seen"
        print(
            f"{self._workload.name}: {self._done:,} steps in {seconds:.1f} s{faults}, {seen}",
            flush=True,
        )

    def _unseen(self) -> str:
        """Why nobody saw it."""
        path = socket_path(self._options.socket)
        try:
            ServerConnection(self._options.socket, KNOCK).close()
        except ClosedToYou:
            self._closed = True
            return f"the server at {path} is closed to you"
        except NoServer:
            return f"no server at {path}"
        except TtmemError as problem:
            return str(problem)
        return f"the server at {path} came too late"
