"""Runs in the process that has ttnn: short blocks of a model's work, with the probe on and off."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from tests.ttnn.probed_models import Models

TENSORS = 8


class Blocks:
    """A block is allocations and frees, then two layers whose programs are all in the cache: 1.5 ms."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self._ttnn = ttnn
        self._device = device
        self._models = Models(ttnn, device)
        for _ in range(50):  # compiles, and fills every cache
            self._block()

    def _block(self) -> None:
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
        self._models.transformer_layer()
        self._models.feed_forward()
        # What was made while tracking was on must not be freed while it is off, or the other way round.
        self._models.kept.clear()

    def seconds(self) -> float:
        """One block, in processor time of this thread: others on the machine add no noise to that."""
        before = time.thread_time()
        self._block()
        return time.thread_time() - before

    def turn(self, blocks: int) -> float:
        """The fastest of a few blocks."""
        return min(self.seconds() for _ in range(blocks))

    def switched(self, pairs: int) -> list[float]:
        """On over off, of neighbours; which comes first changes, so that a drift cancels."""
        track = ctypes.CDLL(None).ttmem_probe_track
        found = []
        for number in range(pairs):
            took = [0.0, 0.0]
            for on in (0, 1) if number % 2 else (1, 0):
                track(on)
                took[on] = self.seconds()
            found.append(took[1] / took[0])
        return found
