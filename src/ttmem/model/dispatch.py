"""Launching programs: `enqueue_mesh_workload` for fast dispatch, `launch_program` for slow; the program cache."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.client.tracker import GraphTracker
from ttmem.errors import BadInput
from ttmem.events import BinaryStatus
from ttmem.hw import DeviceSpec, Dispatch
from ttmem.hw.arch import align_up
from ttmem.model.device import SimulatedDevice
from ttmem.model.errors import RuntimeFault
from ttmem.model.mesh import Mesh, MeshWorkload, SimulatedBuffer
from ttmem.model.program import SimulatedProgram
from ttmem.model.ring import KernelConfigRing, Slot, ring_sizes

# Which workloads' binaries are still in the prefetcher's L1 and need not be read from DRAM again.
#
# Like the runtime's RingbufferCacheManager: whole blocks, oldest evicted first, none split.


COMMAND_QUEUES = (1, 2)
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
        needed = align_up(size, self._block)
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
        free = self._entries[0].offset - offset
        while free < needed and self._entries:
            free += self._invalidate_oldest()

    def _invalidate_until_wraparound(self) -> None:
        while self._entries and self._entries[0].offset >= self._next:
            self._invalidate_oldest()

    def _invalidate_oldest(self) -> int:
        oldest = self._entries.popleft()
        del self._offsets[oldest.workload]
        return oldest.size


class CommandQueue:
    """The state of one command queue: the kernel-config ring and the prefetcher's cache."""

    def __init__(self, mesh: Mesh) -> None:
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


def launch_program(mesh: Mesh, program: SimulatedProgram | MeshWorkload) -> MeshWorkload:
    """Slow dispatch: no copy in DRAM, and the ring does not rotate; kernel text is at its base."""
    workload = program if isinstance(program, MeshWorkload) else MeshWorkload(program)
    with mesh.lock:
        mesh.check_open()
        _launch_slowly(mesh, workload, None)
    return workload


def _launch_slowly(mesh: Mesh, workload: MeshWorkload, cache_hit: bool | None) -> None:
    workload.prepare(mesh)
    workload.set_status(mesh, BinaryStatus.NOT_SENT)
    mesh.tracker.track_program_dispatch(workload.id, mesh.target, cache_hit=cache_hit)


class ProgramCache:
    """One workload for each operation and shape, kept until it is cleared.

    Entries keep their circular buffers and binaries, which fill L1 and DRAM.
    """

    def __init__(self, mesh: MeshDevice) -> None:
        self._mesh = mesh
        self._entries: dict[Hashable, MeshWorkload] = {}
        self.enabled = True
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def run(
        self, key: Hashable, make: Callable[[], SimulatedProgram], cq_id: int = 0
    ) -> MeshWorkload:
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


@dataclass(slots=True)
class Trace:
    """What was captured, and where its commands are."""

    id: int
    cq_id: int
    workloads: list[MeshWorkload]
    buffer: SimulatedBuffer | None = None


class MeshDevice(Mesh):
    """A mesh with command queues and a program cache, as applications open it."""

    def __init__(
        self,
        shape: tuple[int, int],
        devices: Sequence[SimulatedDevice],
        *,
        tracker: GraphTracker | None = None,
        num_command_queues: int = 1,
        mock: bool = False,
    ) -> None:
        if num_command_queues not in COMMAND_QUEUES:
            raise BadInput(f"num_command_queues must be 1 or 2, not {num_command_queues}")
        super().__init__(shape, devices, tracker=tracker, mock=mock)
        self.num_command_queues = num_command_queues
        self.program_cache = ProgramCache(self)  # programs that were run before
        self.traces: dict[int, Trace] = {}
        self._queues: list[CommandQueue] = []

    def command_queue(self, cq_id: int = 0) -> CommandQueue:
        if not 0 <= cq_id < self.num_command_queues:
            raise BadInput(
                f"there is no command queue {cq_id}; the mesh has {self.num_command_queues}"
            )
        while len(self._queues) <= cq_id:
            self._queues.append(CommandQueue(self))
        return self._queues[cq_id]

    def num_program_cache_entries(self) -> int:
        return len(self.program_cache)

    def clear_program_cache(self) -> None:
        self.program_cache.clear()

    def disable_and_clear_program_cache(self) -> None:
        self.program_cache.disable_and_clear()

    def enable_program_cache(self) -> None:
        self.program_cache.enabled = True

    def __enter__(self) -> MeshDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        super()._release()
        self.traces.clear()
