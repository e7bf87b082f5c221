"""An application that leaks one result per step."""

from __future__ import annotations

from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Tensor, from_shape
from ttmem.model.workloads.scale import Scale, Steps


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Ends with OutOfMemory, as a real one would."""
    kept: list[Tensor] = []
    inputs = from_shape(mesh, kept_shape(scale), site="input")
    while True:
        kept.append(ops.add(inputs, inputs))
        ops.add(inputs, inputs).deallocate()
        yield None


def kept_shape(scale: Scale) -> tuple[int, int]:
    """Shape of the tensor that each step leaks."""
    return (1024 * scale.units, 1024)
