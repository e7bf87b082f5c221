"""The optional keys of a snapshot (`--detail`), made from the rows that the ledger hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.events import BinaryStatus, Flag, KernelType, MemoryKind
from ttmem.wire.frames import GRID_LIMIT
from ttmem.wire.rows import BufferRow, CircularBufferRow, KernelRow, ProgramRow, flat_rows

DETAILS = ("programs", "buffers", "cores", "events", "history")

Rows = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Names:
    """What the indices in rows stand for."""

    pids: Mapping[int, int]
    devices: Mapping[int, str]
    strings: Mapping[int, Mapping[int, str]]
    uncounted: Mapping[int, frozenset[int]] = field(
        default_factory=dict
    )  # programs that ran unseen

    def ran_unseen(self, process: int, program: int) -> bool:
        """Were events of that program overwritten before they were read?"""
        return program in self.uncounted.get(process, ())

    def text(self, process: int, number: int) -> str | None:
        """A string that a process declared; None if it named none."""
        return self.strings.get(process, {}).get(number)

    def to_json(self) -> dict[str, Any]:
        """JSON has no numbers as keys: pairs instead."""
        strings = [[p, list(table.items())] for p, table in self.strings.items() if table]
        return {
            "pids": list(self.pids.items()),
            "devices": list(self.devices.items()),
            "strings": strings,
            "uncounted": [[p, sorted(programs)] for p, programs in self.uncounted.items()],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Names:
        """The inverse of `to_json`."""
        strings = {process: dict(pairs) for process, pairs in document["strings"]}
        pairs = document.get("uncounted", ())  # older servers have none
        uncounted = {process: frozenset(programs) for process, programs in pairs}
        return cls(dict(document["pids"]), dict(document["devices"]), strings, uncounted)


def expand(names: Names, attachments: Mapping[str, Rows]) -> dict[str, Any]:
    """The detail keys that the attachments hold."""
    makers: dict[str, Callable[[Names, Rows], list[dict[str, Any]]]] = {
        "buffers": _buffers,
        "l1_buffers": _buffers,
        "circular_buffers": _circular_buffers,
        "kernels": _kernels,
        "programs": _programs,
    }
    return {key: makers[key](names, data) for key, data in attachments.items() if key in makers}


def cores_of(mask: bytes) -> list[list[int]]:
    """[[x, y], ...] of a 128-byte core mask, row by row."""
    bits = int.from_bytes(mask, "little")
    out = []
    while bits:
        at = (bits & -bits).bit_length() - 1
        out.append([at % GRID_LIMIT, at // GRID_LIMIT])
        bits &= bits - 1
    return out


def _owner(names: Names, row: Any) -> dict[str, Any]:
    return {"pid": names.pids.get(row.process), "device": names.devices.get(row.device)}


def _each(
    rows: Iterable[Any], names: Names, make: Callable[[Any], dict[str, Any]]
) -> list[dict[str, Any]]:
    return [{**_owner(names, row), **make(row)} for row in rows]


def _buffers(names: Names, data: Rows) -> list[dict[str, Any]]:
    def make(row: BufferRow) -> dict[str, Any]:
        return {
            "kind": MemoryKind(row.kind).name,
            "id": row.id,
            "address": row.address or None,
            "requested": row.size,
            "reserved": row.reserved or None,
            "references": row.references,
            "time_ns": row.time,
            "name": names.text(row.process, row.name),
            "site": names.text(row.process, row.site),
            "phase": names.text(row.process, row.phase),
        }

    return _each(flat_rows(BufferRow, data), names, make)


def _circular_buffers(names: Names, data: Rows) -> list[dict[str, Any]]:
    def make(row: CircularBufferRow) -> dict[str, Any]:
        return {
            "program": row.program or None,
            "address": row.address,
            "size": row.size,
            "per_core": row.per_core if row.cores else None,
            "global": bool(row.flags & Flag.GLOBAL),
            "dataflow": bool(row.flags & Flag.DATAFLOW),
            "references": row.references,
            "time_ns": row.time,
        }

    return _each(flat_rows(CircularBufferRow, data), names, make)


def _kernels(names: Names, data: Rows) -> list[dict[str, Any]]:
    def make(row: KernelRow) -> dict[str, Any]:
        return {
            "type": KernelType(row.type).name.lower(),
            "id": row.id,
            "program": row.program or None,
            "name": names.text(row.process, row.name),
            "binary": row.binary if row.binary_known else None,
            "cores": row.cores or None,
            "footprint": row.footprint,
            "content": f"{row.content:016x}" if row.content else None,
            "loads": row.loads or None,
            "dispatches": None if names.ran_unseen(row.process, row.program) else row.dispatches,
            "time_ns": row.time,
            "site": names.text(row.process, row.site),
        }

    return _each(flat_rows(KernelRow, data), names, make)


def _programs(names: Names, data: Rows) -> list[dict[str, Any]]:
    def make(row: ProgramRow) -> dict[str, Any]:
        counted = not names.ran_unseen(row.process, row.id)
        seen = counted or row.last_dispatch > 0
        return {
            "program": row.id,
            "status": BinaryStatus(row.status).label if row.status_known else None,
            "dispatches": row.dispatches if counted else None,
            "cache_hits": row.hits if counted else None,
            "cache_misses": row.misses if counted else None,
            "last_dispatch_ns": row.last_dispatch or None,
            "resident": row.resident if seen else None,
            "resident_cores": row.resident_cores if seen else None,
            "name": names.text(row.process, row.name),
            "site": names.text(row.process, row.site),
            "last_site": names.text(row.process, row.last_site),
        }

    return _each(flat_rows(ProgramRow, data), names, make)
