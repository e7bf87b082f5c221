"""Programs of the model: as a script wants them, or as the runtime's capture of an op tells of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tests.ttnn.bench.answers import CoreBuffer
from tests.ttnn.scripts.steps import Launch
from ttmem.model import MeshDevice, Program
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType, whole_grid
from ttmem.model.kernels import Kernel

TEXT_BYTES = (
    1_000  # of the kernel: mock devices hold no text, so that the figures must not depend on it
)
SOMEWHERE = 0  # the address of a buffer that lies in a tensor's memory: no other depends on it

_RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")


def launched_program(mesh: MeshDevice, step: Launch, addresses: Mapping[str, int]) -> Program:
    """`addresses` are those of the tensors that its buffers lie in."""
    program = _program(mesh)
    for place in step.places:
        ranges = tuple(CoreRange(*each) for each in place.ranges)
        address = None if place.tensor is None else addresses[place.tensor]
        program.add_circular_buffer(ranges, place.size, address=address, merged=False)
    return program


def op_program(mesh: MeshDevice, wanted: Iterable[CoreBuffer]) -> Program:
    program = _program(mesh)
    for one in wanted:
        circular = one["kind"] == "circular_buffer"
        add = program.add_circular_buffer if circular else program.add_dataflow_buffer
        address = SOMEWHERE if one["borrowed"] else None
        add(_ranges(one["cores"]), one["size"], address=address, merged=False)
    return program


def _program(mesh: MeshDevice) -> Program:
    program = Program(mesh.spec)
    cores = whole_grid(mesh.spec.grid)
    program.add_kernel(Kernel("reader", CoreType.TENSIX, cores, (TEXT_BYTES,)))
    return program


def _ranges(text: str) -> CoreRangeSet:
    """From '{[0-0 - 6-3], [0-4 - 5-9]}'."""
    return tuple(CoreRange(*map(int, found)) for found in _RANGE.findall(text))
