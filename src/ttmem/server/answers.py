"""What the server answers, in both protocols."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ttmem import __version__
from ttmem.ledger import Books
from ttmem.ledger.details import EVERYTHING, Details, Narrow
from ttmem.server.dump_text import kernels_text, remaining_text
from ttmem.snapshots import Device, to_json
from ttmem.snapshots.detail import DETAILS
from ttmem.wire.frames import answer_frame
from ttmem.wire.historical import ARCH_NUMBERS, Head, Message, encode


class Answers:
    """Questions to the books. `write` takes the dumps that the historical protocol wants in the log."""

    def __init__(
        self,
        books: Books,
        socket_path: str,
        started_ns: int,
        write: Callable[[str], None],
        shm: str | None = None,
    ) -> None:
        self._books = books
        self._write = write
        self._host = {
            "ttmem": __version__,
            "server": {"pid": os.getpid(), "socket": socket_path, "started_ns": started_ns},
            "shared_memory": shm,
        }

    # -- the historical protocol -------------------------------------------------------------------------------

    def record(self, head: Head, record_size: int) -> bytes | None:
        """The answer record, in the size that was asked; None where none is defined."""
        if head.type in (Message.DUMP_REMAINING, Message.DUMP_KERNELS):
            self.dump(Message(head.type))
            return None
        devices = [device for device in self._books.devices if device.shown]
        found = self._books.device(head.device)
        kind = Message.RESPONSE if head.type == Message.QUERY else Message.DEVICE_INFO_RESPONSE
        tail: dict[str, int] = {"num_devices": len(devices), "is_available": int(bool(devices))}
        if found is not None:
            tail |= self._device_tail(found)
        return encode(record_size, Head(kind, head.device), tail)

    def _device_tail(self, device: Device) -> dict[str, int]:
        memory, ring = device.memory, device.kernels.ring
        declared = next(
            d for d in self._books.devices if d.unique_id == device.unique_id
        ).declaration
        known: dict[str, int | None] = {
            "dram_allocated": memory.dram.held,
            "l1_allocated": memory.l1.held,
            "l1_small_allocated": memory.l1_small.held,
            "trace_allocated": memory.trace.held,
            "cb_allocated": memory.cb.used,
            "kernel_allocated": device.kernels.footprint.total,
            "total_dram_size": memory.dram.capacity,
            "total_l1_size": device.l1_total or device.l1_capacity,
            "arch_type": ARCH_NUMBERS.get(device.arch or ""),
            "num_dram_channels": declared.dram_banks,
            "dram_size_per_channel": declared.dram_bank_size,
            "l1_size_per_core": declared.l1_per_core,
            "ringbuffer_total_size": ring.capacity,
            "ringbuffer_used_bytes": ring.occupied,
            "ringbuffer_num_programs": ring.programs,
        }
        return {name: value for name, value in known.items() if value is not None}

    def dump(self, kind: Message) -> None:
        """What the original printed on its own output."""
        make = remaining_text if kind is Message.DUMP_REMAINING else kernels_text
        self._write(make(self._books))

    # -- ttmem's own protocol ----------------------------------------------------------------------------------

    def query(self, document: dict[str, Any], now: int) -> list[bytes]:
        """An ANSWER frame in pieces; what is wrong with the question is in it too."""
        what = document.get("what")
        if what == "snapshot":
            return self._snapshot(document, now)
        if what == "reset_peak":
            unique_id = document.get("unique_id")
            if not self._books.reset_peak(unique_id):
                return answer_frame({"error": f"there is no device {unique_id!r}"})
            return answer_frame({"done": True})
        return answer_frame(
            {"error": f"there is no question {what!r}; known are snapshot and reset_peak"}
        )

    def _snapshot(self, document: dict[str, Any], now: int) -> list[bytes]:
        wanted = document.get("detail") or []
        if not isinstance(wanted, list) or any(name not in DETAILS for name in wanted):
            return answer_frame({"error": f"details are a list of {', '.join(DETAILS)}"})
        narrow, problem = _narrow(document)
        if problem:
            return answer_frame({"error": problem})
        details = Details(self._books, narrow)
        picture = to_json(self._books.snapshot(now, self._host)) | details.documents(wanted)
        attachments = details.attachments(wanted)
        answer: dict[str, Any] = {"snapshot": picture}
        if attachments:
            answer["names"] = details.names(attachments).to_json()
        return answer_frame(answer, attachments)


def _narrow(question: dict[str, Any]) -> tuple[Narrow, str | None]:
    """What the question is narrowed to, and what is wrong with that."""
    device, limit = question.get("device"), question.get("limit")
    if device is not None and not isinstance(device, str):
        return EVERYTHING, f"device is a unique id, a text, not {device!r:.60}"
    if limit is not None and (type(limit) is not int or limit < 1):
        return EVERYTHING, f"limit is a whole number of rows, 1 or more, not {limit!r:.60}"
    return Narrow(device, limit), None
