"""The kernel-config ring: where in L1 each launch puts its configuration and kernel text.

Like the runtime's WorkerConfigBufferMgr. There is one ring per core type, and two that count
launch messages instead of bytes; each has a table of 8 entries, of which one stays empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.errors import BadInput
from ttmem.hw import Arch, DeviceSpec
from ttmem.model.core_ranges import CoreType

ENTRIES = 8
# One of the 8 launch messages is reserved for the watcher; unicast needs just a flag.
MULTICAST_MESSAGES = 7
UNICAST_MESSAGES = 1

_ETH_RINGS = {Arch.WORMHOLE: (640, 25_600), Arch.BLACKHOLE: (26_624, 26_624)}
_ETH_BASES = {
    ("0.78-dev", Arch.WORMHOLE): (258_336, 32_240),
    ("0.81.1", Arch.WORMHOLE): (258_336, 32_368),
    ("0.78-dev", Arch.BLACKHOLE): (62_256, 64_816),
    ("0.81.1", Arch.BLACKHOLE): (62_256, 64_944),
}


def ring_sizes(spec: DeviceSpec) -> tuple[int, ...]:
    """Bytes per core, by core type."""
    return (spec.ring_per_core, *_ETH_RINGS[spec.arch])


def ring_bases(spec: DeviceSpec) -> tuple[int, ...]:
    """Where the rings begin in the L1 of a core, by core type."""
    return (spec.l1_map.kernel_config_base, *_ETH_BASES[spec.l1_map.version, spec.arch])


class Entry(NamedTuple):
    """A slot that may be overwritten once `sync_count` workers have completed."""

    address: int
    size: int
    sync_count: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one launch goes; `sync_count` workers must have completed first."""

    addresses: tuple[int, ...]
    sync_count: int | None
    stall_first: bool
    stall_before_program: bool


class _Ring:
    def __init__(self, base: int, size: int, *, at_base: bool) -> None:
        self.base = base
        self.end = base + size
        self.at_base = at_base
        self.live: list[Entry] = []
        self.next = base
        self.reserved = (base, 0)

    def reserve(self, size: int) -> int | None:
        """Picks a slot; returns the sync count that it needs, if any."""
        address, sync_count = self._pick(size)
        self.reserved = (address, size)
        return sync_count

    def _pick(self, size: int) -> tuple[int, int | None]:
        if size == 0:
            return self.next, None
        if size > self.end - self.base:
            raise BadInput(f"{size} bytes do not fit in a ring of {self.end - self.base}")
        if not self.live:
            return self.base, None
        if self.at_base:
            return self.base, self.live[0].sync_count
        return self._pick_among_live(size)

    def _pick_among_live(self, size: int) -> tuple[int, int | None]:
        for oldest, entry in enumerate(self.live):
            address = self.next
            end = self.end if address >= entry.address + entry.size else entry.address
            if address + size > end and end == self.end:
                address, end = self.base, entry.address
            if address + size <= end:
                full = len(self.live) - oldest == ENTRIES - 1
                return address, entry.sync_count if full else None
            if oldest + 1 == len(self.live):
                break
            following = self.live[oldest + 1].address
            if address + size <= (self.end if address >= following else following):
                return address, entry.sync_count
        return self.base, self.live[-1].sync_count

    def free(self, completed: int) -> None:
        while self.live and self.live[0].sync_count <= completed:
            del self.live[0]

    def alloc(self, sync_count: int) -> None:
        address, size = self.reserved
        if size:
            self.live.append(Entry(address, size, sync_count))
            self.next = address + size

    def fill(self, sync_count: int) -> None:
        self.live = [Entry(self.base, self.end - self.base, sync_count)]
        self.next = self.end


class KernelConfigRing:
    """The rings of one command queue; addresses are relative unless bases are given."""

    def __init__(self, size_per_core_type: Sequence[int], bases: Sequence[int] = ()) -> None:
        sizes = tuple(size_per_core_type)
        self._rings = [
            _Ring(base, size, at_base=index == CoreType.ACTIVE_ETH)
            for index, (base, size) in enumerate(
                zip(bases or (0,) * len(sizes), sizes, strict=True)
            )
        ]
        self._rings.append(_Ring(0, MULTICAST_MESSAGES, at_base=False))
        self._rings.append(_Ring(0, UNICAST_MESSAGES, at_base=False))
        self.expected_workers = 0
        self.wraps = 0
        self.syncs = 0

    @property
    def occupied(self) -> int:
        """Bytes of live slots on each Tensix core."""
        return sum(entry.size for entry in self._rings[CoreType.TENSIX].live)

    @property
    def live_entries(self) -> int:
        return len(self._rings[CoreType.TENSIX].live)

    @property
    def live_messages(self) -> int:
        return len(self._rings[-2].live)

    def live_slots(self, ring: int = CoreType.TENSIX) -> tuple[Entry, ...]:
        """Oldest first; -2 and -1 are the launch messages."""
        return tuple(self._rings[ring].live)

    def reserve(self, sizes: Sequence[int]) -> list[int | None]:
        """The sync count that each ring needs, if any."""
        return [ring.reserve(size) for ring, size in zip(self._rings, sizes, strict=True)]

    def free(self, completed: int) -> None:
        """Frees all slots that this many completed workers no longer need."""
        for ring in self._rings:
            ring.free(completed)

    def alloc(self, sync_count: int) -> None:
        """Takes what was reserved last."""
        for ring in self._rings:
            ring.alloc(sync_count)

    def mark_completely_full(self, sync_count: int | None = None) -> None:
        """After a trace replay the contents are unknown; `count`, if given, is the new sync count."""
        if sync_count is not None:
            self.expected_workers = sync_count
        for ring in self._rings:
            ring.fill(self.expected_workers)

    def launch(self, sizes: Sequence[int], num_workers: int, in_flight: bool) -> Slot:
        """Reserve, free, alloc, as the runtime does; `num_workers` are all of the sub-device."""
        needed = self.reserve(sizes)
        sync_count = max((count for count in needed if count is not None), default=None)
        # Only launch messages are scarce, so the runtime arguments can be written before the wait.
        in_memory = any(count is not None for count in needed[:-2])
        stall_before_program = sync_count is not None and not in_memory
        if in_flight:
            # Binaries are being written to DRAM: everything before must finish, so the whole ring is free.
            sync_count, stall_before_program = self.expected_workers, False
        self._count(sync_count)
        if sync_count is not None:
            self.free(sync_count)
        self.expected_workers += num_workers
        self.alloc(self.expected_workers)
        stall_first = sync_count is not None and not stall_before_program
        addresses = tuple(ring.reserved[0] for ring in self._rings[:-2])
        return Slot(addresses, sync_count, stall_first, stall_before_program)

    def _count(self, sync_count: int | None) -> None:
        tensix = self._rings[CoreType.TENSIX]
        address, size = tensix.reserved
        self.wraps += bool(size and tensix.live and address < tensix.next)
        self.syncs += sync_count is not None
