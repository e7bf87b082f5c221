"""The line that the original system printed for each kernel, with the frames that caused it."""

from __future__ import annotations

import sys
from types import FrameType

from ttmem.client.devices import device_numbers
from ttmem.events import KernelType

FRAMES = 5


def print_kernel_load(
    device: object, kernel_type: KernelType, size: int, cores: int, kernel_id: int
) -> None:
    """Writes to stderr in the words of the seeds, for each device; nothing if these are none."""
    try:
        lines = [
            f"🔍 KERNEL_LOAD Backtrace (Device {number}, Type: {_type_name(kernel_type)}, "
            f"Binary Size: {_kb(size)} KB, Cores: {cores}, Total L1: {_kb(size * cores)} KB, "
            f"ID: {kernel_id:#x})"
            for number in device_numbers(device)
        ]
    except (TypeError, ValueError):
        return
    if sys.stderr is not None:
        frames = _callers(sys._getframe(2))  # above here and GraphTracker
        sys.stderr.write("".join(f"{line}\n{frames}" for line in lines))


def _type_name(kernel_type: KernelType) -> str:
    return KernelType(kernel_type).name.title()


def _kb(size: int) -> str:
    return f"{size / 1024:g}"  # as a C++ stream prints it: 56, 0.5, 7.8125


def _callers(frame: FrameType | None) -> str:
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES:
        code = frame.f_code
        lines.append(f"  [{len(lines)}] {code.co_name} ({code.co_filename}:{frame.f_lineno})\n")
        frame = frame.f_back
    return "".join(lines)
