"""The client beneath `GraphTracker`: one call for each thing that an application may report.

A report packs one event for each device and appends it to a queue: well under a microsecond, and
never a wait. `ttmem.client.outbox` describes what happens to it then.
"""

from __future__ import annotations

import struct
from time import time_ns

from ttmem.client.declarations import Cores, content_of
from ttmem.client.devices import DeviceLike
from ttmem.client.lifecycle import ClientLifecycle
from ttmem.client.records import HIGH, WORDS, head
from ttmem.client.target_cache import Targets
from ttmem.events import BinaryStatus, Flag, KernelType, MemoryKind, Op

_pack = WORDS.pack

# First words of records. A kind that is none finds none, or cannot even be looked for; -1 then fits
# into no record.
_NONE = -1
_ALLOC = {kind: head(Op.ALLOC, kind) for kind in MemoryKind}
_FREE = {kind: head(Op.FREE, kind, Flag.KIND_KNOWN) for kind in MemoryKind}
_CB_ALLOC, _CB_FREE = head(Op.CB_ALLOC), head(Op.CB_FREE)
_GLOBAL, _DATAFLOW = head(0, 0, Flag.GLOBAL), head(0, 0, Flag.DATAFLOW)
_KERNEL_LOAD = {kind: head(Op.KERNEL_LOAD, kind) for kind in KernelType}
_KERNEL_UNLOAD = head(Op.KERNEL_UNLOAD)
_DISPATCH = {
    None: head(Op.PROGRAM_DISPATCH),
    True: head(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_HIT),
    False: head(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_MISS),
}
_DESTROY = head(Op.PROGRAM_DESTROY)
_STATUS = {status: head(Op.BINARY_STATUS, status) for status in BinaryStatus}
_RING, _CACHE_ENTRIES = head(Op.RING), head(Op.CACHE_ENTRIES)


