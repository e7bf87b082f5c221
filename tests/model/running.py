"""A workload on a mesh of its own, whose story is written down."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

from tests.model.recorder import RecordingTracker
from ttmem.client.devices import DeviceLike
from ttmem.events import MemoryKind
from ttmem.model import MeshDevice, open_mesh_device
from ttmem.model.circular_buffers import union_bytes
from ttmem.model.workloads import SCALES, Steps, workload

SMALL = SCALES["small"]


class CountingTracker(RecordingTracker):
    """Counts dispatches too."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatches = 0

    def track_program_dispatch(
        self,
        program_id: int,
        device: DeviceLike,
        *,
        cache_hit: bool | None = None,
        cores: object = None,
    ) -> None:
        self.dispatches += 1


class Running:
    """A workload on its own mesh, a few steps at a time."""

    def __init__(self, name: str, seed: int = 1, trace_region_size: int | None = None) -> None:
        found = workload(name)
        if trace_region_size is not None:
            found = replace(found, trace_region_size=trace_region_size)
        self.tracker = CountingTracker()
        self.mesh: MeshDevice = open_mesh_device(
            found.mesh,
            board=found.board,
            l1_small_size=found.l1_small_size,
            trace_region_size=found.trace_region_size,
            tracker=self.tracker,
        )
        self._steps: Steps = found.run(self.mesh, Random(seed), SMALL)

    def go(self, steps: int) -> list[str]:
        """What it had to say."""
        return [news for news in islice(self._steps, steps) if news is not None]

    def allocated(self, kind: MemoryKind) -> int:
        return self.mesh.memory_view(kind).total_bytes_allocated_per_bank

    @property
    def entries(self) -> int:
        return self.mesh.num_program_cache_entries()

    @property
    def cb_cached(self) -> int:
        layouts = [one.program.l1 for one in self.mesh.workloads.values()]
        return union_bytes(layout.regions_per_core() for layout in layouts if layout is not None)

    def story(self) -> tuple[object, ...]:
        """Everything but the numbers of buffers and programs, which a process counts on."""
        cache, ring = self.mesh.program_cache, self.mesh.command_queue().ring
        buffers = [(what, *rest) for what, _, *rest in self.tracker.events]
        counters = (cache.hits, cache.misses, self.entries, self.tracker.dispatches)
        return buffers, counters, (ring.occupied, ring.wraps, ring.syncs)
