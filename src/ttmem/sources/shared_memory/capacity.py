"""What a device has, from the best source that knows: no region carries a capacity."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration, Owner, ProcessSample
from ttmem.hw import Board, Cluster, DeviceSpec, Dispatch, device_spec
from ttmem.hw.board_ids import board_of_unique_id
from ttmem.sources.shared_memory.cards import FOLDER, Card, cards
from ttmem.sources.shared_memory.descriptors import Descriptors, chip_of
from ttmem.sources.shared_memory.environments import Environment, Environments
from ttmem.sources.shared_memory.umd import Discovery

_SHARED = "trace regions and L1_SMALL are inside DRAM and L1: how they are split is not published"
_USUAL = "harvesting as usual for the board"


@dataclass(frozen=True, slots=True)
class Capacity:
    """`source` is one of 'cluster descriptor', 'umd', 'sysfs', 'unique id', or None."""

    declaration: DeviceDeclaration | None = None
    source: str | None = None


class Capacities:
    """Asks in that order; the answers are remembered until a better source speaks."""

    def __init__(
        self,
        descriptor: str | None = None,
        *,
        sysfs: str = FOLDER,
        discovery: Discovery | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._sysfs = sysfs
        self._discovery = discovery or Discovery()
        self._can_discover: bool | None = None
        self._cards: tuple[Card, ...] | None = None
        self._descriptors = Descriptors()
        self._environments = Environments()
        self._known: dict[int, tuple[Cluster | None, bool, int, Capacity]] = {}
        self._last: dict[int, Environment] = {}

    def of(self, number: int, logical_id: int, processes: Iterable[ProcessSample]) -> Capacity:
        environment = self._environment(number, processes)
        path = self._descriptor or (environment and environment.descriptor)
        cluster = self._descriptors.read(path) if path else None
        source = "cluster descriptor"
        if cluster is None or chip_of(cluster, number) is None:
            cluster, source = self._discovered(), "umd"
        slow = environment is not None and environment.slow_dispatch
        known = self._known.get(number)
        if known is None or known[0] is not cluster or known[1:3] != (slow, logical_id):
            found = self._find(number, logical_id, slow, cluster, source)
            known = self._known[number] = (cluster, slow, logical_id, found)
        return known[3]

    def forget_all_but(self, numbers: Container[int]) -> None:
        """Regions come and go; memory must not grow with those that were."""
        remembered: dict[int, Any]
        for remembered in (self._known, self._last):
            for number in [number for number in remembered if number not in numbers]:
                del remembered[number]

    def _environment(self, number: int, processes: Iterable[ProcessSample]) -> Environment | None:
        """That of the first live process that lets us look; else what the last one had."""
        for process in processes:
            if process.owner is Owner.LIVE:
                found = self._environments.of(process.pid, process.start_time_ns)
                if found is not None:
                    self._last[number] = found
                    break
        return self._last.get(number)

    def _discovered(self) -> Cluster | None:
        if self._can_discover is None:
            self._can_discover = self._discovery.is_possible()
        return self._discovery.cluster() if self._can_discover else None

    def _find(
        self, number: int, logical_id: int, slow: bool, cluster: Cluster | None, source: str
    ) -> Capacity:
        dispatch = Dispatch.SLOW if slow else None
        try:
            chip = None if cluster is None else chip_of(cluster, number)
            if cluster is not None and chip is not None:
                spec = cluster.spec(chip, dispatch=dispatch)
                return Capacity(_declaration(spec, number, logical_id, chip.pci), source)
            card = self._card(number)
            if card is not None and card.board is not None:
                pci = card.pci if card.is_the_chip(number) else None
                return Capacity(_usual(card.board, dispatch, number, logical_id, pci), "sysfs")
            board = board_of_unique_id(number)
            if board is not None:
                return Capacity(_usual(board, dispatch, number, logical_id, None), "unique id")
        except BadInput:
            pass  # harvesting that no product has: nothing sound can be said
        return Capacity()

    def _card(self, number: int) -> Card | None:
        if self._cards is None:
            self._cards = cards(self._sysfs)
        fitting = [card for card in self._cards if card.has(number)]
        exact = [card for card in fitting if card.asic_id == number]
        return next(iter(exact or fitting), None)


def _usual(
    board: Board, dispatch: Dispatch | None, number: int, logical_id: int, pci: str | None
) -> DeviceDeclaration:
    declared = _declaration(device_spec(board, dispatch=dispatch), number, logical_id, pci)
    return replace(declared, note=f"{_USUAL}; {declared.note}")


def _declaration(
    spec: DeviceSpec, number: int, logical_id: int, pci: str | None
) -> DeviceDeclaration:
    """How the application split DRAM and L1 is unknown, so those sizes are."""
    full = DeviceDeclaration.from_spec(spec, logical_id, str(number), pci)
    return replace(
        full,
        l1_bank_size=None,
        l1_small_bank_size=None,
        trace_bank_size=None,
        note="; ".join(part for part in (spec.note, _SHARED) if part),
    )
