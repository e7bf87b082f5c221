"""What is alive in this process, so that a server that starts late, or restarts, can be told.

Every entry is kept as the 64 bytes of the event that created it, ready to be resent. The rules are the ledger's: an
equal ALLOC adds a reference, a different one replaces; a KERNEL_LOAD of a live id is a dispatch; a program ends with
its last part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain, islice, starmap
from typing import TypeAlias

from ttmem.client.records import HEAD_AND_ID, HIGH, MOST_32, SIZE, WORDS, head, with_count
from ttmem.events import EVENT_SIZE, Flag, MemoryKind, Notice, Op

# Identifies a circular buffer; equal ones stack: address, program, core set, flags, size.
_CbKey: TypeAlias = tuple[int, int, int, int, int]

# Applies an event, given its first word, id and record; returns another record if it must change.
_Handler: TypeAlias = Callable[[int, int, bytes], bytes | None]

_MOST_SEARCHED = 1024  # circular buffers at one address, as in the ledger
_MOST_DISPATCHED = 1024  # programs whose last dispatch is remembered

_GLOBAL = head(0, 0, Flag.GLOBAL)
_CB_FLAGS = head(0, 0, Flag.GLOBAL | Flag.DATAFLOW)
_CACHE_HIT, _CACHE_MISS = head(0, 0, Flag.CACHE_HIT), head(0, 0, Flag.CACHE_MISS)
_MOST_DEVICES = 4096


class EntryLimit:
    """How many more entries may be stored, and how many were not."""

    __slots__ = ("free", "overflow")

    def __init__(self, free: int) -> None:
        self.free = free
        self.overflow = 0

    def take(self) -> bool:
        """Whether one more entry may be stored; if not, it is counted as overflow."""
        if self.free > 0:
            self.free -= 1
            return True
        self.overflow += 1
        return False


class _LiveBuffers:
    __slots__ = ("records", "shared")

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}
        self.shared: dict[int, int] = {}  # reference counts above one

    def allocate_again(self, buffer_id: int, record: bytes) -> None:
        """An ALLOC with the id of a live buffer."""
        known = self.records[buffer_id]
        if known[SIZE] == record[SIZE]:
            count = self.shared.get(buffer_id, 1) + 1
            self.shared[buffer_id] = count
            record = with_count(known, count)
        else:
            self.shared.pop(buffer_id, None)
        self.records[buffer_id] = record

    def free_one(self, buffer_id: int) -> None:
        """A FREE of a buffer with several references."""
        count = self.shared.pop(buffer_id) - 1
        if count > 1:
            self.shared[buffer_id] = count
        self.records[buffer_id] = with_count(self.records[buffer_id], count)


class LiveSet:
    """Everything alive, indexed by the first word of an event (op, kind, flags, device)."""

    def __init__(self, limit: int, core_counts: list[int]) -> None:
        self.limit = EntryLimit(limit)
        self._core_counts = core_counts
        self._allocated: dict[int, _LiveBuffers] = {}  # by the head of an ALLOC
        self._freed: dict[int, _LiveBuffers] = {}  # the same, by the head of a FREE
        self._handlers: dict[int, _Handler] = {}  # by the head of any other event
        self._programs: dict[int, _LivePrograms] = {}  # by device

    def apply(self, events: list[bytes]) -> bytearray:
        """Applies events in order; returns them concatenated, as the server should see them."""
        together, limit = bytearray().join(events), self.limit
        allocated, freed, handlers = self._allocated, self._freed, self._handlers
        keys = HEAD_AND_ID.iter_unpack(together)
        for index, (record, (first, number)) in enumerate(zip(events, keys, strict=True)):
            if (buffers := allocated.get(first)) is not None:
                if number in buffers.records:
                    buffers.allocate_again(number, record)
                elif limit.free > 0:
                    limit.free -= 1
                    buffers.records[number] = record
                else:
                    limit.overflow += 1
            elif (buffers := freed.get(first)) is not None:
                if buffers.shared and number in buffers.shared:
                    buffers.free_one(number)
                elif buffers.records.pop(number, None) is not None:
                    limit.free += 1
            else:
                handler = handlers.get(first) or self._handler_for(first)
                changed = handler(first, number, record)
                if changed is not None:
                    start = index * EVENT_SIZE
                    together[start : start + EVENT_SIZE] = changed
        return together

    def alive(self) -> list[bytes]:
        """Everything to resend. The records are immutable, so the list is a consistent copy."""
        records: list[bytes] = []
        for buffers in self._allocated.values():
            records += buffers.records.values()
        for programs in self._programs.values():
            records += programs.alive()
        return records

    def _handler_for(self, first: int) -> _Handler:
        device, op = first >> HIGH, first & 0xFF
        if device not in self._programs:
            if len(self._programs) >= _MOST_DEVICES:
                return self._ignore
            self._open(device)
        if op in (Op.ALLOC, Op.FREE):
            return self._apply_now
        return self._handlers.setdefault(first, self._programs[device].handlers[op])

    def _apply_now(self, _first: int, _number: int, record: bytes) -> None:
        """For the first event of a device, which has entries only now."""
        self.apply([record])

    def _ignore(self, _first: int, _number: int, _record: bytes) -> None:
        self.limit.overflow += 1

    def _open(self, device: int) -> None:
        bits = device << HIGH
        for kind in MemoryKind:
            buffers = _LiveBuffers()
            self._allocated[bits | head(Op.ALLOC, kind)] = buffers
            self._freed[bits | head(Op.FREE, kind, Flag.KIND_KNOWN)] = buffers
        self._programs[device] = _LivePrograms(device, self.limit, self._core_counts)


class _LivePrograms:
    """The live programs of one device: circular buffers, kernels, status, counters. 0 means no program."""

    def __init__(self, device: int, limit: EntryLimit, core_counts: list[int]) -> None:
        self._device = device
        self._limit = limit
        self._core_counts = core_counts  # by number of the core set
        self._circular_buffers: dict[int, dict[_CbKey, bytes]] = {}  # by program
        self._stacked: dict[_CbKey, int] = {}  # counts above one
        self._by_address: dict[int, dict[_CbKey, None]] | None = None  # built on first use
        self._kernels: dict[int, tuple[bytes, int, int]] = {}  # record, program, footprint
        self._kernels_of: dict[int, set[int]] = {}  # by program
        self._statuses: dict[int, bytes] = {}  # by program
        self._last_dispatches: OrderedDict[int, bytes | None] = OrderedDict()  # by program
        self._ring: bytes | None = None
        self._cache_entries: bytes | None = None
        self._loads = self._unloads = self._dispatches = self._hits = self._misses = 0
        self.handlers: dict[int, _Handler] = {
            Op.CB_ALLOC: self._allocate_cb,
            Op.CB_FREE: self._free_cb,
            Op.KERNEL_LOAD: self._load_kernel,
            Op.KERNEL_UNLOAD: self._unload_kernel,
            Op.PROGRAM_DISPATCH: self._dispatch,
            Op.PROGRAM_DESTROY: self._destroy,
            Op.BINARY_STATUS: self._set_status,
            Op.RING: self._set_ring,
            Op.CACHE_ENTRIES: self._set_cache_entries,
            Notice.ALLOCATION_FAILED: lambda first, number, record: None,  # nothing is alive
        }

    def alive(self) -> list[bytes]:
        """Everything to resend. Status and counters follow what they refer to."""
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
        elif not self._limit.take():
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
        return _exact_free(record, found)

    def _find_cb(
        self, address: int, program: int, cores: int, flags: int, size: int
    ) -> _CbKey | None:
        """What a free refers to if it omits the program, the cores, or whether the buffer is global."""
        if self._by_address is None:
            self._by_address = {}
            for key in chain.from_iterable(self._circular_buffers.values()):
                self._by_address.setdefault(key[0], {})[key] = None
        keys = self._by_address.get(address, {})
        as_global = (address, program, cores, flags | _GLOBAL, size)
        if as_global in keys:
            return as_global
        for key in islice(reversed(keys), _MOST_SEARCHED):
            whole = size in (0, key[4])
            per_core = cores == 0 and size * self._core_counts[key[2]] == key[4]
            if (whole or per_core) and program in (0, key[1]):
                return key
        return None

    def _free_one_cb(self, entries: dict[_CbKey, bytes], key: _CbKey) -> None:
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
        if self._limit.take():
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
        """Keeps the order of the latest dispatches, which determines what is resident on each core."""
        if program:
            self._last_dispatches[program] = record
            self._last_dispatches.move_to_end(program)
            if len(self._last_dispatches) > _MOST_DISPATCHED:
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
            self._limit.free += 1
        self._forget_program(program)

    def _set_status(self, first: int, program: int, record: bytes) -> None:
        if program and (program in self._statuses or self._limit.take()):
            self._statuses[program] = record

    def _set_ring(self, first: int, occupied: int, record: bytes) -> None:
        self._ring = record

    def _set_cache_entries(self, first: int, zero: int, record: bytes) -> None:
        self._cache_entries = record

    def _forget_cb(self, key: _CbKey) -> None:
        self._limit.free += 1
        if self._by_address is not None:
            keys = self._by_address[key[0]]
            del keys[key]
            if not keys:
                del self._by_address[key[0]]

    def _forget_kernel(self, kernel_id: int) -> None:
        _, program, _ = self._kernels.pop(kernel_id)
        self._limit.free += 1
        self._kernels_of[program].discard(kernel_id)
        self._drop_if_bare(program)

    def _drop_if_bare(self, program: int) -> None:
        """A program ends with its last kernel or circular buffer, as in the ledger."""
        if not self._circular_buffers.get(program) and not self._kernels_of.get(program):
            self._circular_buffers.pop(program, None)
            self._kernels_of.pop(program, None)
            self._forget_program(program)

    def _forget_program(self, program: int) -> None:
        self._last_dispatches.pop(program, None)
        if self._statuses.pop(program, None) is not None:
            self._limit.free += 1


def _exact_free(record: bytes, key: _CbKey) -> bytes:
    """A CB_FREE that identifies exactly what was found, so that the ledger finds the same."""
    address, program, cores, flags, size = key
    first, time, *_ = WORDS.unpack(record)
    first = first & ~_CB_FLAGS | flags
    return WORDS.pack(first, time, address, size, program, address, 1 | cores << HIGH, 0)
