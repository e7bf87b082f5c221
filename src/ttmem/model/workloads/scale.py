"""How large a workload is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

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
