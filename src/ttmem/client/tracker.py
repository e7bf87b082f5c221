"""`GraphTracker`, and the line that the original system printed for each kernel load."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

from ttmem.client.api import AllocationClient
from ttmem.client.declarations import Cores
from ttmem.client.devices import DeviceLike, ReportedBuffer, device_numbers
from ttmem.events import BinaryStatus, DeviceDeclaration, KernelType

ENABLED_VARIABLE = "TT_ALLOC_TRACKING_ENABLED"
BACKTRACE_VARIABLE = "TTMEM_KERNEL_BACKTRACE"
FRAMES = 5


class GraphTracker:
    """Reports what a runtime does, with the method names of the original system.

    `enabled`: set by TT_ALLOC_TRACKING_ENABLED=1. While it is false, a call only tests this attribute.
    `kernel_backtrace`: set by TTMEM_KERNEL_BACKTRACE=1. Prints a line for each kernel load.

    A device is a number, a `Device`, a `MeshDevice` or a similar object; a mesh stands for each of its chips. Cores
    are rectangles `(x0, y0, x1, y1)`, both corners included, or single cores `(x, y)`. No call raises.
    """

    _instance: GraphTracker | None = None
    _making = threading.Lock()

    def __init__(self, client: AllocationClient | None = None) -> None:
        self.client = client or AllocationClient()
        self.enabled = os.environ.get(ENABLED_VARIABLE) == "1"
        self.kernel_backtrace = os.environ.get(BACKTRACE_VARIABLE) == "1"

    @classmethod
    def instance(cls) -> GraphTracker:
        if cls._instance is None:
            with cls._making:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        if self.enabled:
            self.client.declare_device(declaration)

    def track_allocate(self, buffer: ReportedBuffer) -> None:
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
            except AttributeError as error:  # not a buffer
                self.client.reject(error)

    def track_deallocate(self, buffer: ReportedBuffer) -> None:
        if self.enabled:
            try:
                self.client.report_deallocation(buffer.device, buffer.id, buffer.kind, buffer.size)
            except AttributeError as error:  # not a buffer
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
        """`size` is in bytes per core, or in total if `cores` is None."""
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
        """`cores`, if given, takes precedence over `num_cores`."""
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
        if self.enabled:
            self.client.report_program_dispatch(device, program_id, cache_hit, cores)

    def track_program_destroy(self, program_id: int, device: DeviceLike) -> None:
        """The program is gone, along with its kernels and circular buffers."""
        if self.enabled:
            self.client.report_program_destroy(device, program_id)

    def track_binary_status(
        self, program_id: int, device: DeviceLike, status: BinaryStatus
    ) -> None:
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
        """The state of the kernel-config ring, in bytes for the whole device."""
        if self.enabled:
            self.client.report_ring(device, occupied, wraps, syncs, capacity, programs)

    def track_cache_entries(self, device: DeviceLike, entries: int) -> None:
        """The number of programs in the program cache."""
        if self.enabled:
            self.client.report_cache_entries(device, entries)


def print_kernel_load(
    device: object, kernel_type: KernelType, size: int, cores: int, kernel_id: int
) -> None:
    """Writes the line of the original system to stderr, for each device. Prints nothing for invalid arguments."""
    try:
        type_name = KernelType(kernel_type).name.title()
        lines = [
            headline(number, type_name, size, cores, kernel_id) for number in device_numbers(device)
        ]
        frames = _callers(sys._getframe(2))  # the caller of GraphTracker
        if sys.stderr is not None:
            sys.stderr.write("".join(f"{line}\n{frames}" for line in lines))
    except (AttributeError, TypeError, ValueError, OSError):
        return  # not a device, or the terminal is gone


def headline(device: int, type_name: str, size: int, cores: int, kernel_id: int, *more: str) -> str:
    """One kernel on one device; `more` is appended where old scripts do not look."""
    facts = [
        f"Device {device}",
        f"Type: {type_name}",
        f"Binary Size: {_kb(size)} KB",
        f"Cores: {cores or 'N/A'}",
        f"Total L1: {_kb(size * cores)} KB" if cores else "Total L1: N/A",
        f"ID: {kernel_id:#x}",
        *more,
    ]
    return f"🔍 KERNEL_LOAD Backtrace ({', '.join(facts)})"


def frame_line(number: int, function: str, place: str) -> str:
    """One stack frame; the innermost has number 0."""
    return f"  [{number}] {function} ({place})"


def _kb(size: int) -> str:
    return f"{size / 1024:g}"  # as a C++ stream prints it: 56, 0.5, 7.8125


def _callers(frame: FrameType | None) -> str:
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES:
        code = frame.f_code
        lines.append(frame_line(len(lines), code.co_name, f"{code.co_filename}:{frame.f_lineno}"))
        frame = frame.f_back
    return "".join(f"{line}\n" for line in lines)
