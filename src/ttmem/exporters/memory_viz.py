"""The snapshot that pytorch's memory_viz page opens, as JSON: a window of events, and what was alive before and after.

The page's work grows with frees x live blocks, so a window of some 20,000 events is as much as it can show. It takes
addresses as keys, and those of DRAM, L1, L1_SMALL and TRACE overlap, so each kind gets a range of its own. A buffer
lies at the same address in every bank; multiplied by the number of banks, addresses and reserved sizes fit
together. The blocks of a segment must tile it in order, and every live block must lie in a segment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from heapq import merge
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

from ttmem.events import MemoryKind
from ttmem.exporters.events import EventRow
from ttmem.exporters.profiles import frames
from ttmem.exporters.request import ExportRequest
from ttmem.recording import BufferChange
from ttmem.snapshots import Snapshot

WINDOW = 20_000  # events
_SHIFT = 44  # addresses are smaller; 5 << 44 is below 2^53, the largest exact number of JavaScript
_KINDS = {kind.name: int(kind) for kind in MemoryKind if kind is not MemoryKind.SYSTEM_MEMORY}


class _Block(NamedTuple):
    device: str
    memory: str
    address: int
    size: int
    site: str | None

    @property
    def end(self) -> int:
        return self.address + self.size


_Key = tuple[int, str, str, int]  # serial number of the process, device, memory, buffer id


class _Window:
    """Tracks the blocks of a window, and the highest address of each kind."""

    def __init__(self, banks: Callable[[str, str], int]) -> None:
        self._banks = banks
        self.live: dict[_Key, _Block] = {}
        self.reach: dict[tuple[str, str], tuple[int, int]] = {}

    def change(self, one: BufferChange) -> _Block | None:
        """The block that begins or ends; None if the page cannot show it, because its address is unknown."""
        key = (one.origin.process.serial, one.device, one.kind, one.id)
        if not one.begins:
            return self.live.pop(key, None)
        if not one.address or not one.held:
            return None
        at = (_KINDS[one.kind] << _SHIFT) + one.address * self._banks(one.device, one.kind)
        block = _Block(one.device, one.kind, at, one.held, one.origin.site)
        self.live[key] = block
        low, high = self.reach.get((one.device, one.kind), (at, at))
        self.reach[one.device, one.kind] = (min(low, at), max(high, block.end))
        return block


def write_window(request: ExportRequest, out: BinaryIO) -> None:
    at, (begin, end) = request.at.position, request.span
    first = max(begin, min(at, end) - WINDOW)
    last = min(end, max(at + 1, first + WINDOW))
    failures = (row for row in request.rows((first, last)) if row.event == "allocation_failed")
    after = request.live(request.recording.instant(f"#{last}"))
    devices = [device.unique_id for device in after.devices]
    traces: dict[str, list[dict[str, Any]]] = {device: [] for device in devices}
    window = _Window(cache(request.banks))
    before, *rest = request.recording.stretches(first, last)  # the first: what was alive before
    for change in before.buffers():
        window.change(change)
    changes = (change for stretch in rest for change in stretch.buffers())
    happened: Iterable[BufferChange | EventRow] = merge(
        changes, failures, key=attrgetter("position")
    )
    for one in happened:
        trace = traces.get(one.device or "")
        if trace is None:
            continue
        if isinstance(one, EventRow):
            oom = _entry("oom", one.time_ns, one.op, one.site, 0, one.requested or 0)
            trace.append({**oom, "device_free": _free_bytes(after, one)})
        elif block := window.change(one):
            actions = ("alloc",) if one.begins else ("free_requested", "free_completed")
            code = (one.time_ns, one.origin.op, one.origin.site)
            trace += [_entry(action, *code, block.address, block.size) for action in actions]
    document = {
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
    out.write(json.dumps(document, separators=(",", ":")).encode())


def _entry(
    action: str, time_ns: int, op: str | None, site: str | None, address: int, size: int
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_ns // 1000,
        "frames": _frames(site),
        "user_metadata": op or "",
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
