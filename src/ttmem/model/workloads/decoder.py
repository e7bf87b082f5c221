"""A decoder-only language model: weights, a KV cache of fixed size, and one pass through its layers."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.model import ops
from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Memory, Temporaries, Tensor, from_shape
from ttmem.model.workloads.scale import Scale

HEAD = 128  # elements of an attention head
VOCABULARY = 32_000
TOKEN_BYTES = 4


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
        """Loads one more layer from the host to DRAM."""
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
