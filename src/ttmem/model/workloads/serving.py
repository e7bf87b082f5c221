"""A server of requests: blocks of KV cache are taken as answers grow, and given back when they end."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Tensor, from_shape
from ttmem.model.workloads.scale import Scale, Steps

MOST_REQUESTS = 64
TIDE = 60  # steps of many new requests, then as many of few
TOKENS_PER_BLOCK = 4
BLOCK_ROWS = 256


@dataclass(slots=True)
class Request:
    """`left`: tokens that are still to come."""

    left: int
    blocks: list[Tensor] = field(default_factory=list)


class Service:
    """The model's weights, and the requests it works on."""

    def __init__(self, mesh: MeshDevice, rng: Random, scale: Scale) -> None:
        self._mesh = mesh
        self._rng = rng
        self._block = (2, BLOCK_ROWS, scale.hidden)  # keys and values
        hidden = scale.hidden
        self._weights = [
            from_shape(mesh, (hidden, 4 * hidden), site="load weights") for _ in range(scale.layers)
        ]
        self._input = from_shape(mesh, (32, hidden), memory="l1", site="batch")
        self.requests: list[Request] = []

    def arrivals(self, busy: bool) -> None:
        """New requests, if there is room."""
        for _ in range(self._rng.randint(0, 4 if busy else 1)):
            if len(self.requests) < MOST_REQUESTS:
                self.requests.append(Request(self._rng.randint(10, 60)))

    def generate(self) -> None:
        """One token for each request; who is done gives its blocks back."""
        for weights in self._weights:
            ops.matmul(self._input, weights).deallocate()
        for request in self.requests:
            if request.left % TOKENS_PER_BLOCK == 0 or not request.blocks:
                request.blocks.append(from_shape(self._mesh, self._block, site="kv_cache block"))
            request.left -= 1
        for request in self.requests:
            if request.left == 0:
                _free(request)
        self.requests = [request for request in self.requests if request.left]


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """High tide and low tide, one token per step."""
    service = Service(mesh, rng, scale)
    step = 0
    while True:
        service.arrivals(busy=step // TIDE % 2 == 0)
        service.generate()
        step += 1
        yield None


def _free(request: Request) -> None:
    for block in request.blocks:
        block.deallocate()
    request.blocks = []
