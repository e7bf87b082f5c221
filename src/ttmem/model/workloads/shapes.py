"""An application that does not pad its inputs, so each has its own shape and needs its own program."""

from __future__ import annotations

from itertools import count
from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import TILE, Temporaries, from_shape
from ttmem.model.workloads.scale import Scale, Steps

MOST_ROWS = 64  # of tiles; then a column is added


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """A new shape every step, and two more programs."""
    for number in count():
        columns, row = divmod(number, MOST_ROWS)
        shape = (scale.units * rng.choice((1, 2)), TILE * (row + 1), TILE * (columns + 1))
        with Temporaries() as keep:
            a = keep(from_shape(mesh, shape, site="input"))
            keep(ops.softmax(keep(ops.add(a, a))))
            yield None
