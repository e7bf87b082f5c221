"""Applications for the model, by name: short scripts, seeded and repeatable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.model.dispatch import MeshDevice
from ttmem.model.workloads import applications
from ttmem.model.workloads.applications import SCALES, Scale, Steps

__all__ = ["SCALES", "WORKLOADS", "ModelWorkload", "Scale", "Steps", "workload"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelWorkload:
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
    workload.name: workload
    for workload in (
        ModelWorkload(
            "transformer",
            "prefill and traced decode, data parallel: warm-up fills the program cache, then memory is constant",
            applications.transformer,
            mesh=(1, 4),
        ),
        ModelWorkload(
            "cnn",
            "convolutions on sharded L1 tensors, with halo tables in L1_SMALL",
            applications.cnn,
        ),
        ModelWorkload(
            "serving",
            "requests come and go, and the KV cache grows and shrinks with them; try --processes 3",
            applications.serving,
            shared=True,
        ),
        ModelWorkload(
            "shapes",
            "every step has a new shape, so the program cache keeps growing",
            applications.shapes,
        ),
        ModelWorkload("leak", "leaks one tensor per step, until DRAM is full", applications.leak),
        ModelWorkload(
            "clash",
            "L1 buffers accumulate until they clash with circular buffers",
            applications.clash,
        ),
        ModelWorkload(
            "oom-fragmented",
            "half of DRAM is free, but fragmented: a large buffer does not fit",
            applications.oom_fragmented,
        ),
        ModelWorkload(
            "galaxy",
            "32 chips, each with a part of every layer",
            applications.galaxy,
            mesh=(8, 4),
            board="galaxy",
        ),
    )
}


def workload(name: str) -> ModelWorkload:
    found = WORKLOADS.get(name)
    if found is None:
        known = ", ".join(WORKLOADS)
        raise BadInput(f"unknown workload {short_repr(name)}; use one of: {known}")
    return found