class AllocationClient(ClientLifecycle):
    """Reports to the server at a Unix socket, now or when it comes; safe from any thread.

    `path`: the socket; else TTMEM_SOCKET, else the default of the original system.
    `queue_limit`: events that may wait for a slow server.
    `live_limit`: live entries that are remembered for a server that comes later.

    A device is a number, a `Device`, a `MeshDevice` or the like; a mesh means each of its chips.
    No report raises: what cannot be told is counted as dropped, and explained once in the log.
    """

    def report_allocation(
        self,
        device: DeviceLike,
        buffer_id: int,
        size: int,
        kind: MemoryKind = MemoryKind.DRAM,
        address: int = 0,
        reserved: int = 0,
        site: str | None = None,
    ) -> None:
        """A buffer was allocated."""
        names = 0 if site is None else self._string(site) << HIGH
        try:
            first = _ALLOC.get(kind, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, buffer_id, size, reserved, address, 1, names)

    def report_deallocation(
        self, device: DeviceLike, buffer_id: int, kind: MemoryKind = MemoryKind.DRAM, size: int = 0
    ) -> None:
        """A buffer was freed."""
        try:
            first = _FREE.get(kind, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, buffer_id, size, 0, 0, 1)

    def report_cb_allocation(
        self,
        device: DeviceLike,
        address: int,
        size: int,
        cores: Cores = None,
        is_global: bool = False,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """A circular buffer: so many bytes on each core, or in all if the cores are unknown."""
        try:
            core_set, count = self._outbox.declarations.core_sets[cores]
            total = size * count
        except (KeyError, TypeError):
            core_set, total = self._on_cores(cores, size)
        first = _CB_ALLOC | (_GLOBAL if is_global else 0) | (_DATAFLOW if dataflow else 0)
        self._report(device, first, address, total, program_id, address, 1 | core_set << HIGH)

    def report_cb_deallocation(
        self,
        device: DeviceLike,
        address: int,
        size: int,
        cores: Cores = None,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """The latest circular buffer of that address and size (and program) is gone."""
        try:
            core_set, count = self._outbox.declarations.core_sets[cores]
            total = size * count
        except (KeyError, TypeError):
            core_set, total = self._on_cores(cores, size)
        first = _CB_FREE | (_DATAFLOW if dataflow else 0)
        self._report(device, first, address, total, program_id, address, 1 | core_set << HIGH)

    def report_kernel_load(
        self,
        device: DeviceLike,
        kernel_id: int,
        size: int,
        kernel_type: KernelType = KernelType.APPLICATION,
        num_cores: int = 1,
        program_id: int | None = None,
        name: str | None = None,
        content_id: int = 0,
        cores: Cores = None,
    ) -> None:
        """A kernel's binary, on so many cores; if it is loaded already, this is a dispatch."""
        core_set, count = self._cores(num_cores if cores is None else cores)
        program = kernel_id if program_id is None else program_id
        names = 0 if name is None else self._string(name)
        try:
            if content_id == 0 and name is not None:
                content_id = content_of(name, size)
            first = _KERNEL_LOAD.get(kernel_type, _NONE)
        except TypeError:
            first = _NONE
        word = count | core_set << HIGH
        self._report(device, first, kernel_id, size, program, content_id, word, names)

    def report_kernel_unload(self, device: DeviceLike, kernel_id: int) -> None:
        """A kernel is gone."""
        self._report(device, _KERNEL_UNLOAD, kernel_id)

    def report_program_dispatch(
        self,
        device: DeviceLike,
        program_id: int,
        cache_hit: bool | None = None,
        cores: Cores = None,
    ) -> None:
        """A program was dispatched; `cache_hit` is None if nobody knows."""
        word = 0 if cores is None else self._cores(cores)[0] << HIGH
        try:
            first = _DISPATCH.get(cache_hit, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, program_id, 0, 0, 0, word)

    def report_program_destroy(self, device: DeviceLike, program_id: int) -> None:
        """A program is gone, with its kernels and circular buffers."""
        self._report(device, _DESTROY, program_id)

    def report_binary_status(
        self, device: DeviceLike, program_id: int, status: BinaryStatus
    ) -> None:
        """How far the program's binaries have come."""
        try:
            first = _STATUS.get(status, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, program_id)

    def report_ring(
        self,
        device: DeviceLike,
        occupied: int,
        wraps: int,
        syncs: int,
        capacity: int = 0,
        programs: int = 0,
    ) -> None:
        """The state of the kernel-config ring, in bytes of the whole device."""
        self._report(device, _RING, occupied, capacity, wraps, syncs, programs)

    def report_cache_entries(self, device: DeviceLike, entries: int) -> None:
        """How many programs the program cache holds."""
        self._report(device, _CACHE_ENTRIES, 0, entries)

    def _report(
        self,
        device: DeviceLike,
        first: int,
        number: int,
        size: int = 0,
        extra: int = 0,
        address: int = 0,
        count_and_cores: int = 0,
        names: int = 0,
    ) -> None:
        """Queues one event for each device."""
        outbox = self._outbox
        try:
            targets = outbox.targets.get(device)
        except TypeError:  # an object that cannot be hashed
            targets = None
        if targets is None:
            targets = self._find_targets(device)
        queue, now = outbox.queue, time_ns()
        try:
            if targets.__class__ is int:
                queue.append(
                    _pack(
                        targets | first, now, number, size, extra, address, count_and_cores, names
                    )
                )
            else:
                records = []
                for bits in targets:  # type: ignore[union-attr]
                    records.append(
                        _pack(
                            bits | first, now, number, size, extra, address, count_and_cores, names
                        )
                    )
                queue += records  # all or none, where a signal ends this call
        except struct.error as error:  # no more: what a handler of a signal raises must pass
            if now < 0:
                self._report_without_time(
                    targets, first, number, size, extra, address, count_and_cores, names
                )
            else:
                self.reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()

    def _report_without_time(self, targets: Targets, first: int, *words: int) -> None:
        """For a clock that stands before 1970: the server's counts."""
        try:
            each = (targets,) if isinstance(targets, int) else targets
            self._outbox.queue += [_pack(bits | first, 0, *words) for bits in each]
        except struct.error as error:
            self.reject(error)
