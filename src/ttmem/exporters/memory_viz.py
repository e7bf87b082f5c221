"""The snapshot that pytorch's memory_viz page opens, as JSON: a window of events, and what was alive before and after.

The page's work grows with frees x live blocks, so a window of some 20,000 events is as much as it can show. It takes
addresses as keys, and those of DRAM, L1, L1_SMALL and TRACE overlap, so each kind gets a range of its own. A buffer
lies at the same address in every bank; multiplied by the number of banks, addresses and reserved sizes fit
together. The blocks of a segment must tile it in order, and every live block must lie in a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ttmem.events import MemoryKind, Op
from ttmem.exporters.events import EventRow
from ttmem.exporters.frames import frames
from ttmem.snapshots import Snapshot

WINDOW = 20_000  # events
Banks = Callable[[str, str], int]  # how many banks a device has for a kind of memory
_SHIFT = 44  # addresses are smaller; 5 << 44 is below 2^53, the largest exact number of JavaScript
_KINDS = {kind.name: int(kind) for kind in MemoryKind if kind is not MemoryKind.SYSTEM_MEMORY}
_ALLOC, _FREE = Op.ALLOC.name.lower(), Op.FREE.name.lower()


class _Block(NamedTuple):
    device: str
    memory: str
    address: int
    size: int
    site: str | None

    @property
    def end(self) -> int:
        return self.address + self.size


_Key = tuple[int | None, str, str, int]  # pid, device, memory, buffer id


class _Window:
    """Follows the blocks of a window, and remembers how far their addresses reach."""

    def __init__(self, banks: Banks) -> None:
        self._banks = banks
        self.live: dict[_Key, _Block] = {}
        self.reach: dict[tuple[str, str], tuple[int, int]] = {}

    def add(
        self, key: _Key, address: int | None, held: int | None, site: str | None
    ) -> _Block | None:
        """None if the page cannot show it: its address is unknown."""
        _, device, memory, _ = key
        if not address or not held or memory not in _KINDS:
            return None
        at = (_KINDS[memory] << _SHIFT) + address * self._banks(device, memory)
        block = self.live[key] = _Block(device, memory, at, held, site)
        low, high = self.reach.get((device, memory), (at, at))
        self.reach[device, memory] = (min(low, at), max(high, block.end))
        return block

    def free(self, row: EventRow) -> _Block | None:
        """The historical protocol frees a buffer without naming its kind."""
        kinds = (row.memory,) if row.memory else tuple(_KINDS)
        keys = ((row.pid, row.device or "", kind, row.id or 0) for kind in kinds)
        return next((self.live.pop(key) for key in keys if key in self.live), None)


def memory_viz(
    before: Snapshot, rows: Iterable[EventRow], after: Snapshot, banks: Banks
) -> dict[str, Any]:
    """`rows` are the events between the two snapshots, which have the detail `buffers`."""
    devices = [device.unique_id for device in after.devices]
    traces: dict[str, list[dict[str, Any]]] = {device: [] for device in devices}
    window = _Window(banks)
    for b in before.buffers or ():
        if b.device in traces:
            window.add((b.pid, b.device or "", b.kind, b.id), b.address, b.held, b.site)
    for row in rows:
        trace = traces.get(row.device or "")
        if trace is None:
            continue
        if row.event == _ALLOC:
            key = (row.pid, row.device or "", row.memory or "", row.id or 0)
            held = row.reserved or row.requested
            if block := window.add(key, row.address, held, row.site):
                trace.append(_entry("alloc", row, block.address, block.size))
        elif row.event == _FREE:
            if freed := window.free(row):
                trace.append(_entry("free_requested", row, freed.address, freed.size))
                trace.append(_entry("free_completed", row, freed.address, freed.size))
        elif row.event == "allocation_failed":
            free = _free_bytes(after, row)
            trace.append({**_entry("oom", row, 0, row.requested or 0), "device_free": free})
    return {
        "segments": [
            _segment(
                devices.index(device),
                memory,
                reach,
                [one for one in window.live.values() if one[:2] == (device, memory)],
            )
            for (device, memory), reach in sorted(window.reach.items())
        ],
        "device_traces": list(traces.values()),
        "allocator_settings": {"exporter": "ttmem", "devices": devices},
    }


def _entry(action: str, row: EventRow, address: int, size: int) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": row.time_ns // 1000,
        "frames": _frames(row.site),
        "user_metadata": row.op or "",
    }


def _frames(site: str | None) -> list[dict[str, Any]]:
    return [
        {"filename": one.file or "", "line": one.line or 0, "name": one.function}
        for one in frames(site)
    ]


def _free_bytes(snapshot: Snapshot, row: EventRow) -> int:
    device = snapshot.device(row.device or "")
    use = getattr(device.memory, (row.memory or "").lower(), None) if device else None
    return (use.free or 0) if use is not None else 0


def _segment(
    number: int, memory: str, reach: tuple[int, int], live: Iterable[_Block]
) -> dict[str, Any]:
    low, high = reach
    blocks: list[dict[str, Any]] = []
    at = low
    for block in sorted(live, key=lambda one: one.address):
        if block.address < at:  # two processes share the chip: their addresses overlap
            continue
        if block.address > at:
            blocks.append({"address": at, "size": block.address - at, "state": "inactive"})
        shown = {"address": block.address, "size": block.size, "requested_size": block.size}
        blocks.append({**shown, "state": "active_allocated", "frames": _frames(block.site)})
        at = block.end
    if at < high:
        blocks.append({"address": at, "size": high - at, "state": "inactive"})
    held = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {
        "device": number,
        "address": low,
        "total_size": high - low,
        "allocated_size": held,
        "active_size": held,
        "requested_size": held,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": [0, _KINDS[memory]],
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
