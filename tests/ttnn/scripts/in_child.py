"""Runs the steps of scripts on the real runtime, inside the process that has it loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tests.ttnn.bench.answers import CoreBuffer
from tests.ttnn.bench.child.views import core_buffers, views
from tests.ttnn.scripts.steps import (
    ANCHOR,
    KINDS,
    Allocate,
    Answer,
    ClearCache,
    Free,
    Launch,
    Operate,
    Place,
    State,
    TensorSpec,
    fault_text,
    from_plain,
)

# The runtime publishes its circular buffers at most every 100 ms, and what it leaves out it does not make up for.
PUBLISHING_PAUSE_S = 0.12


class Runner:
    """One device at a time. A step that names a tensor which is not there does nothing."""

    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self._calls = RuntimeCalls(ttnn)
        self._tensors: dict[str, Any] = {}
        self._wanted: dict[Hashable, list[CoreBuffer]] = {}
        self._cb_is_fresh = True
        self._changed_at = 0.0

    def open(self, shape: list[int], sizes: dict[str, int], steps: list[dict[str, Any]]) -> Answer:
        """Closes the device that was open before, and with it all that was there.

        What the ops of the script will want is asked now: where L1 is full, the runtime refuses to tell.
        """
        self.close()
        self._calls.open(shape, sizes)
        self._note_change(fresh=True)
        for step in map(from_plain, steps):
            if isinstance(step, Operate):
                self._wanted[_key(step)] = self._ask(step)
        return self._answer()

    def close(self) -> None:
        self._tensors.clear()
        self._calls.close()

    def run(self, plain: dict[str, Any]) -> Answer:
        """A fault of the runtime is part of the answer; any other exception goes to the test."""
        step = from_plain(plain)
        if isinstance(step, Allocate):
            return self._answer(self._keep(step.name, lambda: self._calls.allocate(step.tensor)))
        if isinstance(step, Free):
            tensor = self._tensors.pop(step.name, None)
            if tensor is not None:
                self._ttnn.deallocate(tensor)
            return self._answer()
        if isinstance(step, ClearCache):
            self._calls.device.clear_program_cache()
            self._note_change(fresh=False)
            return self._answer()
        if any(name not in self._tensors for name in step.needs):
            return self._answer()
        return self._enqueue(step)

    def _keep(self, name: str | None, make: Callable[[], Any]) -> State:
        """The tensor that was made, under that name if it has one; or the fault."""
        try:
            tensor = make()
        except RuntimeError as error:
            fault = fault_text(error)
            if fault is None:
                raise
            return self._state(error=fault)
        if name is None:
            return self._state()
        self._tensors[name] = tensor
        return self._state(address=tensor.buffer_address())

    def _ask(self, step: Operate) -> list[CoreBuffer]:
        """Nothing is dispatched, and the operand takes no memory."""

        def work() -> None:
            self._calls.operate(step, self._calls.allocate(step.operand))

        return _of_one_device(core_buffers(self._ttnn, work))

    def _enqueue(self, step: Operate | Launch) -> Answer:
        time.sleep(max(0.0, self._changed_at + PUBLISHING_PAUSE_S - time.monotonic()))
        before = self._calls.device.num_program_cache_entries()
        placed: list[CoreBuffer] = []
        if isinstance(step, Operate):
            wanted = self._wanted[_key(step)]
            has_circular = any(map(_is_local_circular, wanted))
            state = self._keep(step.name, lambda: self._dispatch_op(step, placed))
        else:
            wanted = []
            has_circular = any(place.tensor is None for place in step.places)
            state = self._keep(None, lambda: self._dispatch_program(step, placed))
        is_new = state["program_cache_entries"] > before
        told = [
            buffer["address"] for buffer in _of_one_device(placed) if _is_local_circular(buffer)
        ]
        # A mesh compiles the programs of its devices in threads, into which a capture does not see.
        several = self._calls.device.get_num_devices() > 1
        unseen = is_new and has_circular and not told and several
        state["circular"] = None if unseen else told
        published = is_new and has_circular
        self._note_change(fresh=published or (self._cb_is_fresh and state["error"] is None))
        return self._answer(state, wanted)

    def _dispatch_op(self, step: Operate, placed: list[CoreBuffer]) -> Any:
        made: list[Any] = []

        def work() -> None:
            made.append(self._calls.operate(step, self._tensors[step.input]))

        placed += core_buffers(self._ttnn, work, dispatched=True)
        return made.pop()

    def _dispatch_program(self, step: Launch, placed: list[CoreBuffer]) -> None:
        def work() -> None:
            self._calls.launch(step, self._tensors)

        placed += core_buffers(self._ttnn, work, dispatched=True)

    def _note_change(self, *, fresh: bool) -> None:
        self._cb_is_fresh = fresh
        self._changed_at = time.monotonic()

    def _state(self, address: int | None = None, error: str | None = None) -> State:
        seen = views(self._ttnn, self._calls.device)
        return State(
            address=address,
            error=error,
            circular=[],
            program_cache_entries=seen["program_cache_entries"],
            kinds={kind: seen["kinds"][kind] for kind in KINDS},
        )

    def _answer(self, state: State | None = None, wanted: list[CoreBuffer] | None = None) -> Answer:
        return Answer(
            state=state or self._state(), wanted=wanted or [], cb_is_fresh=self._cb_is_fresh
        )


def _key(step: Operate) -> Hashable:
    return step.op, step.operand, step.output


def _of_one_device(buffers: list[CoreBuffer]) -> list[CoreBuffer]:
    """A mesh tells of each buffer once for every device."""
    return [buffer for buffer in buffers if buffer["device_id"] == buffers[0]["device_id"]]


def _is_local_circular(buffer: CoreBuffer) -> bool:
    return buffer["kind"] == "circular_buffer" and not buffer["borrowed"]


# -- How each step is said in ttnn


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
        buffers = [self._buffer(index, place, tensors) for index, place in enumerate(step.places)]
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
