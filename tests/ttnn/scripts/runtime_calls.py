"""How each step is said in ttnn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.ttnn.scripts.steps import ANCHOR, Launch, Operate, Place
from tests.ttnn.scripts.tensor_spec import TensorSpec

KERNEL = "void kernel_main() {}"

# a is the operand, out the memory of the output. All want the same buffers however much of L1 is free; others, as
# matmul, layer_norm and untilize, look at what is left.
OPS = {
    "add": "ttnn.add(a, a, memory_config=out)",
    "concat": "ttnn.concat([a, a], 1, memory_config=out)",
    "relu": "ttnn.relu(a, memory_config=out)",
    "softmax": "ttnn.softmax(a, -1, memory_config=out)",
    "transpose": "ttnn.transpose(a, 0, 1, memory_config=out)",
    "typecast": "ttnn.typecast(a, ttnn.bfloat8_b, memory_config=out)",
    "clone": "ttnn.clone(a, memory_config=out)",
    "where": "ttnn.where(a, a, a, memory_config=out)",
    "shard": "ttnn.interleaved_to_sharded(a, out)",
}


class RuntimeCalls:
    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self.device: Any = None

    def open(self, shape: list[int], sizes: Mapping[str, int]) -> None:
        self.device = self._ttnn.open_mesh_device(self._ttnn.MeshShape(*shape), **sizes)

    def close(self) -> None:
        if self.device is not None:
            self._ttnn.close_mesh_device(self.device)
            self.device = None

    def allocate(self, tensor: TensorSpec) -> Any:
        ttnn = self._ttnn
        layout = ttnn.TILE_LAYOUT if tensor.tiled else ttnn.ROW_MAJOR_LAYOUT
        dtype = getattr(ttnn, tensor.dtype)
        return ttnn.empty(tensor.shape, dtype, layout, self.device, self._memory(tensor))

    def operate(self, step: Operate, tensor: Any) -> Any:
        names = {"ttnn": self._ttnn, "a": tensor, "out": self._memory(step.output)}
        return eval(OPS[step.op], names)

    def launch(self, step: Launch, tensors: Mapping[str, Any]) -> None:
        anchor = tensors[ANCHOR]
        self._ttnn.generic_op([anchor, anchor], self._program(step, tensors))

    def _memory(self, tensor: TensorSpec) -> Any:
        ttnn = self._ttnn
        kind = getattr(ttnn.BufferType, tensor.kind)
        if tensor.strategy == "interleaved":
            return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, kind)
        x, y = tensor.grid
        cores = self._cores(((0, 0, x - 1, y - 1),))
        shard = ttnn.ShardSpec(cores, tensor.shard_shape, ttnn.ShardOrientation.ROW_MAJOR)
        layout = getattr(ttnn.TensorMemoryLayout, f"{tensor.strategy.upper()}_SHARDED")
        return ttnn.MemoryConfig(layout, kind, shard)

    def _program(self, step: Launch, tensors: Mapping[str, Any]) -> Any:
        ttnn = self._ttnn
        grid = self.device.compute_with_storage_grid_size()
        kernel = ttnn.KernelDescriptor(
            kernel_source=KERNEL,
            source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
            core_ranges=self._cores(((0, 0, grid.x - 1, grid.y - 1),)),
            config=ttnn.ReaderConfigDescriptor(),
        )
        buffers = [self._buffer(index, one, tensors) for index, one in enumerate(step.places)]
        return ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=buffers)

    def _buffer(self, index: int, place: Place, tensors: Mapping[str, Any]) -> Any:
        ttnn = self._ttnn
        cores = self._cores(place.ranges)
        if place.tensor is not None:
            under = tensors[place.tensor]
            return ttnn.cb_descriptor_from_sharded_tensor(
                index, under, total_size=place.size, core_ranges=cores
            )
        pages = ttnn.CBFormatDescriptor(
            buffer_index=index, data_format=ttnn.bfloat16, page_size=place.size
        )
        return ttnn.CBDescriptor(
            total_size=place.size, core_ranges=cores, format_descriptors=[pages]
        )

    def _cores(self, ranges: tuple[tuple[int, int, int, int], ...]) -> Any:
        ttnn = self._ttnn
        return ttnn.CoreRangeSet(
            [
                ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1))
                for x0, y0, x1, y1 in ranges
            ]
        )
