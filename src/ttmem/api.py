"""What programs call: the picture as typed objects, and the few numbers that users know from torch."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.client.query import ServerConnection
from ttmem.errors import BadInput
from ttmem.feeds import ServerFeed
from ttmem.snapshots import Device, Snapshot


def snapshot(socket: str | None = None, detail: Iterable[str] = ()) -> Snapshot:
    """Everything that the server knows at this instant; `detail` names what to add in full."""
    feed = ServerFeed(socket)
    try:
        return feed.read(detail)
    finally:
        feed.close()


def memory_allocated(device: int | str = 0, kind: str = "dram", socket: str | None = None) -> int:
    """Bytes held on a device (logical id, or unique id as text): dram, l1, l1_small, trace, cb or l1_used."""
    return _figure(_device(device, socket), kind, "held")


def max_memory_allocated(
    device: int | str = 0, kind: str = "dram", socket: str | None = None
) -> int:
    """The peak of `memory_allocated` since the server saw the device, or since `reset_peak`."""
    return _figure(_device(device, socket), kind, "peak")


def reset_peak(device: int | str | None = None, socket: str | None = None) -> None:
    """Peaks of a device (None: of all) start again at what is held now."""
    with ServerConnection(socket) as server:
        unique_id = None if device is None else _device(device, socket).unique_id
        server.query("reset_peak", unique_id=unique_id)


def _device(wanted: int | str, socket: str | None) -> Device:
    picture = snapshot(socket)
    found = picture.device(wanted)
    if found is None:
        known = ", ".join(f"{d.logical_id} ({d.unique_id})" for d in picture.devices) or "none"
        raise BadInput(f"no process has reported device {wanted!r}; known are: {known}")
    return found


def _figure(device: Device, kind: str, which: str) -> int:
    if kind == "l1_used":
        return device.l1_used if which == "held" else device.l1_peak
    if kind == "cb" and which == "held":
        return device.memory.cb.used
    if kind not in ("dram", "l1", "l1_small", "trace"):
        raise BadInput(
            f"there is no {which} figure for {kind!r}; ask for dram, l1, l1_small, trace or l1_used"
        )
    value: int = getattr(getattr(device.memory, kind), which)
    return value
