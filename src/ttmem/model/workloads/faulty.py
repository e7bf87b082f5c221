"""Applications with a fault: they leak, fragment DRAM, fill L1, or fill the program cache."""

from __future__ import annotations

from itertools import count
from random import Random

from ttmem.events import MemoryKind
from ttmem.model import ops
from ttmem.model.dispatch import MeshDevice
from ttmem.model.errors import ClashFault, OutOfMemory
from ttmem.model.tensor import TILE, Temporaries, Tensor, from_shape
from ttmem.model.workloads.applications import Scale, Steps

MOST_ROWS = 64  # of tiles; then a column is added
PIECES = 16  # of DRAM
SHARES = 16  # each activation takes this fraction of L1


def shapes(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Inputs are not padded: every step has a new shape, and needs two more programs."""
    for number in count():
        columns, row = divmod(number, MOST_ROWS)
        shape = (scale.units * rng.choice((1, 2)), TILE * (row + 1), TILE * (columns + 1))
        with Temporaries() as keep:
            a = keep(from_shape(mesh, shape, site="input"))
            keep(ops.softmax(keep(ops.add(a, a))))
            yield None


def oom_fragmented(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
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
    return from_shape(mesh, (rows, TILE), site="piece of DRAM")


def leak(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Leaks one result per step. Ends with OutOfMemory, as a real one would."""
    kept: list[Tensor] = []
    inputs = from_shape(mesh, kept_shape(scale), site="input")
    while True:
        kept.append(ops.add(inputs, inputs))
        ops.add(inputs, inputs).deallocate()
        yield None


def kept_shape(scale: Scale) -> tuple[int, int]:
    """Shape of the tensor that each step leaks."""
    return (1024 * scale.units, 1024)


def clash(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """One more activation per step; after a clash all are freed, and it starts again."""
    a = from_shape(mesh, (scale.hidden, scale.hidden), site="operand")
    activations: list[Tensor] = []
    while True:
        activations.append(_activation(mesh, rng))
        try:
            ops.matmul(a, a).deallocate()
        except ClashFault as fault:
            yield str(fault)
            while activations:
                activations.pop().deallocate()
        else:
            yield None


def _activation(mesh: MeshDevice, rng: Random) -> Tensor:
    tiles_per_bank = mesh.spec.l1_bank_size // (TILE * TILE * 2) // SHARES
    rows = mesh.spec.l1_banks * (tiles_per_bank - rng.randint(0, tiles_per_bank // 8))
    return from_shape(mesh, (TILE * rows, TILE), memory="l1", site="activations")
