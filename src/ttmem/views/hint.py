"""The advice on circular buffers, when it applies (docs/circular-buffers.md)."""

from __future__ import annotations

from ttmem.sizes import human
from ttmem.snapshots import Device, Snapshot
from ttmem.views.ages import age
from ttmem.views.device_facts import cb_measure
from ttmem.views.names import DeviceNames

PAGE = "docs/circular-buffers.md"
SMALLEST = 1 << 20  # bytes; below that there is nothing to gain
SHARE = 4  # a quarter of the capacity; a device that is nearly empty needs no advice


def hint(snapshot: Snapshot, earlier: Snapshot | None = None) -> list[str]:
    """Sentences; none if circular buffers are neither most of L1 nor growing."""
    names = DeviceNames(snapshot.devices)
    growth = {d.unique_id: _growth(d, earlier) for d in snapshot.devices}
    growing = [unique_id for unique_id, more in growth.items() if more > 0]
    large = [device for device in snapshot.devices if _is_large(device)]
    out = []
    if growing:
        more = human(sum(growth[unique_id] for unique_id in growing))
        since = age(snapshot.time_ns - earlier.time_ns) if earlier else ""
        out.append(
            f"circular buffers grew by {more} in {since} on {names.sentence(growing)}: programs of"
            f" new shapes are being cached; flat means that all shapes are known ({PAGE})"
        )
    if large:
        out.append(_large(large, names, flat=earlier is not None and not growing))
    shared = [device for device in snapshot.devices if _shares_beyond_capacity(device)]
    if shared:
        out.append(_shared(shared, names))
    return out


def _growth(device: Device, earlier: Snapshot | None) -> int:
    before = earlier.device(device.unique_id) if earlier else None
    if before is None or not _matters(device):
        return 0
    now, then = device.memory.cb, before.memory.cb
    if now.demand is None or then.demand is None:
        return now.used - then.used
    return now.demand - then.demand


def _is_large(device: Device) -> bool:
    used = device.memory.cb.used
    return used >= SMALLEST and 2 * used > device.l1_used and _matters(device)


def _matters(device: Device) -> bool:
    """An unknown capacity may be a small one."""
    capacity = _capacity(device)
    return capacity is None or SHARE * device.memory.cb.used >= capacity


def _shares_beyond_capacity(device: Device) -> bool:
    """The plain sum is impossible as a use of L1: whoever sees it elsewhere wants to know why."""
    cb = device.memory.cb
    if cb.cached is None or cb.demand is None:
        return False
    return cb.demand > max(cb.cached, _capacity(device) or cb.demand)


def _shared(devices: list[Device], names: DeviceNames) -> str:
    demand = human(sum(device.memory.cb.demand or 0 for device in devices))
    cached = human(sum(device.memory.cb.cached or 0 for device in devices))
    where = names.sentence(device.unique_id for device in devices)
    return (
        f"the circular buffers of all cached programs on {where} add up to {demand}, more than L1 has;"
        f" they share addresses and take {cached} together ({PAGE})"
    )


def _large(devices: list[Device], names: DeviceNames, flat: bool) -> str:
    amount = human(sum(device.memory.cb.used for device in devices))
    where = names.sentence(device.unique_id for device in devices)
    by_demand = any(cb_measure(device.memory.cb) != "cached" for device in devices)
    return (
        f"circular buffers of cached programs hold {amount} of L1 on {where}"
        f"{' and stay flat: all shapes are cached' if flat else ''}"
        f"{' (a plain sum: programs that share addresses are added up)' if by_demand else ''}"
        f"; fewer distinct shapes, or clearing the program cache, frees them ({PAGE})"
    )


def _capacity(device: Device) -> int | None:
    """For advice, that of the defaults is good enough."""
    return device.l1_capacity if device.l1_capacity is not None else device.l1_capacity_default
