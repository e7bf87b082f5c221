"""Runs the steps of scripts on the real runtime, inside the process that has it loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.ttnn.bench.answers import CoreBuffer
from tests.ttnn.bench.child.views import core_buffers, views
from tests.ttnn.scripts.runtime_calls import RuntimeCalls
from tests.ttnn.scripts.states import KINDS, Answer, State, fault_text
from tests.ttnn.scripts.steps import Allocate, ClearCache, Free, Launch, Operate, from_plain

# The runtime publishes its circular buffers at most every 100 ms, and what it leaves out it does not make up for.
PUBLISHING_PAUSE_S = 0.12


class Runner:
    """One device at a time. A step that names a tensor which is not there does nothing."""

    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self._calls = RuntimeCalls(ttnn)
        self._tensors: dict[str, Any] = {}
        self._cb_is_fresh = True
        self._changed_at = 0.0

    def open(self, shape: list[int], sizes: dict[str, int]) -> Answer:
        """Closes the device that was open before, and with it all that was there."""
        self.close()
        self._calls.open(shape, sizes)
        self._cb_is_fresh = True
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

    def _enqueue(self, step: Operate | Launch) -> Answer:
        time.sleep(max(0.0, self._changed_at + PUBLISHING_PAUSE_S - time.monotonic()))
        before = self._calls.device.num_program_cache_entries()
        work = self._calls.work(step, self._tensors)
        made: list[Any] = []
        placed: list[CoreBuffer] = []

        def dispatch() -> Any:
            placed.extend(core_buffers(self._ttnn, lambda: made.append(work()), dispatched=True))
            return made.pop()

        state = self._keep(step.name if isinstance(step, Operate) else None, dispatch)
        wanted = _of_one_device(core_buffers(self._ttnn, work))
        is_new = state["program_cache_entries"] > before
        places_circular = is_new and any(map(_is_local_circular, wanted))
        told = [one["address"] for one in _of_one_device(placed) if _is_local_circular(one)]
        # A mesh compiles the programs of its devices in threads, into which a capture does not see.
        unseen = places_circular and not told and self._calls.device.get_num_devices() > 1
        state["circular"] = None if unseen else told
        self._note_change(fresh=places_circular or (self._cb_is_fresh and state["error"] is None))
        return self._answer(state, wanted)

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


def _of_one_device(buffers: list[CoreBuffer]) -> list[CoreBuffer]:
    """A mesh tells of each buffer once for every device."""
    return [one for one in buffers if one["device_id"] == buffers[0]["device_id"]]


def _is_local_circular(buffer: CoreBuffer) -> bool:
    return buffer["kind"] == "circular_buffer" and not buffer["borrowed"]
