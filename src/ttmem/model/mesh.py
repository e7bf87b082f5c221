"""Meshes: several devices opened and used as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from reprlib import repr as short_repr
from typing import TYPE_CHECKING

from ttmem.client.devices import ReportedMesh
from ttmem.client.tracker import GraphTracker
from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.hw import Grid
from ttmem.model.allocator import Allocator, MemoryView
from ttmem.model.device import SimulatedDevice
from ttmem.model.errors import UseAfterClose

if TYPE_CHECKING:
    from ttmem.model.buffer import Buffer
    from ttmem.model.dispatch import CommandQueue
    from ttmem.model.program_cache import ProgramCache
    from ttmem.model.traces import Trace
    from ttmem.model.workload import MeshWorkload

MOST_WARNINGS = 100  # warnings kept; `allocations_during_trace` counts all
COMMAND_QUEUES = (1, 2)


class MeshDevice:
    """Equal devices with one allocator: what the mesh allocates is at that address on each.

    Hold `lock` through every operation. `target` is what reports name: the client knows it at once.
    """

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
        self.shape = shape
        self.spec = devices[0].spec
        self.allocator = Allocator(self.spec)
        self.tracker = GraphTracker.instance() if tracker is None else tracker
        self.num_command_queues = num_command_queues
        self.mock = mock
        self.lock = threading.RLock()
        self.target = ReportedMesh(devices)
        self.buffers: dict[int, Buffer] = {}  # allocated ones, by id
        self.workloads: dict[int, MeshWorkload] = {}  # loaded ones, by program
        self.traces: dict[int, Trace] = {}
        self.is_open = True
        self.on_close: list[Callable[[], object]] = []  # the latest is called first
        self.live_traces = 0
        self.allocations_during_trace = 0
        self.warnings: list[str] = []
        self._devices = tuple(devices)
        self._queues: list[CommandQueue] = []
        self._program_cache: ProgramCache | None = None
        for device in devices:
            if device.declaration is not None:
                self.tracker.declare_device(device.declaration)

    def get_devices(self) -> list[SimulatedDevice]:
        """The chips, row by row."""
        return list(self._devices)

    def get_device_ids(self) -> list[int]:
        return [device.logical_id for device in self._devices]

    def get_num_devices(self) -> int:
        return len(self._devices)

    def compute_with_storage_grid_size(self) -> Grid:
        """The compute cores of each device, each with one L1 bank."""
        return self.spec.grid

    def command_queue(self, cq_id: int = 0) -> CommandQueue:
        from ttmem.model.dispatch import CommandQueue

        if not 0 <= cq_id < self.num_command_queues:
            raise BadInput(
                f"there is no command queue {cq_id}; the mesh has {self.num_command_queues}"
            )
        while len(self._queues) <= cq_id:
            self._queues.append(CommandQueue(self))
        return self._queues[cq_id]

    @property
    def program_cache(self) -> ProgramCache:
        """Programs that were run before."""
        from ttmem.model.program_cache import ProgramCache

        if self._program_cache is None:
            self._program_cache = ProgramCache(self)
        return self._program_cache

    def num_program_cache_entries(self) -> int:
        return len(self.program_cache)

    def clear_program_cache(self) -> None:
        self.program_cache.clear()

    def disable_and_clear_program_cache(self) -> None:
        self.program_cache.disable_and_clear()

    def enable_program_cache(self) -> None:
        self.program_cache.enabled = True

    def memory_view(self, kind: MemoryKind) -> MemoryView:
        """One kind of memory; the same on each device."""
        with self.lock:
            self.check_open()
            return self.allocator.memory_view(kind)

    def check_open(self) -> None:
        """UseAfterClose if it is not."""
        if not self.is_open:
            raise UseAfterClose(repr(self))

    def note_allocation_in_trace(self, buffer: Buffer) -> None:
        """A replay may overwrite this buffer, which did not exist when the trace was captured."""
        self.allocations_during_trace += 1
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(
                "Allocating device buffers is unsafe due to the existence of an active trace: "
                f"buffer {buffer.id} ({buffer.size} B {buffer.kind.name} at {buffer.address}) "
                "may be corrupted once a trace is executed"
            )

    def close(self) -> None:
        """Closes everything that uses the mesh, then reports and frees what is still allocated.

        The runtime frees these without reporting it, but nothing stays allocated on a closed device.
        """
        with self.lock, ExitStack() as ending:
            if not self.is_open:
                return
            ending.callback(self._release)
            for hook in self.on_close:
                ending.callback(hook)
            self.on_close = []

    def __enter__(self) -> MeshDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        rows, columns = self.shape
        devices = short_repr(self.get_device_ids())
        return f"MeshDevice({rows}x{columns} {self.spec.board}, devices {devices})"

    def _release(self) -> None:
        for workload in list(self.workloads.values()):
            workload.destroy()
        for buffer in list(self.buffers.values()):
            buffer.deallocate()
        self.traces.clear()
        self.live_traces = 0
        self.is_open = False
