"""Small programs for the tests."""

from __future__ import annotations

from ttmem.hw import DeviceSpec
from ttmem.model.core_ranges import CoreType, whole_grid
from ttmem.model.kernels import Kernel
from ttmem.model.program import Program

TILE = 2048


def eltwise(spec: DeviceSpec, tiles: int = 6, name: str = "add", text: int = 1392) -> Program:
    """Reader, writer and compute on the whole grid, and circular buffers of so many tiles."""
    cores = whole_grid(spec.grid)
    program = Program(spec)
    program.add_kernel(Kernel(f"{name}_reader", CoreType.TENSIX, cores, (900,), 8))
    program.add_kernel(Kernel(f"{name}_writer", CoreType.TENSIX, cores, (700,), 4))
    program.add_kernel(Kernel(f"{name}_compute", CoreType.TENSIX, cores, (text,) * 3, 2))
    program.add_circular_buffer(cores, tiles * TILE)
    return program
