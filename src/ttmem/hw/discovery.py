"""Which board a chip is on, and what it has: from a cluster descriptor, the user-mode driver, sysfs or its unique id.

Board, harvesting and runtime version can be found from outside the process that opened the device. How it opened the
device cannot: nothing publishes its `dispatch_core_config` and `worker_l1_size`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass
from ttmem.hw.arch import Dispatch
from ttmem.hw.boards import Board, board_of_unique_id, is_remote_chip
from ttmem.hw.cards import Card, cards
from ttmem.hw.l1_map import NEWEST
from ttmem.hw.runtimes import Environment, Environments
from ttmem.hw.spec import DeviceSpec, device_spec

if TYPE_CHECKING:
    from ttmem.hw.descriptor import Chip, Cluster
    from ttmem.hw.umd import Discovery

_MAX_KNOWN = 1024
# Processes name descriptors in their environment, including those of other users. 32 chips take 20 KiB and 0.15 s to
# parse; one crafted to be slow takes 1 s. So each user's descriptors get at most a twentieth of the time.
# Those not seen before may take half a second in advance: `ps` looks only once, and jobs have descriptors of their own.
LARGEST = 128 << 10
_SHARE = 20
_IN_ADVANCE_S = 0.5

_FileState = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Discovered:
    """`source` is one of 'cluster descriptor', 'umd', 'sysfs', 'unique id'.

    `board` is set if only the board is known: `spec` then assumes its usual harvesting.
    """

    spec: DeviceSpec
    source: str
    environment: Environment | None
    pci: str | None = None
    remote: bool | None = None
    position: str | None = None
    board: Board | None = None


class Capacities:
    """Asks the sources in that order, and remembers the answer until a better source has one."""

    def __init__(
        self,
        descriptor: str | None = None,
        *,
        sysfs: str | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._sysfs = sysfs
        self._discovery = discovery  # opt-in, because it accesses the chips
        self._can_discover: bool | None = None
        self._cards: tuple[Card, ...] | None = None
        self._descriptors = Descriptors()
        self._environments = Environments()
        self._known: dict[int, tuple[Cluster | None, Environment | None, Discovered | None]] = {}
        self._last: dict[int, Environment] = {}

    def of(self, number: int, processes: Iterable[tuple[int, int | None]]) -> Discovered | None:
        """`processes` are those that use the chip: (pid, start time). The same object until something changes."""
        environment = self._environment(number, processes)
        cluster = self._described(environment)
        source = "cluster descriptor"
        if cluster is None or chip_of(cluster, number) is None:
            cluster, source = self._discovered(), "umd"
        known = self._known.get(number)
        if known is None or known[0] is not cluster or known[1] != environment:
            found = self._find(number, environment, cluster, source)
            known = self._known[number] = (cluster, environment, found)
        return known[2]

    def forget_all_but(self, numbers: Container[int]) -> None:
        """Bounds the memory used for chips that come and go."""
        remembered: dict[int, Any]
        for remembered in (self._known, self._last):
            for number in [number for number in remembered if number not in numbers]:
                del remembered[number]

    def _environment(
        self, number: int, processes: Iterable[tuple[int, int | None]]
    ) -> Environment | None:
        """That of the first process whose environment is readable, else the last one known."""
        for pid, started_ns in processes:
            found = self._environments.of(pid, started_ns)
            if found is not None:
                self._last[number] = found
                break
        return self._last.get(number)

    def _described(self, environment: Environment | None) -> Cluster | None:
        if self._descriptor:
            return self._descriptors.read(self._descriptor)
        if environment is None or environment.descriptor is None:
            return None
        return self._descriptors.read(environment.descriptor, LARGEST, environment.uid)

    def _discovered(self) -> Cluster | None:
        if self._discovery is None:
            return None
        if self._can_discover is None:
            self._can_discover = self._discovery.is_possible()
        return self._discovery.cluster() if self._can_discover else None

    def _find(
        self, number: int, environment: Environment | None, cluster: Cluster | None, source: str
    ) -> Discovered | None:
        slow = environment is not None and environment.slow_dispatch
        dispatch = Dispatch.SLOW if slow else None
        version = (environment and environment.ttnn) or NEWEST
        chip = None if cluster is None else chip_of(cluster, number)
        try:
            if chip is not None:
                spec = device_spec(chip.board, dispatch=dispatch, version=version)
                return Discovered(
                    spec, source, environment, chip.pci, chip.is_remote, chip.position
                )
            card, pci = self._card(number), None
            if card is not None and card.board is not None:
                source, board, remote = "sysfs", card.board, card.is_remote(number)
                pci = card.pci if card.is_the_chip(number) else None
            else:
                found = board_of_unique_id(number)
                if found is None:
                    return None
                source, board, remote = "unique id", found, is_remote_chip(number, found)
            spec = _usual(board, dispatch, version)
            return Discovered(spec, source, environment, pci, remote, board=board)
        except BadInput:
            pass  # no product has this harvesting, so nothing is known
        return None

    def _card(self, number: int) -> Card | None:
        if self._cards is None:
            self._cards = cards(self._sysfs)
        fitting = [card for card in self._cards if card.has(number)]
        exact = [card for card in fitting if card.asic_id == number]
        return next(iter(exact or fitting), None)


@lru_cache(maxsize=64)
def _usual(board: Board, dispatch: Dispatch | None, version: str) -> DeviceSpec:
    """With the usual harvesting: the same for all chips of a Galaxy."""
    return device_spec(board, dispatch=dispatch, version=version)


class Descriptors:
    """Parsed cluster descriptors. One that cannot be read is None until its file changes."""

    def __init__(self) -> None:
        self._parsed: dict[_FileState, Cluster | None] = {}
        self._latest: dict[str, Cluster | None] = {}
        self._not_before: dict[int | None, float] = {}

    def read(self, path: str, largest: int | None = None, uid: int | None = None) -> Cluster | None:
        """One that our own user gave has no limit. Keeps the last result if the file disappears with its process."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return self._latest.get(path)
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if state not in self._parsed:
            advance = 0.0 if path in self._latest else _SHARE * _IN_ADVANCE_S
            due = self._not_before.get(uid, 0) - advance
            if largest is not None and time.monotonic() < due:
                return self._latest.get(path)
            self._parse(path, state, largest, uid)
        if len(self._latest) >= _MAX_KNOWN:
            self._latest.clear()
        self._latest[path] = self._parsed[state]
        return self._parsed[state]

    def _parse(self, path: str, state: _FileState, largest: int | None, uid: int | None) -> None:
        if len(self._parsed) >= _MAX_KNOWN:
            self._parsed.clear()
        from ttmem.hw.descriptor import read_cluster  # most hosts name none, and need none of it

        begun = time.thread_time()  # not the clock: on a busy machine it counts the work of others
        try:
            self._parsed[state] = (
                read_cluster(path) if largest is None else read_cluster(path, largest)
            )
        except BadInput:
            self._parsed[state] = None
        due = max(time.monotonic(), self._not_before.get(uid, 0))
        self._not_before[uid] = due + _SHARE * (time.thread_time() - begun)


def chip_of(cluster: Cluster, number: int) -> Chip | None:
    """The chip whose counter file has that number. Without unique ids the runtime uses logical ones."""
    if any(chip.unique_id is not None for chip in cluster.chips):
        return cluster.by_unique_id(number)
    return next((chip for chip in cluster.chips if chip.logical_id == number), None)
