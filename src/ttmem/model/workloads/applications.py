"""Applications: an image classifier, a server of requests, language models, and some with a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeAlias

from ttmem.events import MemoryKind
from ttmem.model import ops
from ttmem.model.dispatch import MeshDevice
from ttmem.model.errors import ClashFault, OutOfMemory
from ttmem.model.tensor import TILE, Memory, Shape, Temporaries, Tensor, from_shape, over_grid
from ttmem.model.traces import (
    begin_trace_capture,
    end_trace_capture,
    execute_trace,
    release_trace,
)

Steps: TypeAlias = Iterator[str | None]


@dataclass(frozen=True, slots=True)
class Scale:
    """`units` scales the tensors of workloads without layers."""

    layers: int
    hidden: int
    context: int
    units: int


SCALES = {
    "small": Scale(layers=2, hidden=512, context=1024, units=1),
    "medium": Scale(layers=16, hidden=2048, context=8192, units=4),
    "large": Scale(layers=32, hidden=4096, context=16_384, units=16),
}


STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))  # side of the image, channels
BLOCKS = 2  # of each stage; each has two convolutions and a shortcut


class Network:
    """A residual network for images; activations stay in L1, sharded by height over all cores.

    Weights in DRAM and halo tables in L1_SMALL, for one size of batch."""

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


def cnn(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Batches of two sizes, in random order."""
    networks = [Network(mesh, scale.units * images) for images in (1, 2)]
    while True:
        yield from rng.choice(networks).classify()


def _block(x: Tensor, weights: Tensor, halo: Tensor) -> Tensor:
    with Temporaries() as keep:
        inner = keep(ops.conv2d(keep(x), weights, halo))
        return ops.add(x, keep(ops.conv2d(inner, weights, halo)))


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
    """Answers allocate blocks of KV cache as they grow, and free them at the end.

    The model's weights, and the requests in progress."""

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


def serving(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
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


HEAD = 128  # elements of an attention head
VOCABULARY = 32_000
TOKEN_BYTES = 4
ONE_TOKEN = 32  # users in a batch, each with its next token: one tile of rows
PROMPTS = (128, 256, 512, 1024)  # prompts are padded to one of these: few shapes, few programs
GALAXY_PROMPTS = (128, 512)
MOST_PARTS = 8  # chips of one row or column that share a layer; the others have copies


def transformer(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Replicated on every chip; each answers its own requests (data parallel)."""
    return _language_model(mesh, rng, Decoder(mesh, scale), scale.layers, PROMPTS)


def galaxy(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """One model on all chips; every chip has a part of each layer (tensor parallel)."""
    model = Decoder(mesh, scale, parts=min(MOST_PARTS, mesh.shape[0]))
    return _language_model(mesh, rng, model, scale.layers, GALAXY_PROMPTS)


def _language_model(
    mesh: MeshDevice, rng: Random, model: Decoder, layers: int, prompts: tuple[int, ...]
) -> Steps:
    """Loads, warms up with every shape it will use, then answers requests."""
    for _ in range(layers):
        model.load_layer()
        yield None
    for length in prompts:
        model.pass_once(length, "dram")
        yield None
    model.pass_once(ONE_TOKEN, "l1")
    yield None
    while True:
        model.pass_once(rng.choice(prompts), "dram")
        yield None
        yield from _answer(mesh, model, rng.randint(8, 32))


def warm_up_steps(scale: Scale) -> int:
    """After so many steps all programs of `transformer` are cached."""
    return scale.layers + len(PROMPTS) + 1


def _answer(mesh: MeshDevice, model: Decoder, tokens: int) -> Steps:
    """One token per step. The model must have decoded before, because a trace cannot load programs."""
    if mesh.spec.trace_bank_size:
        return _replay(mesh, model, tokens)
    return _decode(model, tokens)


def _decode(model: Decoder, tokens: int) -> Steps:
    for _ in range(tokens):
        model.pass_once(ONE_TOKEN, "l1")
        yield None


def _replay(mesh: MeshDevice, model: Decoder, tokens: int) -> Steps:
    """One pass is captured and replayed for each token; its input and output stay where they are."""
    with Temporaries() as keep:
        token = keep(model.tokens(ONE_TOKEN))
        trace = begin_trace_capture(mesh)
        keep(model.forward(token, "l1"))
        end_trace_capture(mesh, trace)
        for _ in range(tokens):
            execute_trace(mesh, trace)
            yield None
        release_trace(mesh, trace)


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer, and its part of the KV cache."""

    query: Tensor
    key_value: Tensor
    out: Tensor
    up: Tensor
    down: Tensor
    keys: Tensor
    values: Tensor


class Decoder:
    """`parts`: chips that share each layer; a chip has one part of its columns."""

    def __init__(self, mesh: MeshDevice, scale: Scale, parts: int = 1) -> None:
        self._mesh = mesh
        self._scale = scale
        self._parts = parts
        self._layers: list[Layer] = []
        hidden = scale.hidden
        self._table = from_shape(mesh, (VOCABULARY, hidden), site="load embedding")
        self._head = from_shape(mesh, (hidden, VOCABULARY // parts), site="load lm_head")

    def load_layer(self) -> None:
        hidden, part = self._scale.hidden, self._scale.hidden // self._parts
        cache = (max(1, part // HEAD), self._scale.context, HEAD)
        self._layers.append(
            Layer(
                query=self._weights(hidden, part),
                key_value=self._weights(hidden, 2 * part),
                out=self._weights(part, hidden),
                up=self._weights(hidden, 4 * part),
                down=self._weights(4 * part, hidden),
                keys=from_shape(self._mesh, cache, site="kv_cache"),
                values=from_shape(self._mesh, cache, site="kv_cache"),
            )
        )

    def tokens(self, count: int) -> Tensor:
        """The input of one pass."""
        return from_shape(self._mesh, (1, count), element_bytes=TOKEN_BYTES, site="tokens")

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """The logits; activations go through DRAM (prefill) or stay in L1 (decode)."""
        x = ops.embedding(tokens, self._table, memory=memory)
        for layer in self._layers:
            x = _feed_forward(layer, _attend(layer, x))
        with Temporaries() as keep:
            return ops.matmul(keep(x), self._head, dataflow_buffers=True)

    def pass_once(self, count: int, memory: Memory) -> None:
        """Runs so many tokens through all layers; frees everything afterwards."""
        with Temporaries() as keep:
            keep(self.forward(keep(self.tokens(count)), memory))

    def _weights(self, rows: int, columns: int) -> Tensor:
        return from_shape(self._mesh, (rows, columns), site="load weights")


def _attend(layer: Layer, x: Tensor) -> Tensor:
    with Temporaries() as keep:
        normal = keep(ops.layer_norm(x))
        query = keep(ops.matmul(normal, layer.query))
        keep(ops.matmul(normal, layer.key_value))  # goes into the KV cache
        mixed = keep(ops.scaled_dot_product_attention(query, layer.keys, layer.values))
        return ops.add(keep(x), keep(ops.matmul(mixed, layer.out)))


def _feed_forward(layer: Layer, x: Tensor) -> Tensor:
    with Temporaries() as keep:
        wide = keep(ops.matmul(keep(ops.layer_norm(x)), layer.up))
        return ops.add(keep(x), keep(ops.matmul(keep(ops.gelu(wide)), layer.down)))


# Applications with a fault: they leak, fragment DRAM, fill L1, or fill the program cache.

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
