"""Small programs for the tests."""

from __future__ import annotations

from ttmem.hw import DeviceSpec, device_spec
from ttmem.model.core_ranges import CoreRange, CoreType, whole_grid
from ttmem.model.kernels import Kernel
from ttmem.model.program import Program
from ttmem.model.slot_layout import ProgramLayout

TILE = 2048
P150 = device_spec("p150")
N150 = device_spec("n150")
GRID = whole_grid(P150.grid)
ETH = (CoreRange(0, 0, 0, 15),)


def kernel(name: str, *packed: int, cores: tuple[CoreRange, ...] = GRID) -> Kernel:
    """On Tensix cores, with these packed sizes."""
    return Kernel(name, CoreType.TENSIX, cores, packed)


def finalized(program: Program) -> ProgramLayout:
    """The layout of its config slot."""
    program.compile()
    return program.finalize_offsets()


def eltwise(spec: DeviceSpec, tiles: int = 6, name: str = "add", text: int = 1392) -> Program:
    """Reader, writer and compute on the whole grid, and circular buffers of so many tiles."""
    cores = whole_grid(spec.grid)
    program = Program(spec)
    program.add_kernel(Kernel(f"{name}_reader", CoreType.TENSIX, cores, (900,), 8))
    program.add_kernel(Kernel(f"{name}_writer", CoreType.TENSIX, cores, (700,), 4))
    program.add_kernel(Kernel(f"{name}_compute", CoreType.TENSIX, cores, (text,) * 3, 2))
    program.add_circular_buffer(cores, tiles * TILE)
    return program
