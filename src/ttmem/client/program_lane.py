"""The live programs of one device, with their kernels, circular buffers, status and counters."""

from __future__ import annotations

from itertools import chain
from typing import TypeAlias

from ttmem.client.records import COUNT, EXTRA, MOST_32, SIZE, Room, number, with_count
from ttmem.events import Event, Flag, Op

# What tells circular buffers of one address apart; equal ones stack: program, number of the core
# set, flags, bytes over all cores, bytes per core. A plain tuple, because each event makes one.
CbKey: TypeAlias = tuple[int, int, int, int, int]

_CACHE_HIT, _CACHE_MISS = int(Flag.CACHE_HIT), int(Flag.CACHE_MISS)
_GLOBAL = int(Flag.GLOBAL)


class Program:
    """What goes when the program is destroyed."""

    __slots__ = ("circular_buffers", "had_kernels", "kernels", "status")

    def __init__(self) -> None:
        self.circular_buffers: set[tuple[int, CbKey]] = set()
        self.kernels: set[int] = set()
        self.status: bytes | None = None
        self.had_kernels = False


class ProgramLane:
    """All programs of one device. Each public method but `alive` applies one event."""

    __slots__ = (
        "cache_entries",
        "circular_buffers",
        "device",
        "dispatches",
        "hits",
        "kernels",
        "loads",
        "misses",
        "programs",
        "ring",
        "room",
        "streaming",
        "unloads",
    )

    def __init__(self, device: int, room: Room, streaming: bool) -> None:
        self.device = device
        self.room = room
        self.streaming = streaming
        self.circular_buffers: dict[int, dict[CbKey, bytes]] = {}
        self.kernels: dict[int, bytes] = {}
        self.programs: dict[int, Program] = {}
        self.loads = self.unloads = self.dispatches = self.hits = self.misses = 0
        self.ring: bytes | None = None
        self.cache_entries: bytes | None = None

    def allocate_cb(self, record: bytes, address: int, key: CbKey) -> None:
        """CB_ALLOC; equal ones stack."""
        entries = self.circular_buffers.get(address)
        if entries is not None and key in entries:
            known = entries[key]
            entries[key] = with_count(known, number(known, COUNT) + 1)
            return
        program_id = key[0]
        if not self._has_room_in(program_id):
            return
        if entries is None:
            entries = self.circular_buffers[address] = {}
        entries[key] = record
        if program_id:
            self.programs[program_id].circular_buffers.add((address, key))

    def free_cb(self, address: int, key: CbKey) -> CbKey:
        """CB_FREE; returns what was freed, or the key itself if no such thing is alive."""
        entries = self.circular_buffers.get(address)
        found = _find(entries, key) if entries else None
        if entries is None or found is None:
            return key
        known = entries[found]
        count = number(known, COUNT)
        if count > 1:
            entries[found] = with_count(known, count - 1)
            return found
        self._forget_cb(address, found)
        program_id = found[0]
        if program_id:
            self.programs[program_id].circular_buffers.discard((address, found))
            self._drop_if_bare(program_id)
        return found

    def load_kernel(self, record: bytes, kernel_id: int, program_id: int) -> None:
        """KERNEL_LOAD; of a live id it is a dispatch."""
        known = self.kernels.get(kernel_id)
        if known is not None:
            if _footprint(known) == _footprint(record):
                self.dispatches += 1
                return
            self._forget_kernel(kernel_id)
        self.loads += 1
        if not self._has_room_in(program_id):
            return
        self.kernels[kernel_id] = record
        if program_id:
            program = self.programs[program_id]
            program.kernels.add(kernel_id)
            program.had_kernels = True

    def unload_kernel(self, _: bytes, kernel_id: int) -> None:
        """KERNEL_UNLOAD."""
        if kernel_id in self.kernels:
            self.unloads += 1
            self._forget_kernel(kernel_id)

    def set_status(self, record: bytes, program_id: int) -> None:
        """BINARY_STATUS: the last one counts."""
        if program_id and (program_id in self.programs or self._add_program(program_id)):
            self.programs[program_id].status = record

    def dispatch(self, _: bytes, flags: int) -> None:
        """PROGRAM_DISPATCH."""
        self.dispatches += 1
        if flags & _CACHE_HIT:
            self.hits += 1
        elif flags & _CACHE_MISS:
            self.misses += 1

    def destroy(self, _: bytes, program_id: int) -> None:
        """PROGRAM_DESTROY: its kernels and circular buffers go with it."""
        program = self.programs.pop(program_id, None)
        if program is None:
            return
        for address, key in program.circular_buffers:
            self._forget_cb(address, key)
        for kernel_id in program.kernels:
            del self.kernels[kernel_id]
        self.unloads += len(program.kernels)
        self.room.free += 1 + len(program.kernels)

    def set_ring(self, record: bytes) -> None:
        """RING: the last one counts."""
        self.ring = record

    def set_cache_entries(self, record: bytes) -> None:
        """CACHE_ENTRIES: the last one counts."""
        self.cache_entries = record

    def alive(self) -> list[bytes]:
        """Everything to be sent again; status and counters speak of what comes before them."""
        records = list(chain.from_iterable(map(dict.values, self.circular_buffers.values())))
        records += self.kernels.values()
        statuses = (program.status for program in self.programs.values())
        gauges = (self.ring, self.cache_entries)
        records += (record for record in chain(statuses, gauges) if record is not None)
        records.append(self._counters())
        return records

    def _counters(self) -> bytes:
        return Event(
            Op.COUNTERS,
            device=self.device,
            id=self.loads,
            size=self.unloads,
            extra=self.dispatches,
            address=self.hits,
            count=min(self.misses, MOST_32),
        ).pack()

    def _has_room_in(self, program_id: int) -> bool:
        if program_id and program_id not in self.programs and not self._add_program(program_id):
            return False
        return self.room.take()

    def _add_program(self, program_id: int) -> bool:
        if not self.room.take():
            return False
        self.programs[program_id] = Program()
        return True

    def _forget_cb(self, address: int, key: CbKey) -> None:
        entries = self.circular_buffers[address]
        del entries[key]
        if not entries:
            del self.circular_buffers[address]
        self.room.free += 1

    def _forget_kernel(self, kernel_id: int) -> None:
        program_id = number(self.kernels.pop(kernel_id), EXTRA)
        self.room.free += 1
        if program_id:
            self.programs[program_id].kernels.discard(kernel_id)
            self._drop_if_bare(program_id)

    def _drop_if_bare(self, program_id: int) -> None:
        program = self.programs[program_id]
        bare = not program.kernels and not program.circular_buffers
        if bare and (program.had_kernels or program.status is None):
            del self.programs[program_id]
            self.room.free += 1


def _footprint(record: bytes) -> int:
    return number(record, SIZE) * (number(record, COUNT) or 1)


def _find(entries: dict[CbKey, bytes], key: CbKey) -> CbKey | None:
    """What a free means: callers do not say whether it is global, and some name no cores."""
    if key in entries:
        return key
    program, cores, flags, total, per_core = key
    as_global = (program, cores, flags | _GLOBAL, total, per_core)
    if as_global in entries:
        return as_global
    for known in reversed(entries):
        same_size = total in (0, known[3]) or total == per_core == known[4]
        if same_size and program in (0, known[0]):
            return known
    return None
