"""An application that pads nothing: each input has a shape of its own, and so a program of its own."""

from __future__ import annotations

from itertools import count
from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import TILE, Temporaries, from_shape
from ttmem.model.workloads.scale import Scale, Steps

MOST_ROWS = 64  # of tiles; then there is one more column


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Never the same shape again; two programs more with each step."""
    for number in count():
        columns, row = divmod(number, MOST_ROWS)
        shape = (scale.units * rng.choice((1, 2)), TILE * (row + 1), TILE * (columns + 1))
        with Temporaries() as keep:
            a = keep(from_shape(mesh, shape, site="input"))
            keep(ops.softmax(keep(ops.add(a, a))))
            yield None
