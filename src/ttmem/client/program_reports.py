"""Reports about programs: their circular buffers, kernels, dispatches, binaries, ring and cache."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any, TypeAlias

from ttmem.client.declarations import Cores
from ttmem.client.devices import DeviceLike
from ttmem.client.lifecycle import UNFIT, ClientLifecycle
from ttmem.client.program_lane import ProgramLane
from ttmem.events import EVENT, BinaryStatus, Flag, KernelType, Op

# id, size, extra, address, count, cores, name, site: what follows the time in a record.
Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int]

_pack = EVENT.pack

# Plain numbers: arithmetic on an IntFlag costs as much as a whole report.
_GLOBAL, _DATAFLOW = int(Flag.GLOBAL), int(Flag.DATAFLOW)
_CACHE_FLAG = {None: 0, True: int(Flag.CACHE_HIT), False: int(Flag.CACHE_MISS)}


class ProgramReports(ClientLifecycle):
    """The part of the client that speaks of programs. A mesh means each of its devices."""

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
        flags = (_GLOBAL if is_global else 0) | (_DATAFLOW if dataflow else 0)
        core_set, count = self._cores(cores)
        total = size * count
        fields = (address, total, program_id, address, 1, core_set, 0, 0)
        key = (program_id, core_set, flags, total, size)
        self._report(device, Op.CB_ALLOC, 0, flags, fields, ProgramLane.allocate_cb, address, key)

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
        core_set, count = self._cores(cores)
        key = (program_id, core_set, _DATAFLOW if dataflow else 0, size * count, size)
        now, outbox = time_ns(), self._outbox
        accounts = self._accounts(device)
        try:
            with outbox.lock:
                queue = outbox.queue
                for account in accounts:
                    lane = account.programs
                    # The event names what was found, so that the ledger finds the same.
                    program, core_set, flags, total, _ = lane.free_cb(address, key)
                    fields = (address, total, program, address, 1, core_set, 0, 0)
                    record = _pack(Op.CB_FREE, 0, flags, lane.device, now, *fields)
                    if lane.streaming:
                        queue.append(record)
                    else:
                        outbox.unsent += 1
        except UNFIT as error:
            return self._reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()

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
        core_set, count = (0, num_cores) if cores is None else self._cores(cores)
        program = kernel_id if program_id is None else program_id
        text = 0 if name is None else self._string(name)
        fields = (kernel_id, size, program, content_id, count, core_set, text, 0)
        apply = ProgramLane.load_kernel
        self._report(device, Op.KERNEL_LOAD, kernel_type, 0, fields, apply, kernel_id, program)

    def report_kernel_unload(self, device: DeviceLike, kernel_id: int) -> None:
        """A kernel is gone."""
        fields = (kernel_id, 0, 0, 0, 0, 0, 0, 0)
        apply = ProgramLane.unload_kernel
        self._report(device, Op.KERNEL_UNLOAD, 0, 0, fields, apply, kernel_id)

    def report_program_dispatch(
        self,
        device: DeviceLike,
        program_id: int,
        cache_hit: bool | None = None,
        cores: Cores = None,
    ) -> None:
        """A program was dispatched; `cache_hit` is None if nobody knows."""
        flags = _CACHE_FLAG[cache_hit]
        fields = (program_id, 0, 0, 0, 0, self._cores(cores)[0], 0, 0)
        self._report(device, Op.PROGRAM_DISPATCH, 0, flags, fields, ProgramLane.dispatch, flags)

    def report_program_destroy(self, device: DeviceLike, program_id: int) -> None:
        """A program is gone, with its kernels and circular buffers."""
        fields = (program_id, 0, 0, 0, 0, 0, 0, 0)
        self._report(device, Op.PROGRAM_DESTROY, 0, 0, fields, ProgramLane.destroy, program_id)

    def report_binary_status(
        self, device: DeviceLike, program_id: int, status: BinaryStatus
    ) -> None:
        """How far the program's binaries have come."""
        fields = (program_id, 0, 0, 0, 0, 0, 0, 0)
        apply = ProgramLane.set_status
        self._report(device, Op.BINARY_STATUS, status, 0, fields, apply, program_id)

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
        fields = (occupied, capacity, wraps, syncs, programs, 0, 0, 0)
        self._report(device, Op.RING, 0, 0, fields, ProgramLane.set_ring)

    def report_cache_entries(self, device: DeviceLike, entries: int) -> None:
        """How many programs the program cache holds."""
        fields = (0, entries, 0, 0, 0, 0, 0, 0)
        self._report(device, Op.CACHE_ENTRIES, 0, 0, fields, ProgramLane.set_cache_entries)

    def _report(
        self,
        device: DeviceLike,
        op: Op,
        kind: int,
        flags: int,
        fields: Fields,
        apply: Callable[..., None],
        *arguments: Any,
    ) -> None:
        """Packs, applies and queues one event for each device."""
        outbox = self._outbox
        accounts = self._accounts(device)
        now = time_ns()
        try:
            with outbox.lock:
                queue = outbox.queue
                for account in accounts:
                    lane = account.programs
                    record = _pack(op, kind, flags, lane.device, now, *fields)
                    apply(lane, record, *arguments)
                    if lane.streaming:
                        queue.append(record)
                    else:
                        outbox.unsent += 1
        except UNFIT as error:
            return self._reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()
