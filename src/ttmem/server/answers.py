"""What the server answers, in both protocols."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from typing import Any

from ttmem import __version__
from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.ledger import Books
from ttmem.ledger.books import DeviceUse
from ttmem.ledger.details import EVERYTHING, Details, Narrow
from ttmem.procfs import user_title
from ttmem.server.dump_text import kernels_text, remaining_text
from ttmem.server.output import Output
from ttmem.snapshots import DETAILS, to_json
from ttmem.snapshots.detail import column_counts
from ttmem.wire.frames import answer_frame
from ttmem.wire.historical import ARCH_NUMBERS, Head, Message, encode

DUMP_PERIOD = 1.0  # seconds between two of a kind for one user
MAX_DUMPERS = 256


class Answers:
    """Questions to the books. The dumps of the historical protocol go to the output, as in the original."""

    def __init__(
        self,
        books: Books,
        socket_path: str,
        started_ns: int,
        output: Output,
        shm: str | None = None,
    ) -> None:
        self._books = books
        self._output = output
        self._dumped: OrderedDict[tuple[int, Message], float] = OrderedDict()  # when, the last time
        self._host = {
            "ttmem": __version__,
            "server": {"pid": os.getpid(), "socket": socket_path, "started_ns": started_ns},
            "shared_memory": shm,
        }

    # -- the historical protocol -------------------------------------------------------------------------------

    def record(self, head: Head, record_size: int, uid: int) -> bytes | None:
        """The answer record, in the size that was asked; None where none is defined."""
        if head.type in (Message.DUMP_REMAINING, Message.DUMP_KERNELS):
            self._dump(Message(head.type), uid)
            return None
        kind = Message.RESPONSE if head.type == Message.QUERY else Message.DEVICE_INFO_RESPONSE
        declared, use = self._books.device(head.device)
        tail = {"num_devices": self._books.device_count()}
        tail |= {} if declared is None else _hardware(declared)
        tail |= {} if use is None else _usage(use)
        # The original monitor takes the totals of an available device as they are, and has its own, 12 GiB and 75 MiB,
        # for others: unknown totals must not be available, or it shows '25.00 MB / 0.00 B'.
        sized = bool(tail.get("total_dram_size") and tail.get("total_l1_size"))
        tail["is_available"] = int(tail["num_devices"] > 0 if head.device == -1 else sized)
        return encode(record_size, Head(kind, head.device), tail)

    def _dump(self, kind: Message, uid: int) -> None:
        """What the original printed on its own output."""
        now = time.monotonic()
        if now - self._dumped.get((uid, kind), -DUMP_PERIOD) < DUMP_PERIOD:
            self._books.limits.note(user_title(uid), "a dump was not made: one a second is enough")
            return
        self._dumped[uid, kind] = now
        if len(self._dumped) > MAX_DUMPERS:
            self._dumped.popitem(last=False)
        make = remaining_text if kind is Message.DUMP_REMAINING else kernels_text
        self._output.write(f"{make(self._books)}\n".encode())

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
        snapshot = details.add(self._books.snapshot(now, self._host), wanted)
        attachments = details.attachments(wanted)
        answer: dict[str, Any] = {"snapshot": to_json(snapshot)}
        if attachments:
            answer["names"] = details.names(attachments).to_json()
            answer["columns"] = column_counts(attachments)
        return answer_frame(answer, attachments)


def _known(fields: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if value is not None}


def _hardware(declared: DeviceDeclaration) -> dict[str, int]:
    dram = declared.banks(MemoryKind.DRAM)
    return _known(
        {
            "total_dram_size": dram.capacity,
            "total_l1_size": declared.l1_total or declared.l1_capacity,
            "arch_type": ARCH_NUMBERS.get(declared.arch or ""),
            "num_dram_channels": dram.number,
            "dram_size_per_channel": dram.size,
            "l1_size_per_core": declared.l1_per_core,
            "ringbuffer_total_size": declared.ring_capacity,
        }
    )


def _usage(use: DeviceUse) -> dict[str, int]:
    return _known(
        {
            "dram_allocated": use.held[MemoryKind.DRAM],
            "l1_allocated": use.held[MemoryKind.L1],
            "l1_small_allocated": use.held[MemoryKind.L1_SMALL],
            "trace_allocated": use.held[MemoryKind.TRACE],
            "cb_allocated": use.cb_used,
            "kernel_allocated": use.footprint,
            "total_l1_size": use.l1_total,
            "ringbuffer_total_size": use.ring_capacity,
            "ringbuffer_used_bytes": use.ring_occupied,
            "ringbuffer_num_programs": use.ring_programs,
        }
    )


def _narrow(question: dict[str, Any]) -> tuple[Narrow, str | None]:
    """What the question is narrowed to, and what is wrong with that."""
    device, limit = question.get("device"), question.get("limit")
    if device is not None and not isinstance(device, str):
        return EVERYTHING, f"device is a unique id, a text, not {device!r:.60}"
    if limit is not None and (type(limit) is not int or limit < 1):
        return EVERYTHING, f"limit is a whole number of rows, 1 or more, not {limit!r:.60}"
    return Narrow(device, limit), None
