"""A server of requests: answers allocate blocks of KV cache as they grow, and free them at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Tensor, from_shape
from ttmem.model.workloads.scale import Scale, Steps

MOST_REQUESTS = 64
TIDE = 60  # steps with many new requests, then as many with few
TOKENS_PER_BLOCK = 4
BLOCK_ROWS = 256


@dataclass(slots=True)
class Request:
    """`left`: tokens still to be generated."""

    left: int
    blocks: list[Tensor] = field(default_factory=list)


class Service:
    """The model's weights, and the requests in progress."""

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
        """Accepts new requests, if there is space."""
        for _ in range(self._rng.randint(0, 4 if busy else 1)):
            if len(self.requests) < MOST_REQUESTS:
                self.requests.append(Request(self._rng.randint(10, 60)))

    def generate(self) -> None:
        """One token for each request; a finished one frees its blocks."""
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
    """Alternates between high and low load, one token per step."""
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
