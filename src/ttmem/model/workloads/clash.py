"""An application that keeps adding L1 buffers until they clash with circular buffers."""

from __future__ import annotations

from random import Random

from ttmem.model import ops
from ttmem.model.errors import ClashFault
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import TILE, Tensor, from_shape
from ttmem.model.workloads.scale import Scale, Steps

SHARES = 16  # each activation takes this fraction of L1


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
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
