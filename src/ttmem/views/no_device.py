"""What to say where there is no device, and what to do about it."""

from __future__ import annotations

from ttmem.snapshots import Snapshot
from ttmem.sources.closed_files import COUNTERS_CLOSED
from ttmem.views.text import clean

NO_PROCESS = "no process reports"
NO_REPORT = (
    "no device has been reported yet; start the application with TT_ALLOC_TRACKING_ENABLED=1"
)
NARROWED = "narrowed"  # of a picture's host: devices were left out, none fits what was asked for
IDLE = "idle"  # of a picture's host: all devices were left out, as nobody uses them
NOT_IN_USE = "no device is in use"
NONE_OF_THEM = "none of the devices that there are was asked for"


def no_device(snapshot: Snapshot) -> str:
    """In the words of the picture's source."""
    if snapshot.host.get(NARROWED):
        return NONE_OF_THEM
    if snapshot.host.get(IDLE):
        return NOT_IN_USE
    folder = snapshot.host.get("shared_memory")
    if folder is None:
        return NO_REPORT
    counters = f"no region of stock ttnn (tt_device_*_memory) in {clean(str(folder))}"
    if any(remark.kind == COUNTERS_CLOSED for remark in snapshot.remarks):
        counters += " can be read"
    return f"{NO_REPORT}; {counters}" if snapshot.host.get("server") else counters
