"""A residual network for images. Activations stay in L1, sharded by height over all cores."""

from __future__ import annotations

from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Shape, Temporaries, Tensor, from_shape, over_grid
from ttmem.model.workloads.scale import Scale, Steps

STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))  # side of the image, channels
BLOCKS = 2  # of each stage; each has two convolutions and a shortcut


class Network:
    """Weights in DRAM and halo tables in L1_SMALL, for one size of batch."""

    def __init__(self, mesh: MeshDevice, batch: int) -> None:
        self._mesh = mesh
        self._weights = [
            from_shape(mesh, (9 * channels, channels), site="load weights")
            for _, channels in STAGES
        ]
        self._shapes: list[Shape] = [
            (1, 1, batch * side * side, channels) for side, channels in STAGES
        ]
        self._halos = [ops.prepare_halo(mesh, shape, site="halo") for shape in self._shapes]

    def classify(self) -> Steps:
        """One batch, with one step per stage; its activations are alive when the step ends."""
        for shape, weights, halo in zip(self._shapes, self._weights, self._halos, strict=True):
            x = self._image(shape)
            for _ in range(BLOCKS):
                x = _block(x, weights, halo)
            yield None
            x.deallocate()

    def _image(self, shape: Shape) -> Tensor:
        shard = over_grid(self._mesh, shape, "height")
        return from_shape(self._mesh, shape, memory="l1", shard=shard, site="activations")


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Batches of two sizes, in random order."""
    networks = [Network(mesh, scale.units * images) for images in (1, 2)]
    while True:
        yield from rng.choice(networks).classify()


def _block(x: Tensor, weights: Tensor, halo: Tensor) -> Tensor:
    with Temporaries() as keep:
        inner = keep(ops.conv2d(keep(x), weights, halo))
        return ops.add(x, keep(ops.conv2d(inner, weights, halo)))
