"""The line that the original system printed for each kernel, with the frames that caused it."""

from __future__ import annotations

import sys
from types import FrameType

from ttmem.events import KernelType

FRAMES = 5


def print_kernel_load(
    device: int, kernel_type: KernelType, size: int, cores: int, kernel_id: int, depth: int
) -> None:
    """Writes to stderr, in the words of the seeds; `depth` frames above this one are not shown."""
    lines = [
        f"🔍 KERNEL_LOAD Backtrace (Device {device}, Type: {_type_name(kernel_type)}, "
        f"Binary Size: {_kb(size)} KB, Cores: {cores}, Total L1: {_kb(size * cores)} KB, "
        f"ID: {kernel_id:#x})",
        *_callers(depth + 1),
    ]
    if sys.stderr is not None:
        sys.stderr.write("\n".join(lines) + "\n")


def _type_name(kernel_type: KernelType) -> str:
    return KernelType(kernel_type).name.title()


def _kb(size: int) -> str:
    return f"{size / 1024:g}"  # as a C++ stream prints it: 56, 0.5, 7.8125


def _callers(depth: int) -> list[str]:
    lines: list[str] = []
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and len(lines) < FRAMES:
        code = frame.f_code
        lines.append(f"  [{len(lines)}] {code.co_name} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return lines
