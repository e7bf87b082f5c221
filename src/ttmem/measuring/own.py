"""The probe in this process: its counters, and whether it is loaded."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import closing
from functools import cache
from typing import Any

from ttmem.errors import BadInput, TtmemError
from ttmem.events import MemoryKind
from ttmem.procfs import content, program
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion
from ttmem.sources.shm import probe_directory

RUN_UNDER_PROBE = "start it with `ttmem run -- python ...`"


class NotMeasured(TtmemError):
    """A figure that was not observed; the message says why, and what to do."""


class NoSuchDevice(BadInput):
    """An id that no device has. A logical id may be that of a device that is not open yet."""

    def __init__(self, device: int | str) -> None:
        what = "logical" if isinstance(device, int) else "unique"
        super().__init__(f"no device has the {what} id {device!r}; `ttmem ps --json` lists them")


def not_opened(device: int | str) -> int:
    """0, for a device that exists and that this process, which has opened others, has not opened."""
    # With a device open, the runtime knows how many there are, and asking changes nothing.
    count = getattr(sys.modules.get("ttnn"), "GetNumAvailableDevices", None)
    if isinstance(device, str) or (count is not None and not 0 <= device < count()):
        raise NoSuchDevice(device)
    return 0


@cache
def _library() -> Any:
    """The probe's own functions; None if it was not preloaded into this process."""
    process = ctypes.PyDLL(None)  # keeps the GIL, so only one thread at a time resets peaks
    if not hasattr(process, "ttmem_probe_reset_peaks"):
        return None
    process.ttmem_probe_reset_peaks.argtypes = [ctypes.c_int]
    process.ttmem_probe_reset_peaks.restype = ctypes.c_int
    process.ttmem_probe_track.argtypes = [ctypes.c_int]
    process.ttmem_probe_track.restype = ctypes.c_int
    return process


def region_path() -> str | None:
    """The region of this process; None if it has none, because it has not opened a device."""
    running = program(os.getpid())
    if running is None:
        return None
    path = os.path.join(probe_directory(), f"ttmem_{os.getpid()}_{running.start_ticks}")
    return path if os.path.exists(path) else None


def runtime_is_loaded() -> bool:
    """Whether tt-metal is loaded: without it nothing can be allocated."""
    return b"libtt_metal" in (content("/proc/self/maps") or b"libtt_metal")


def why_unknown() -> str | None:
    """Why allocations of this process are not observed; None: they are, or there can be none."""
    library = _library()
    if library is None:
        return f"this process does not run under the probe; {RUN_UNDER_PROBE}"
    if os.environ.get("TTMEM") == "0":
        return "the probe is switched off by TTMEM=0"
    tracking = library.ttmem_probe_track(-1)
    if tracking == 0:
        return "tracking is switched off in this process"
    if tracking < 0 and _has_opened():
        return f"the probe has no region in {probe_directory()}; `ttmem doctor` says why"
    return None


def _has_opened() -> bool:
    """The runtime may be loaded without a device: then there is no region yet, and nothing is missing."""
    mapped = content("/proc/self/maps") or b""
    return b"/dev/tenstorrent/" in mapped or b"/tt_device_" in mapped


def counted(device: int | str, kind: MemoryKind, which: str) -> int:
    """Bytes in all banks: `reserved` now by this process, or its `recent_peak` since it started, or `reset_peaks`.

    NotMeasured if nothing counts them; 0 for a device that it has not opened.
    """
    why = why_unknown()
    if why:
        raise NotMeasured(f"N/A: {why}")
    path = region_path()
    if path is None:
        return 0
    try:
        with closing(ProbeRegion(path)) as region:
            missing = [name for name, found in region.features().items() if not found]
            if "buffers" in missing:
                raise NotMeasured(
                    "N/A: this ttnn lacks the functions through which the probe sees buffers"
                )
            for declared, row in zip(region.devices(), region.counters(), strict=False):
                if declared and device in (declared.logical_id, declared.unique_id):
                    figure: int = getattr(row[kind], which)
                    return figure
    except BadRegion as problem:
        raise NotMeasured(f"N/A: {problem}") from None
    return not_opened(device)


def reset_peaks(device: int | str | None) -> None:
    """NotMeasured if there is no probe."""
    why = why_unknown()
    if why:
        raise NotMeasured(f"N/A: {why}")
    number = -1 if device is None else _logical(device)
    if number is not None:
        _library().ttmem_probe_reset_peaks(number)


def _logical(device: int | str) -> int | None:
    if isinstance(device, int):
        return device
    path = region_path()
    if path is None:
        return None
    with closing(ProbeRegion(path)) as region:
        declared = (one for one in region.devices() if one and one.unique_id == device)
        return next((one.logical_id for one in declared), None)
