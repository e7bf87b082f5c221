"""Runs the steps of scripts on the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from tests.model.running import RecordingTracker
from tests.ttnn.bench.answers import Block, CoreBuffer, KindView
from tests.ttnn.bench.boards import BenchBoard, Sizes
from tests.ttnn.scripts.steps import (
    KINDS,
    Allocate,
    ClearCache,
    Free,
    Launch,
    Operate,
    State,
    Step,
    TensorSpec,
    fault_text,
)
from ttmem.events import MemoryKind
from ttmem.model import (
    Interleaved,
    MeshDevice,
    Sharded,
    SimulatedBuffer,
    SimulatedProgram,
    create_buffer,
    open_mesh_device,
)
from ttmem.model.circular_buffers import BufferKind, union_bytes
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType, whole_grid
from ttmem.model.errors import RuntimeFault
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.layouts import Layout, Strategy


class ModelRunner:
    """A freshly opened mesh, which leaves out what mock devices leave out."""

    def __init__(self, board: BenchBoard, sizes: Sizes) -> None:
        self._mesh = open_mesh_device(
            (board.rows, board.columns),
            board=board.product,
            mock=True,
            tracker=RecordingTracker(),
            **asdict(sizes),
        )
        self._tensors: dict[str, tuple[TensorSpec, SimulatedBuffer]] = {}

    def run(self, step: Step, wanted: Sequence[CoreBuffer]) -> State:
        """`wanted` are the buffers of an op's program, as the runtime told of them; the model places them."""
        if isinstance(step, Allocate):
            return self._allocate(step.name, step.tensor)
        if isinstance(step, Free):
            self._free(step.name)
            return self.state()
        if isinstance(step, ClearCache):
            self._mesh.clear_program_cache()
            return self.state()
        if any(name not in self._tensors for name in step.needs):
            return self.state()
        if isinstance(step, Launch):
            addresses = {name: self._tensors[name][1].address for name in step.needs}
            key = (step, *addresses.values()) if len(addresses) > 1 else step
            return self._enqueue(key, lambda: launched_program(self._mesh, step, addresses))
        return self._operate(step, wanted)

    def requested(self) -> dict[str, int]:
        """The bytes that were asked for on each device, by kind."""
        held = dict.fromkeys(KINDS, 0)
        for tensor, _ in self._tensors.values():
            held[tensor.kind.lower()] += tensor.size
        return held

    def circular_buffer_bytes(self) -> int:
        """What the runtime publishes: the union over all cached programs, without dataflow buffers."""
        programs = [workload.program for workload in self._mesh.workloads.values()]
        layouts = [
            program.l1
            for program in programs
            if all(buffer.kind is BufferKind.CIRCULAR for buffer in program.buffers)
        ]
        return union_bytes(layout.regions_per_core() for layout in layouts if layout is not None)

    def state(self, address: int | None = None, error: str | None = None) -> State:
        return State(
            address=address,
            error=error,
            circular=[],
            program_cache_entries=self._mesh.num_program_cache_entries(),
            kinds={kind: _view(self._mesh, MemoryKind[kind.upper()]) for kind in KINDS},
        )

    def _allocate(self, name: str, tensor: TensorSpec) -> State:
        layout: Layout = Interleaved()
        if tensor.strategy != "interleaved":
            strategy = cast(Strategy, tensor.strategy)
            layout = Sharded.over(strategy, tensor.pages, tensor.grid, tensor.page_size)
        kind = MemoryKind[tensor.kind]
        try:
            buffer = create_buffer(self._mesh, tensor.size, tensor.page_size, kind, layout)
        except RuntimeFault as fault:
            return self.state(error=str(fault))
        self._tensors[name] = tensor, buffer
        return self.state(address=buffer.address)

    def _free(self, name: str) -> None:
        _, buffer = self._tensors.pop(name, (None, None))
        if buffer is not None:
            buffer.deallocate()

    def _operate(self, step: Operate, wanted: Sequence[CoreBuffer]) -> State:
        """The output comes before the program, and goes with it if it fails."""
        made = self._allocate(step.name, step.output)
        if made["error"] is not None:
            return made
        key = (step.op, step.operand, step.output)
        state = self._enqueue(key, lambda: op_program(self._mesh, wanted))
        state["address"] = made["address"]
        if state["error"] is not None:
            self._free(step.name)
            return self.state(error=state["error"])
        return state

    def _enqueue(self, key: Hashable, make: Callable[[], SimulatedProgram]) -> State:
        cache = self._mesh.program_cache
        missed = cache.misses
        try:
            program = cache.run(key, make).program
        except RuntimeFault as fault:
            return self.state(error=fault_text(fault) or str(fault))
        state = self.state()
        if cache.misses > missed:
            state["circular"] = [
                buffer.address or 0
                for buffer in program.buffers
                if buffer.kind is BufferKind.CIRCULAR and not buffer.is_global
            ]
        return state


def _view(mesh: MeshDevice, kind: MemoryKind) -> KindView:
    view = mesh.memory_view(kind)
    blocks = mesh.allocator.free_list(kind)
    return KindView(
        num_banks=view.num_banks,
        total_bytes_per_bank=view.total_bytes_per_bank,
        total_bytes_allocated_per_bank=view.total_bytes_allocated_per_bank,
        total_bytes_free_per_bank=view.total_bytes_free_per_bank,
        largest_contiguous_bytes_free_per_bank=view.largest_contiguous_bytes_free_per_bank,
        block_table=[
            Block(address=address - blocks.base, size=size, allocated=allocated)
            for address, size, allocated in blocks.blocks()
        ],
    )


# -- Programs of the model: as a script wants them, or as the runtime's capture of an op tells of them


TEXT_BYTES = (
    1_000  # of the kernel: mock devices hold no text, so that the figures must not depend on it
)
SOMEWHERE = 0  # the address of a buffer that lies in a tensor's memory: no other depends on it

_RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")


def launched_program(
    mesh: MeshDevice, step: Launch, addresses: Mapping[str, int]
) -> SimulatedProgram:
    """`addresses` are those of the tensors that its buffers lie in."""
    program = _program(mesh)
    for place in step.places:
        ranges = tuple(CoreRange(*each) for each in place.ranges)
        address = None if place.tensor is None else addresses[place.tensor]
        program.add_circular_buffer(ranges, place.size, address=address, merged=False)
    return program


def op_program(mesh: MeshDevice, wanted: Iterable[CoreBuffer]) -> SimulatedProgram:
    program = _program(mesh)
    for buffer in wanted:
        circular = buffer["kind"] == "circular_buffer"
        add = program.add_circular_buffer if circular else program.add_dataflow_buffer
        address = SOMEWHERE if buffer["borrowed"] else None
        add(_ranges(buffer["cores"]), buffer["size"], address=address, merged=False)
    return program


def _program(mesh: MeshDevice) -> SimulatedProgram:
    program = SimulatedProgram(mesh.spec)
    cores = whole_grid(mesh.spec.grid)
    program.add_kernel(SimulatedKernel("reader", CoreType.TENSIX, cores, (TEXT_BYTES,)))
    return program


def _ranges(text: str) -> CoreRangeSet:
    """From '{[0-0 - 6-3], [0-4 - 5-9]}'."""
    return tuple(CoreRange(*map(int, found)) for found in _RANGE.findall(text))
