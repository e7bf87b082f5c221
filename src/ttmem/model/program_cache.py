"""The program cache: one workload for each operation and shape, kept until it is cleared."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ttmem.model.dispatch import enqueue_mesh_workload
from ttmem.model.mesh import MeshDevice
from ttmem.model.program import Program
from ttmem.model.workload import MeshWorkload


class ProgramCache:
    """Entries keep their circular buffers and binaries, which fill L1 and DRAM."""

    def __init__(self, mesh: MeshDevice) -> None:
        self._mesh = mesh
        self._entries: dict[Hashable, MeshWorkload] = {}
        self.enabled = True
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def run(self, key: Hashable, make: Callable[[], Program], cq_id: int = 0) -> MeshWorkload:
        """Runs the operation with the cached program, or with a new one, which it caches."""
        mesh = self._mesh
        with mesh.lock:
            known = self._entries.get(key)
            workload = known or MeshWorkload(make())
            try:
                enqueue_mesh_workload(mesh, workload, cq_id, cache_hit=known is not None)
            except BaseException:
                if known is None:
                    workload.destroy()  # not cached, so its circular buffers are freed
                raise
            self.hits += known is not None
            self.misses += known is None
            if known is None and self.enabled:
                self._entries[key] = workload
                self._report()
            elif known is None:
                workload.destroy()
            return workload

    def clear(self) -> None:
        """Destroys all entries; the next run of each is a miss."""
        with self._mesh.lock:
            entries, self._entries = self._entries, {}
            for workload in entries.values():
                workload.destroy()
            self._report()

    def disable_and_clear(self) -> None:
        """From now on, each run creates its program and destroys it."""
        self.enabled = False
        self.clear()

    def _report(self) -> None:
        self._mesh.tracker.track_cache_entries(self._mesh.target, len(self._entries))
