"""What a device has, from the best source that knows: no region carries a capacity.

Board, harvesting and the version of the runtime can be found out from outside. How a process opened
the device cannot: `dispatch_core_config` and `worker_l1_size` are arguments that nothing publishes. So
what depends on them (compute cores, the L1 that can be allocated, the kernel ring) stays unknown; what
they would be with the defaults is told apart.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration, Owner, ProcessSample
from ttmem.hw import NEWEST, Board, Cluster, DeviceSpec, Dispatch, device_spec
from ttmem.hw.boards import board_of_unique_id, is_remote_chip
from ttmem.sizes import human
from ttmem.sources.cards import Card, cards
from ttmem.sources.shared_memory.descriptors import Descriptors, chip_of
from ttmem.sources.shared_memory.environments import Environment, Environments
from ttmem.sources.umd import Discovery

_NOT_PUBLISHED = "L1 depends on dispatch_core_config and worker_l1_size, which are not published"
_SHARED = "DRAM includes the trace region"
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
        sysfs: str | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._sysfs = sysfs
        self._discovery = discovery  # it touches the chips: only who asks for it has one
        self._can_discover: bool | None = None
        self._cards: tuple[Card, ...] | None = None
        self._descriptors = Descriptors()
        self._environments = Environments()
        self._known: dict[int, tuple[Cluster | None, Environment | None, int, Capacity]] = {}
        self._last: dict[int, Environment] = {}

    def of(self, number: int, logical_id: int, processes: Iterable[ProcessSample]) -> Capacity:
        environment = self._environment(number, processes)
        cluster = self._described(environment)
        source = "cluster descriptor"
        if cluster is None or chip_of(cluster, number) is None:
            cluster, source = self._discovered(), "umd"
        known = self._known.get(number)
        if known is None or known[0] is not cluster or known[1:3] != (environment, logical_id):
            found = self._find(number, logical_id, environment, cluster, source)
            known = self._known[number] = (cluster, environment, logical_id, found)
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
            if process.owner in (Owner.LIVE, Owner.ROOT):
                found = self._environments.of(process.pid, process.start_time_ns)
                if found is not None:
                    self._last[number] = found
                    break
        return self._last.get(number)

    def _described(self, environment: Environment | None) -> Cluster | None:
        if self._descriptor:
            return self._descriptors.read(self._descriptor)
        if environment is None or environment.descriptor is None:
            return None
        return self._descriptors.read_named(environment.descriptor, environment.uid)

    def _discovered(self) -> Cluster | None:
        if self._discovery is None:
            return None
        if self._can_discover is None:
            self._can_discover = self._discovery.is_possible()
        return self._discovery.cluster() if self._can_discover else None

    def _find(
        self,
        number: int,
        logical_id: int,
        environment: Environment | None,
        cluster: Cluster | None,
        source: str,
    ) -> Capacity:
        slow = environment is not None and environment.slow_dispatch
        opened = _Opened(number, logical_id, slow, environment.ttnn if environment else None)
        try:
            chip = None if cluster is None else chip_of(cluster, number)
            if cluster is not None and chip is not None:
                spec = cluster.spec(chip, dispatch=opened.dispatch, version=opened.version)
                declared = opened.declaration(spec, chip.pci)
                place = replace(declared, remote=chip.is_remote, position=chip.position)
                return Capacity(place, source)
            card = self._card(number)
            if card is not None and card.board is not None:
                pci = card.pci if card.is_the_chip(number) else None
                declared = opened.usual(card.board, pci)
                return Capacity(replace(declared, remote=card.is_remote(number)), "sysfs")
            board = board_of_unique_id(number)
            if board is not None:
                remote = is_remote_chip(number, board)
                return Capacity(replace(opened.usual(board, None), remote=remote), "unique id")
        except BadInput:
            pass  # harvesting that no product has: nothing sound can be said
        return Capacity()

    def _card(self, number: int) -> Card | None:
        if self._cards is None:
            self._cards = cards(self._sysfs)
        fitting = [card for card in self._cards if card.has(number)]
        exact = [card for card in fitting if card.asic_id == number]
        return next(iter(exact or fitting), None)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What is known of how a device was opened."""

    number: int
    logical_id: int
    slow: bool
    ttnn: str | None

    @property
    def dispatch(self) -> Dispatch | None:
        return Dispatch.SLOW if self.slow else None

    @property
    def version(self) -> str:
        return self.ttnn or NEWEST

    def usual(self, board: Board, pci: str | None) -> DeviceDeclaration:
        """Of a board whose harvesting is not known."""
        declared = self.declaration(
            device_spec(board, dispatch=self.dispatch, version=self.version), pci
        )
        whole = device_spec(board, tensix_harvested=0)
        if board.note is None:
            return replace(declared, l1_most=whole.l1_most, note=f"{_USUAL}; {declared.note}")
        return replace(
            declared,
            l1_most=whole.l1_most,
            l1_capacity_default=None,
            note=f"{_USUAL}, but {board.note}; {declared.note}",
        )

    def declaration(self, spec: DeviceSpec, pci: str | None) -> DeviceDeclaration:
        """Without what depends on the arguments of who opened it."""
        full = DeviceDeclaration.from_spec(spec, self.logical_id, str(self.number), pci)
        return replace(
            full,
            grid=None,
            l1_banks=None,
            l1_total=None,
            l1_capacity=None,
            l1_capacity_default=spec.l1_capacity,
            l1_bank_size=None,
            l1_small_bank_size=None,
            ring_base=full.ring_base if self.ttnn else None,
            cb_base=None,
            trace_bank_size=None,
            ring_per_core=None,
            ring_capacity=None,
            note="; ".join(part for part in (spec.note, self._l1_in_words(spec), _SHARED) if part),
        )

    def _l1_in_words(self, spec: DeviceSpec) -> str:
        ttnn = f"ttnn {self.ttnn}" if self.ttnn else f"ttnn, if it is {NEWEST},"
        default = f"{human(spec.l1_capacity)} ({spec.l1_capacity:,} B)"
        slow = " under slow dispatch" * self.slow
        return f"{_NOT_PUBLISHED}; with the defaults of {ttnn} it is {default}{slow}"
