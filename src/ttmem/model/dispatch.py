"""Launching programs: `enqueue_mesh_workload` for fast dispatch, `launch_program` for slow."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ttmem.errors import BadInput
from ttmem.events import BinaryStatus
from ttmem.hw import DeviceSpec, Dispatch
from ttmem.model.errors import RuntimeFault
from ttmem.model.mesh import MeshDevice
from ttmem.model.program import Program
from ttmem.model.ring import KernelConfigRing, Slot, ring_sizes
from ttmem.model.workload import MeshWorkload

# Which workloads' binaries are still in the prefetcher's L1 and need not be read from DRAM again.
#
# Like the runtime's RingbufferCacheManager: whole blocks, oldest evicted first, none split.


WORKER_CACHE = 1024 * 1024
ETH_CACHE = 67 * 1024


class CacheOffset(NamedTuple):
    is_cached: bool
    offset: int


class CacheEntry(NamedTuple):
    """Offset and size are bytes, in whole blocks."""

    workload: int
    offset: int
    size: int


def prefetcher_cache(spec: DeviceSpec) -> PrefetcherCache:
    """The cache of that device; with dispatch on Ethernet cores it is smaller."""
    size = ETH_CACHE if spec.dispatch is Dispatch.ETH else WORKER_CACHE
    return PrefetcherCache(size, spec.dram_alignment)


class PrefetcherCache:
    def __init__(self, size: int, block: int) -> None:
        if block <= 0 or size < block:
            raise BadInput(f"a cache of {size} bytes has no block of {block}")
        self._block = block
        self.size = size // block * block
        self._entries: deque[CacheEntry] = deque()
        self._offsets: dict[int, int] = {}
        self._next = 0
        self.hits = 0
        self.misses = 0

    @property
    def entries(self) -> tuple[CacheEntry, ...]:
        """The oldest first."""
        return tuple(self._entries)

    def query(self, workload: int, size: int) -> CacheOffset | None:
        """Where the workload's binaries are from now on; None if they cannot be cached."""
        offset = self._offsets.get(workload)
        if offset is not None:
            self.hits += 1
            return CacheOffset(True, offset)
        self.misses += 1
        needed = -(-size // self._block) * self._block
        if not 0 < needed <= self.size:
            # What does not fit is streamed through the same memory and overwrites it.
            self.reset()
            return None
        offset = self._make_room(needed) if self._entries else 0
        self._entries.append(CacheEntry(workload, offset, needed))
        self._offsets[workload] = offset
        self._next = (offset + needed) % self.size
        return CacheOffset(False, offset)

    def reset(self) -> None:
        """After reads of buffers and cores, and trace replays, which use the same memory."""
        self._entries.clear()
        self._offsets.clear()
        self._next = 0

    def _make_room(self, needed: int) -> int:
        fits_in_tail = self.size - self._next >= needed
        behind_oldest = self._next > self._entries[0].offset
        if behind_oldest and fits_in_tail:
            return self._next
        if fits_in_tail:
            self._invalidate_for(needed, self._next)
            return self._next
        if not behind_oldest:
            self._invalidate_until_wraparound()
        self._invalidate_for(needed, 0)
        return 0

    def _invalidate_for(self, needed: int, offset: int) -> None:
        if not self._entries:
            return
        # Adds sizes instead of comparing offsets, so it misses an unused tail, as the runtime does.
        room = self._entries[0].offset - offset
        while room < needed and self._entries:
            room += self._invalidate_oldest()

    def _invalidate_until_wraparound(self) -> None:
        while self._entries and self._entries[0].offset >= self._next:
            self._invalidate_oldest()

    def _invalidate_oldest(self) -> int:
        oldest = self._entries.popleft()
        del self._offsets[oldest.workload]
        return oldest.size


class CommandQueue:
    """The state of one command queue: the kernel-config ring and the prefetcher's cache."""

    def __init__(self, mesh: MeshDevice) -> None:
        self._mesh = mesh
        self.ring = KernelConfigRing(ring_sizes(mesh.spec))
        self.prefetcher = prefetcher_cache(mesh.spec)
        self.recording: list[MeshWorkload] | None = None  # while a trace is being captured

    def launch(self, workload: MeshWorkload, cache_hit: bool | None) -> Slot:
        """One launch: reserves a slot of the ring on every core and updates the counters."""
        mesh = self._mesh
        layout = workload.prepare(mesh)
        first = workload.status is BinaryStatus.NOT_SENT
        if first:
            workload.load_binaries(mesh, layout.binary_data_bytes)
        slot = self.ring.launch(layout.program_config_sizes, mesh.spec.l1_banks, first)
        if layout.binary_data_bytes:
            self.prefetcher.query(workload.id, layout.binary_data_bytes)
        mesh.tracker.track_program_dispatch(workload.id, mesh.target, cache_hit=cache_hit)
        self.report_ring()
        if first:
            workload.set_status(mesh, BinaryStatus.COMMITTED)
        return slot

    def report_ring(self) -> None:
        """The state of the ring, in bytes for the whole device."""
        ring, mesh = self.ring, self._mesh
        occupied = ring.occupied * mesh.spec.l1_banks
        mesh.tracker.track_ring(
            mesh.target, occupied, ring.wraps, ring.syncs, programs=ring.live_entries
        )


def enqueue_mesh_workload(
    mesh: MeshDevice, workload: MeshWorkload, cq_id: int = 0, *, cache_hit: bool | None = None
) -> Slot | None:
    """Fast dispatch; during a trace capture, the workload is recorded instead."""
    with mesh.lock:
        mesh.check_open()
        if mesh.spec.dispatch is Dispatch.SLOW:
            _launch_slowly(mesh, workload, cache_hit)
            return None
        queue = mesh.command_queue(cq_id)
        if queue.recording is None:
            return queue.launch(workload, cache_hit)
        if workload.status is not BinaryStatus.COMMITTED:
            raise RuntimeFault(
                f"program {workload.id} has not run yet, and binaries cannot be loaded"
                " during trace capture; run it once first"
            )
        queue.recording.append(workload)
        return None


def launch_program(mesh: MeshDevice, program: Program | MeshWorkload) -> MeshWorkload:
    """Slow dispatch: no copy in DRAM, and the ring does not rotate; kernel text is at its base."""
    workload = program if isinstance(program, MeshWorkload) else MeshWorkload(program)
    with mesh.lock:
        mesh.check_open()
        _launch_slowly(mesh, workload, None)
    return workload


def _launch_slowly(mesh: MeshDevice, workload: MeshWorkload, cache_hit: bool | None) -> None:
    workload.prepare(mesh)
    workload.set_status(mesh, BinaryStatus.NOT_SENT)
    mesh.tracker.track_program_dispatch(workload.id, mesh.target, cache_hit=cache_hit)
