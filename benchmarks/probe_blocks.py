"""Runs in the process that has ttnn: short blocks of a model's work, with the probe on and off."""

from __future__ import annotations

import ctypes
import time
from itertools import cycle, islice, permutations
from typing import Any

from tests.ttnn.probed import Models

from benchmarks.probe_bypass import Bypass

TENSORS = 8


class Blocks:
    """A block is one layer of each of the two models of the tests, whose programs are all in the cache; or a loop that
    does nothing but allocate and free: there is no program with more to tell in less time."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self._ttnn = ttnn
        self._device = device
        self._models = Models(ttnn, device)
        self._work = {"models": self._layers, "allocations": self._allocations}
        for _ in range(30):  # compiles, and fills every cache
            self._layers()
            self._allocations()
        self._track = ctypes.CDLL(None).ttmem_probe_track
        self._bypass = Bypass()

    def _layers(self) -> None:
        self._models.transformer_layer()
        self._models.convolution_block()
        # What was made while tracking was on must not be freed while it is off, or the other way round.
        self._models.kept.clear()

    def _allocations(self) -> None:
        ttnn = self._ttnn
        shape = ttnn.Shape([1, 1, 256, 256])
        for memory in (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG):
            held = [
                ttnn.allocate_tensor_on_device(
                    shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, self._device, memory
                )
                for _ in range(TENSORS)
            ]
            for tensor in held:
                ttnn.deallocate(tensor)

    def turn(self, mode: str, what: str, blocks: int) -> float:
        """In processor time of this thread: others on the machine add no noise to that."""
        self._switch(mode)
        work = self._work[what]
        before = time.thread_time()
        for _ in range(blocks):
            work()
        return time.thread_time() - before

    def compared(self, what: str, blocks: int, rounds: int) -> dict[str, list[float]]:
        """With the probe off and on, over without it: turns of a few blocks in every order, so that drifts cancel."""
        found: dict[str, list[float]] = {"off": [], "on": []}
        for order in islice(cycle(permutations(("without", "off", "on"))), rounds):
            took = {mode: self.turn(mode, what, blocks) for mode in order}
            for mode, ratios in found.items():
                ratios.append(took[mode] / took["without"])
        return found

    def _switch(self, mode: str) -> None:
        self._track(mode == "on")
        if mode == "without":
            self._bypass.without()
        else:
            self._bypass.hooked()
