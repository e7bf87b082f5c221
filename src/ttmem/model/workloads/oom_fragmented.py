"""An application that frees every second buffer: half of DRAM is free, but fragmented."""

from __future__ import annotations

from random import Random

from ttmem.events import MemoryKind
from ttmem.model.errors import OutOfMemory
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import TILE, Tensor, from_shape
from ttmem.model.workloads.scale import Scale, Steps

PIECES = 16


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Fills DRAM, frees every second piece, asks for twice the size of a piece; then frees everything."""
    while True:
        rows = _rows_of_a_piece(mesh)
        pieces: list[Tensor] = []
        for _ in range(PIECES):
            pieces.append(_piece(mesh, rows))
            yield None
        first = rng.randint(0, 1)
        for tensor in pieces[first::2]:
            tensor.deallocate()
        try:
            _piece(mesh, 2 * rows).deallocate()
        except OutOfMemory as fault:
            yield str(fault)
        for tensor in pieces[1 - first :: 2]:
            tensor.deallocate()
        yield None


def _rows_of_a_piece(mesh: MeshDevice) -> int:
    """In elements. Tiles go round robin over the banks, so full rounds fill them evenly."""
    view = mesh.memory_view(MemoryKind.DRAM)
    rounds = view.total_bytes_free_per_bank // (TILE * TILE * 2) // PIECES
    return TILE * rounds * view.num_banks


def _piece(mesh: MeshDevice, rows: int) -> Tensor:
    return from_shape(mesh, (rows, TILE), site="buffer of a sixteenth of DRAM")
