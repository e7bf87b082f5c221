"""`GraphTracker`: what a runtime calls, by the names of the original system."""

from __future__ import annotations

import os
import threading

from ttmem.client.allocation_client import AllocationClient
from ttmem.client.backtrace import print_kernel_load
from ttmem.client.buffer import Buffer
from ttmem.client.declarations import Cores
from ttmem.client.devices import DeviceLike
from ttmem.events import BinaryStatus, DeviceDeclaration, KernelType

ENABLED_VARIABLE = "TT_ALLOC_TRACKING_ENABLED"
BACKTRACE_VARIABLE = "TTMEM_KERNEL_BACKTRACE"


class GraphTracker:
    """Reports while `enabled`; else a call is one test of that attribute. No call raises."""

    _instance: GraphTracker | None = None
    _making = threading.Lock()

    def __init__(self, client: AllocationClient | None = None) -> None:
        self.client = client or AllocationClient()
        self.enabled = os.environ.get(ENABLED_VARIABLE) == "1"
        self.kernel_backtrace = os.environ.get(BACKTRACE_VARIABLE) == "1"

    @classmethod
    def instance(cls) -> GraphTracker:
        """The one tracker of this process."""
        if cls._instance is None:
            with cls._making:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        """Tells which board a device is and what it can hold."""
        if self.enabled:
            self.client.declare_device(declaration)

    def track_allocate(self, buffer: Buffer) -> None:
        """A buffer was allocated."""
        if self.enabled:
            try:
                self.client.report_allocation(
                    buffer.device,
                    buffer.id,
                    buffer.size,
                    buffer.kind,
                    buffer.address,
                    buffer.reserved,
                    buffer.site,
                )
            except AttributeError as error:  # it is none
                self.client.reject(error)

    def track_deallocate(self, buffer: Buffer) -> None:
        """A buffer was freed."""
        if self.enabled:
            try:
                self.client.report_deallocation(buffer.device, buffer.id, buffer.kind, buffer.size)
            except AttributeError as error:  # it is none
                self.client.reject(error)

    def track_allocate_cb(
        self,
        cores: Cores,
        address: int,
        size: int,
        is_globally_allocated: bool,
        device: DeviceLike,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """A circular buffer was placed: `size` bytes on each core, or in all if `cores` is None."""
        if self.enabled:
            self.client.report_cb_allocation(
                device, address, size, cores, is_globally_allocated, program_id, dataflow
            )

    def track_deallocate_cb(
        self,
        device: DeviceLike,
        address: int,
        size: int,
        cores: Cores = None,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """A circular buffer is gone."""
        if self.enabled:
            self.client.report_cb_deallocation(device, address, size, cores, program_id, dataflow)

    def track_kernel_load(
        self,
        kernel_size: int,
        kernel_id: int,
        device: DeviceLike,
        kernel_type: KernelType = KernelType.APPLICATION,
        num_cores: int = 1,
        *,
        program_id: int | None = None,
        name: str | None = None,
        content_id: int = 0,
        cores: Cores = None,
    ) -> None:
        """A kernel of `kernel_size` bytes was loaded on `num_cores` cores (or on `cores`)."""
        if not self.enabled:
            return
        if self.kernel_backtrace:
            count = num_cores if cores is None else self.client.core_count(cores)
            print_kernel_load(device, kernel_type, kernel_size, count, kernel_id)
        self.client.report_kernel_load(
            device,
            kernel_id,
            kernel_size,
            kernel_type,
            num_cores,
            program_id,
            name,
            content_id,
            cores,
        )

    def track_kernel_unload(self, kernel_id: int, device: DeviceLike) -> None:
        """A kernel is gone."""
        if self.enabled:
            self.client.report_kernel_unload(device, kernel_id)

    def track_program_dispatch(
        self,
        program_id: int,
        device: DeviceLike,
        *,
        cache_hit: bool | None = None,
        cores: Cores = None,
    ) -> None:
        """A program was dispatched; `cache_hit` is None if nobody knows."""
        if self.enabled:
            self.client.report_program_dispatch(device, program_id, cache_hit, cores)

    def track_program_destroy(self, program_id: int, device: DeviceLike) -> None:
        """A program is gone, with all its kernels and circular buffers."""
        if self.enabled:
            self.client.report_program_destroy(device, program_id)

    def track_binary_status(
        self, program_id: int, device: DeviceLike, status: BinaryStatus
    ) -> None:
        """How far the program's binaries have come on the device."""
        if self.enabled:
            self.client.report_binary_status(device, program_id, status)

    def track_ring(
        self,
        device: DeviceLike,
        occupied: int,
        wraps: int,
        syncs: int,
        *,
        capacity: int = 0,
        programs: int = 0,
    ) -> None:
        """The state of the kernel-config ring, in bytes of the whole device."""
        if self.enabled:
            self.client.report_ring(device, occupied, wraps, syncs, capacity, programs)

    def track_cache_entries(self, device: DeviceLike, entries: int) -> None:
        """How many programs the program cache holds."""
        if self.enabled:
            self.client.report_cache_entries(device, entries)
