"""Two small models in ttnn operations, to be run in the child: a transformer and a convolutional network."""

from __future__ import annotations

from typing import Any

WIDTH, TOKENS = 256, 128


class Models:
    """Counts the operations that it calls; what it keeps is what a model keeps: weights and a cache."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self.ttnn = ttnn
        self.device = device
        self.operations = 0
        self.grid = ttnn.CoreGrid(x=4, y=4)
        self.weights = [self._tensor((WIDTH, WIDTH)) for _ in range(4)]
        self.filter = ttnn.zeros((32, 32, 3, 3), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
        self.kept: list[Any] = []

    def _tensor(self, shape: tuple[int, ...], rows: bool = False) -> Any:
        layout = self.ttnn.ROW_MAJOR_LAYOUT if rows else self.ttnn.TILE_LAYOUT
        memory = self.ttnn.DRAM_MEMORY_CONFIG
        full = (1,) * (4 - len(shape)) + shape
        return self.ttnn.allocate_tensor_on_device(
            self.ttnn.Shape(full), self.ttnn.bfloat16, layout, self.device, memory
        )

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.operations += 1
        return getattr(self.ttnn, name)(*arguments, **options)

    def _times(self, left: Any, right: Any, memory: Any = None) -> Any:
        return self._call(
            "matmul", left, right, core_grid=self.grid, memory_config=memory or left.memory_config()
        )

    def transformer_layer(self) -> None:
        """Attention and a feed-forward part; intermediate tensors live in L1 and die with the layer."""
        query, key, up, down = self.weights
        states = self._tensor((TOKENS, WIDTH))
        asked = self._times(states, query, self.ttnn.L1_MEMORY_CONFIG)
        kept = self._times(states, key)
        scores = self._times(asked, self._call("transpose", kept, -2, -1))
        weights = self._call("softmax", scores, dim=-1)
        mixed = self._call("add", self._times(weights, kept), asked)
        wide = self._call("relu", self._times(mixed, up, self.ttnn.L1_MEMORY_CONFIG))
        self._call("deallocate", mixed)
        self._call("multiply", self._times(wide, down), 0.5)
        self.kept.append(kept)
        if len(self.kept) > 8:
            self._call("deallocate", self.kept.pop(0))

    def convolution_block(self) -> None:
        """A convolution, its activation and a pool."""
        image = self._tensor((1, 1, 16 * 16, 32), rows=True)
        size = {"batch_size": 1, "kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
        made = self._call(
            "conv2d",
            input_tensor=image,
            weight_tensor=self.filter,
            device=self.device,
            in_channels=32,
            out_channels=32,
            input_height=16,
            input_width=16,
            **size,
        )
        self._call("relu", made)
        self._call(
            "max_pool2d",
            input_tensor=image,
            batch_size=1,
            input_h=16,
            input_w=16,
            channels=32,
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[0, 0],
            dilation=[1, 1],
        )
