"""Operations, as far as events tell: which op and call site caused each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ttmem.exporters.events import EventRow, event_rows
from ttmem.recording import Batch, RecordedProcess


@dataclass(slots=True)
class Operation:
    """Events in a row, of one process, that name the same op and call site.

    Events do not say where an op begins and ends: it is at least as long as from its first to its last event. A
    row without an op belongs to the operation before it.
    """

    process: RecordedProcess
    name: str | None
    site: str | None
    rows: list[EventRow] = field(default_factory=list)

    @property
    def first_ns(self) -> int:
        return self.rows[0].time_ns

    @property
    def last_ns(self) -> int:
        return max(self.first_ns, self.rows[-1].time_ns)


MOST_ROWS = 65_536  # of one operation, so that memory stays bounded


def operations(batches: Iterable[Batch]) -> Iterator[Operation]:
    """In the order in which they end; every event is in exactly one of them."""
    current: dict[int, Operation] = {}
    for batch in batches:
        serial = batch.process.serial
        for row in event_rows(batch):
            now = current.get(serial)
            other = (
                now is not None
                and row.op is not None
                and (row.op, row.site) != (now.name, now.site)
            )
            if now is None or other or len(now.rows) >= MOST_ROWS:
                if now is not None:
                    yield now
                now = current[serial] = Operation(batch.process, row.op, row.site)
            now.rows.append(row)
    yield from current.values()
