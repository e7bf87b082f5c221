"""Applications for the model: short scripts, seeded and repeatable."""

from ttmem.model.workloads.registry import WORKLOADS, Workload, workload
from ttmem.model.workloads.scale import SCALES, Scale, Steps

__all__ = ["SCALES", "WORKLOADS", "Scale", "Steps", "Workload", "workload"]
