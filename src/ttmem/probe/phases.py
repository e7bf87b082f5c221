"""Phases: a word for what a program is doing, which tags everything that it allocates meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def phase(name: str) -> Iterator[None]:
    """What this thread does inside belongs to `name`. Without the probe it does nothing."""
    library = _loaded_library()
    if library is None:
        yield
        return
    before = library.ttmem_probe_enter_phase(name.encode("utf-8", "replace"))
    try:
        yield
    finally:
        library.ttmem_probe_leave_phase(before)


def _loaded_library() -> ctypes.CDLL | None:
    """The probe of this process, if it was started with one."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "ttmem_probe_enter_phase"):
        return None
    process.ttmem_probe_enter_phase.argtypes = [ctypes.c_char_p]
    process.ttmem_probe_enter_phase.restype = ctypes.c_uint32
    process.ttmem_probe_leave_phase.argtypes = [ctypes.c_uint32]
    process.ttmem_probe_leave_phase.restype = None
    return process
