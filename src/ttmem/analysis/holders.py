"""Buffers grouped by the op and the line that made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttmem.analysis.process_picture import Holding, Origin


@dataclass(frozen=True, slots=True)
class Holder:
    """All buffers of one kind from one place."""

    kind: int
    origin: Origin
    count: int
    bytes: int
    chips: tuple[int, ...]


def on_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holding]:
    """What one kind of memory of one chip holds."""
    return [one for one in holdings if one.kind == kind and chip in one.chips]


def on_one_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holder]:
    """The holders of one kind of memory of one chip, largest first."""
    return _grouped((one, one.held) for one in on_chip(holdings, kind, chip))


def on_all_chips(holdings: Iterable[Holding]) -> list[Holder]:
    """The holders of everything, on all chips together, largest first."""
    return _grouped((one, one.held * len(one.chips)) for one in holdings)


def _grouped(weighed: Iterable[tuple[Holding, int]]) -> list[Holder]:
    groups: dict[tuple[int, Origin], list[tuple[Holding, int]]] = {}
    for holding, size in weighed:
        groups.setdefault((holding.kind, holding.origin), []).append((holding, size))
    holders = [
        Holder(
            kind,
            origin,
            len(members),
            sum(size for _, size in members),
            tuple(sorted({chip for holding, _ in members for chip in holding.chips})),
        )
        for (kind, origin), members in groups.items()
    ]
    return sorted(holders, key=lambda holder: holder.bytes, reverse=True)
