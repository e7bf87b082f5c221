"""The live programs of one device: their circular buffers, kernels, status and counters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain, islice, starmap
from typing import TypeAlias

from ttmem.client.records import HIGH, MOST_32, WORDS, Room, head, with_count
from ttmem.events import Flag, Op

# What tells circular buffers apart; equal ones stack: address, program, core set, flags, size.
CbKey: TypeAlias = tuple[int, int, int, int, int]

# Applies an event, given first word, id and record; returns another record if it must change.
Handler: TypeAlias = Callable[[int, int, bytes], bytes | None]

MOST_SEARCHED = 1024  # circular buffers at one address, as in the ledger
MOST_DISPATCHED = 1024  # programs whose last dispatch is remembered

_GLOBAL = head(0, 0, Flag.GLOBAL)
_CB_FLAGS = head(0, 0, Flag.GLOBAL | Flag.DATAFLOW)
_CACHE_HIT, _CACHE_MISS = head(0, 0, Flag.CACHE_HIT), head(0, 0, Flag.CACHE_MISS)


class LivePrograms:
    """All programs of one device; program 0 is no program."""

    def __init__(self, device: int, room: Room, core_counts: list[int]) -> None:
        self._device = device
        self._room = room
        self._core_counts = core_counts  # by number of the core set
        self._circular_buffers: dict[int, dict[CbKey, bytes]] = {}  # by program
        self._stacked: dict[CbKey, int] = {}  # how many, of those that are several
        self._by_address: dict[int, dict[CbKey, None]] | None = None  # made when it is needed
        self._kernels: dict[int, tuple[bytes, int, int]] = {}  # record, program, footprint
        self._kernels_of: dict[int, set[int]] = {}  # by program
        self._statuses: dict[int, bytes] = {}  # by program
        self._last_dispatches: OrderedDict[int, bytes | None] = OrderedDict()  # by program
        self._ring: bytes | None = None
        self._cache_entries: bytes | None = None
        self._loads = self._unloads = self._dispatches = self._hits = self._misses = 0
        self.handlers: dict[int, Handler] = {
            Op.CB_ALLOC: self._allocate_cb,
            Op.CB_FREE: self._free_cb,
            Op.KERNEL_LOAD: self._load_kernel,
            Op.KERNEL_UNLOAD: self._unload_kernel,
            Op.PROGRAM_DISPATCH: self._dispatch,
            Op.PROGRAM_DESTROY: self._destroy,
            Op.BINARY_STATUS: self._set_status,
            Op.RING: self._set_ring,
            Op.CACHE_ENTRIES: self._set_cache_entries,
        }

    def alive(self) -> list[bytes]:
        """Everything to be sent again; status and counters speak of what comes before them."""
        records = list(chain.from_iterable(map(dict.values, self._circular_buffers.values())))
        records += (record for record, _, _ in self._kernels.values())
        records += self._statuses.values()
        records += starmap(self._dispatched, self._last_dispatches.items())
        records += (record for record in (self._ring, self._cache_entries) if record is not None)
        records.append(self._counters())
        return records

    def _counters(self) -> bytes:
        first = head(Op.COUNTERS) | self._device << HIGH
        misses = min(self._misses, MOST_32)
        return WORDS.pack(
            first, 0, self._loads, self._unloads, self._dispatches, self._hits, misses, 0
        )

    def _allocate_cb(self, first: int, address: int, record: bytes) -> None:
        _, _, _, size, program, _, word, _ = WORDS.unpack(record)
        key = (address, program, word >> HIGH, first & _CB_FLAGS, size)
        entries = self._circular_buffers.get(program)
        if entries is None:
            entries = self._circular_buffers[program] = {}
        if entries.setdefault(key, record) is not record:
            self._stacked[key] = self._stacked.get(key, 1) + 1
            entries[key] = with_count(entries[key], self._stacked[key])
        elif not self._room.take():
            del entries[key]
        elif self._by_address is not None:
            self._by_address.setdefault(address, {})[key] = None

    def _free_cb(self, first: int, address: int, record: bytes) -> bytes | None:
        _, _, _, size, program, _, word, _ = WORDS.unpack(record)
        key = (address, program, word >> HIGH, first & _CB_FLAGS, size)
        entries = self._circular_buffers.get(program)
        if entries is not None and key in entries:
            self._free_one_cb(entries, key)
            return None
        found = self._find_cb(*key)
        if found is None:
            return None
        self._free_one_cb(self._circular_buffers[found[1]], found)
        return _naming(record, found)

    def _find_cb(
        self, address: int, program: int, cores: int, flags: int, size: int
    ) -> CbKey | None:
        """What a free means that leaves out its program, its cores, or whether it is global."""
        if self._by_address is None:
            self._by_address = {}
            for key in chain.from_iterable(self._circular_buffers.values()):
                self._by_address.setdefault(key[0], {})[key] = None
        keys = self._by_address.get(address, {})
        as_global = (address, program, cores, flags | _GLOBAL, size)
        if as_global in keys:
            return as_global
        for key in islice(reversed(keys), MOST_SEARCHED):
            whole = size in (0, key[4])
            per_core = cores == 0 and size * self._core_counts[key[2]] == key[4]
            if (whole or per_core) and program in (0, key[1]):
                return key
        return None

    def _free_one_cb(self, entries: dict[CbKey, bytes], key: CbKey) -> None:
        if self._stacked and key in self._stacked:
            count = self._stacked.pop(key) - 1
            if count > 1:
                self._stacked[key] = count
            entries[key] = with_count(entries[key], count)
            return
        del entries[key]
        self._forget_cb(key)
        if not entries:
            self._drop_if_bare(key[1])

    def _load_kernel(self, first: int, kernel_id: int, record: bytes) -> None:
        _, _, _, size, program, _, word, _ = WORDS.unpack(record)
        footprint = size * (word & MOST_32 or 1)
        known = self._kernels.get(kernel_id)
        if known is not None:
            if known[2] == footprint:
                self._dispatches += 1
                self._ran(known[1], None)
                return
            self._forget_kernel(kernel_id)
        self._loads += 1
        if self._room.take():
            self._kernels[kernel_id] = (record, program, footprint)
            self._kernels_of.setdefault(program, set()).add(kernel_id)

    def _unload_kernel(self, first: int, kernel_id: int, record: bytes) -> None:
        if kernel_id in self._kernels:
            self._unloads += 1
            self._forget_kernel(kernel_id)

    def _dispatch(self, first: int, program: int, record: bytes) -> None:
        self._dispatches += 1
        if first & _CACHE_HIT:
            self._hits += 1
        elif first & _CACHE_MISS:
            self._misses += 1
        self._ran(program, record)

    def _ran(self, program: int, record: bytes | None) -> None:
        """Keeps the order of the latest dispatches: it tells who runs on which core."""
        if program:
            self._last_dispatches[program] = record
            self._last_dispatches.move_to_end(program)
            if len(self._last_dispatches) > MOST_DISPATCHED:
                self._last_dispatches.popitem(last=False)

    def _dispatched(self, program: int, record: bytes | None) -> bytes:
        first = head(Op.PROGRAM_DISPATCH) | self._device << HIGH
        return record or WORDS.pack(first, 0, program, 0, 0, 0, 0, 0)

    def _destroy(self, first: int, program: int, record: bytes) -> None:
        if program == 0:
            return
        for key in self._circular_buffers.pop(program, ()):
            self._stacked.pop(key, None)
            self._forget_cb(key)
        for kernel_id in self._kernels_of.pop(program, ()):
            del self._kernels[kernel_id]
            self._unloads += 1
            self._room.free += 1
        self._forget_program(program)

    def _set_status(self, first: int, program: int, record: bytes) -> None:
        if program and (program in self._statuses or self._room.take()):
            self._statuses[program] = record

    def _set_ring(self, first: int, occupied: int, record: bytes) -> None:
        self._ring = record

    def _set_cache_entries(self, first: int, zero: int, record: bytes) -> None:
        self._cache_entries = record

    def _forget_cb(self, key: CbKey) -> None:
        self._room.free += 1
        if self._by_address is not None:
            keys = self._by_address[key[0]]
            del keys[key]
            if not keys:
                del self._by_address[key[0]]

    def _forget_kernel(self, kernel_id: int) -> None:
        _, program, _ = self._kernels.pop(kernel_id)
        self._room.free += 1
        self._kernels_of[program].discard(kernel_id)
        self._drop_if_bare(program)

    def _drop_if_bare(self, program: int) -> None:
        """The last kernel or circular buffer takes the program with it, as in the ledger."""
        if not self._circular_buffers.get(program) and not self._kernels_of.get(program):
            self._circular_buffers.pop(program, None)
            self._kernels_of.pop(program, None)
            self._forget_program(program)

    def _forget_program(self, program: int) -> None:
        self._last_dispatches.pop(program, None)
        if self._statuses.pop(program, None) is not None:
            self._room.free += 1


def _naming(record: bytes, key: CbKey) -> bytes:
    """A CB_FREE that names exactly what was found, so that the ledger finds the same."""
    address, program, cores, flags, size = key
    first, time, *_ = WORDS.unpack(record)
    first = first & ~_CB_FLAGS | flags
    return WORDS.pack(first, time, address, size, program, address, 1 | cores << HIGH, 0)
