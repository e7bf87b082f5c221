"""The client beneath `GraphTracker`: one call for each thing that an application may report.

A report costs about a microsecond and never waits for a server: it packs one event for each device,
applies it to the live set and queues it. `ttmem.client.outbox` describes what happens to it then.
"""

from __future__ import annotations

from time import time_ns

from ttmem.client.devices import DeviceLike
from ttmem.client.lifecycle import UNFIT
from ttmem.client.program_reports import ProgramReports
from ttmem.client.records import BODY
from ttmem.events import MemoryKind

_pack_body = BODY.pack


class AllocationClient(ProgramReports):
    """Reports to the server at a Unix socket, now or when it comes; safe from any thread.

    `path`: the socket; else TTMEM_SOCKET, else the default of the original system.
    `queue_limit`: events that may wait for a slow server.
    `live_limit`: live entries that are remembered for a server that comes later.
    """

    def report_allocation(
        self,
        device: DeviceLike,
        buffer_id: int,
        size: int,
        kind: MemoryKind = MemoryKind.DRAM,
        address: int = 0,
        reserved: int = 0,
        site: str | None = None,
    ) -> None:
        """A buffer was allocated, with so many bytes on each device of a mesh."""
        outbox = self._outbox
        try:
            accounts = outbox.targets.get(device)
        except TypeError:
            accounts = None
        if accounts is None:
            accounts = self._find_accounts(device)
        site_number = 0 if site is None else self._string(site)
        try:
            body = _pack_body(time_ns(), buffer_id, size, reserved, address, 1, 0, 0, site_number)
            with outbox.lock:
                queue = outbox.queue
                for account in accounts:
                    lane = account.buffers[kind]
                    record = lane.alloc_head + body
                    if buffer_id in lane.records:
                        lane.allocate_again(buffer_id, record)
                    elif outbox.room.free > 0:
                        outbox.room.free -= 1
                        lane.records[buffer_id] = record
                    else:
                        outbox.room.overflow += 1
                    if lane.streaming:
                        queue.append(record)
                    else:
                        outbox.unsent += 1
        except UNFIT as error:
            return self._reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()

    def report_deallocation(
        self, device: DeviceLike, buffer_id: int, kind: MemoryKind = MemoryKind.DRAM, size: int = 0
    ) -> None:
        """A buffer was freed, on each device of a mesh."""
        outbox = self._outbox
        try:
            accounts = outbox.targets.get(device)
        except TypeError:
            accounts = None
        if accounts is None:
            accounts = self._find_accounts(device)
        try:
            body = _pack_body(time_ns(), buffer_id, size, 0, 0, 1, 0, 0, 0)
            with outbox.lock:
                queue = outbox.queue
                for account in accounts:
                    lane = account.buffers[kind]
                    if lane.shared and buffer_id in lane.shared:
                        lane.free_one(buffer_id)
                    elif lane.records.pop(buffer_id, None) is not None:
                        outbox.room.free += 1
                    if lane.streaming:
                        queue.append(lane.free_head + body)
                    else:
                        outbox.unsent += 1
        except UNFIT as error:
            return self._reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()
