"""Details of a snapshot from the rows of the native ledger, in this process or received from a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ttmem.errors import BadInput
from ttmem.events import BinaryStatus, Flag, KernelType, MemoryKind
from ttmem.fast_dataclasses import dataclass, field
from ttmem.snapshots.rows import Buffer, CircularBuffer, Kernel, Program, Row
from ttmem.wire.rows import BufferRow, CircularBufferRow, KernelRow, ProgramRow, flat_rows

NativeRows = bytes | memoryview
COLUMNS: dict[str, type[BufferRow | CircularBufferRow | KernelRow | ProgramRow]] = {
    "buffers": BufferRow,
    "l1_buffers": BufferRow,
    "circular_buffers": CircularBufferRow,
    "kernels": KernelRow,
    "programs": ProgramRow,
}


@dataclass(frozen=True, slots=True)
class Names:
    """What the indices in native rows stand for."""

    pids: Mapping[int, int]
    devices: Mapping[int, str]
    strings: Mapping[int, Mapping[int, str]]
    # By process: programs some of whose events were overwritten before they were read.
    uncounted: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def is_counted(self, process: int, program: int) -> bool:
        """Whether all events of that program were read."""
        return program not in self.uncounted.get(process, ())

    def texts(self, process: int) -> Mapping[int, str]:
        """The strings that a process declared."""
        return self.strings.get(process, {})

    def to_json(self) -> dict[str, Any]:
        """JSON has no numbers as keys, so these are pairs."""
        strings = [[p, list(table.items())] for p, table in self.strings.items() if table]
        return {
            "pids": list(self.pids.items()),
            "devices": list(self.devices.items()),
            "strings": strings,
            "uncounted": [[p, sorted(programs)] for p, programs in self.uncounted.items()],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Names:
        return cls(
            _table(document["pids"], int),
            _table(document["devices"], str),
            {process: _table(pairs, str) for process, pairs in document["strings"]},
            {process: frozenset(numbers) for process, numbers in document.get("uncounted", ())},
        )


def _table(pairs: Any, kind: type) -> dict[int, Any]:
    table = dict(pairs)
    if not set(map(type, table.values())) <= {kind}:
        raise ValueError(f"a name is no {kind.__name__}")
    return table


def column_counts(attachments: Mapping[str, NativeRows]) -> dict[str, int]:
    """How many columns the rows of each attachment have."""
    return {key: len(COLUMNS[key]._fields) for key in attachments}


def received(answer: Mapping[str, Any], attachments: Mapping[str, NativeRows]) -> dict[str, Any]:
    """The details in a server's answer; BadInput if it is damaged, or its rows have other columns than ours."""
    own = column_counts({key: rows for key, rows in attachments.items() if key in COLUMNS})
    try:
        told = answer.get("columns", own)  # older servers do not say it
        for key, count in own.items():
            if told.get(key) != count or len(attachments[key]) % (8 * count):
                raise BadInput(
                    f"the server's rows of {key} have other columns than this ttmem knows;"
                    " use the same version of ttmem on both sides"
                )
        return listed(Names.from_json(answer["names"]), attachments)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadInput(f"this snapshot is damaged: {problem}") from problem


def listed(names: Names, attachments: Mapping[str, NativeRows]) -> dict[str, Any]:
    """The attachments as fields of a snapshot."""
    return {
        key: _LISTED[COLUMNS[key]](names, attachments[key]) for key in COLUMNS if key in attachments
    }


_KINDS = {int(kind): kind.name for kind in MemoryKind}
_TYPES = {int(kind): kind.name.lower() for kind in KernelType}


def _buffers(names: Names, data: NativeRows) -> tuple[Buffer, ...]:
    pid, device = names.pids.get, names.devices.get
    texts = {process: names.texts(process).get for process in names.pids}
    return tuple(
        Buffer(
            pid(row.process),
            device(row.device),
            _KINDS[row.kind],
            row.id,
            row.address or None,
            row.size,
            row.reserved or None,
            row.references,
            row.time,
            texts[row.process](row.name),
            texts[row.process](row.site),
            texts[row.process](row.phase),
        )
        for row in flat_rows(BufferRow, data)
    )


def _circular_buffers(names: Names, data: NativeRows) -> tuple[CircularBuffer, ...]:
    return tuple(
        CircularBuffer(
            names.pids.get(row.process),
            names.devices.get(row.device),
            row.program or None,
            row.address,
            row.size,
            row.per_core if row.cores else None,
            bool(row.flags & Flag.GLOBAL),
            bool(row.flags & Flag.DATAFLOW),
            row.references,
            row.time,
        )
        for row in flat_rows(CircularBufferRow, data)
    )


def _kernels(names: Names, data: NativeRows) -> tuple[Kernel, ...]:
    return tuple(
        Kernel(
            names.pids.get(row.process),
            names.devices.get(row.device),
            _TYPES[row.type],
            row.id,
            row.program or None,
            names.texts(row.process).get(row.name),
            row.binary if row.binary_known else None,
            row.cores or None,
            row.footprint,
            f"{row.content:016x}" if row.content else None,
            row.loads or None,
            row.dispatches if names.is_counted(row.process, row.program) else None,
            row.time,
            names.texts(row.process).get(row.site),
        )
        for row in flat_rows(KernelRow, data)
    )


def _programs(names: Names, data: NativeRows) -> tuple[Program, ...]:
    def made(row: ProgramRow) -> Program:
        counted = names.is_counted(row.process, row.id)
        seen = counted or row.last_dispatch > 0
        texts = names.texts(row.process)
        return Program(
            names.pids.get(row.process),
            names.devices.get(row.device),
            row.id,
            BinaryStatus(row.status).label if row.status_known else None,
            row.dispatches if counted else None,
            row.hits if counted else None,
            row.misses if counted else None,
            row.last_dispatch or None,
            row.resident if seen else None,
            row.resident_cores if seen else None,
            texts.get(row.name),
            texts.get(row.site),
            texts.get(row.last_site),
        )

    return tuple(map(made, flat_rows(ProgramRow, data)))


_LISTED: dict[type, Callable[[Names, NativeRows], tuple[Row, ...]]] = {
    BufferRow: _buffers,
    CircularBufferRow: _circular_buffers,
    KernelRow: _kernels,
    ProgramRow: _programs,
}
