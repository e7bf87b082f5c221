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
        type_name = KernelType(kernel_type).name.title()
        lines = [
            headline(number, type_name, size, cores, kernel_id) for number in device_numbers(device)
        ]
        frames = _callers(sys._getframe(2))  # above here and GraphTracker
        if sys.stderr is not None:
            sys.stderr.write("".join(f"{line}\n{frames}" for line in lines))
    except (AttributeError, TypeError, ValueError, OSError):
        return  # it is no device, or the terminal is gone


def headline(device: int, type_name: str, size: int, cores: int, kernel_id: int, *more: str) -> str:
    """One kernel on one device; `more` is said at the end, where old scripts do not look."""
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
    """One frame, the innermost is number 0."""
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
