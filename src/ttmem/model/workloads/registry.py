"""The workloads by name, what each shows, and the board it runs on by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.model.mesh import MeshDevice
from ttmem.model.workloads import (
    clash,
    cnn,
    galaxy,
    leak,
    oom_fragmented,
    serving,
    shapes,
    transformer,
)
from ttmem.model.workloads.scale import Scale, Steps

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    """`run` is a generator. Each yield ends a step, with a message if there is something to report."""

    name: str
    about: str
    run: Callable[[MeshDevice, Random, Scale], Steps]
    mesh: tuple[int, int] = (1, 1)
    board: str = "p150"
    # The same for all: two processes that open one device must agree on its regions.
    l1_small_size: int = 32 * 1024
    trace_region_size: int = 64 * MIB
    shared: bool = False  # several processes use the same chips; else each has its own


WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            "transformer",
            "prefill and traced decode, data parallel: warm-up fills the program cache, then memory is constant",
            transformer.run,
            mesh=(1, 4),
        ),
        Workload(
            "cnn",
            "convolutions on sharded L1 tensors, with halo tables in L1_SMALL",
            cnn.run,
        ),
        Workload(
            "serving",
            "requests come and go, and the KV cache grows and shrinks with them; try --processes 3",
            serving.run,
            shared=True,
        ),
        Workload(
            "shapes", "every step has a new shape, so the program cache keeps growing", shapes.run
        ),
        Workload("leak", "leaks one tensor per step, until DRAM is full", leak.run),
        Workload(
            "clash", "L1 buffers accumulate until they clash with circular buffers", clash.run
        ),
        Workload(
            "oom-fragmented",
            "half of DRAM is free, but fragmented: a large buffer does not fit",
            oom_fragmented.run,
        ),
        Workload(
            "galaxy",
            "32 chips, each with a part of every layer",
            galaxy.run,
            mesh=(8, 4),
            board="galaxy",
        ),
    )
}


def workload(name: str) -> Workload:
    found = WORKLOADS.get(name)
    if found is None:
        known = ", ".join(WORKLOADS)
        raise BadInput(f"unknown workload {short_repr(name)}; use one of: {known}")
    return found
