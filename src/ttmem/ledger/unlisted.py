"""Live buffers that a probe's table had no room for: their sums are known, so that totals stay exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.events import Event, Flag, MemoryKind, Op
from ttmem.ledger.process_record import ProcessRecord
from ttmem.wire.rows import AccountRow

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeNews
    from ttmem.ledger.books import Books

ID = 1 << 56  # ids of the probe are shorter
NAME = 0xFFFFFFFF  # the probe numbers its strings from 1
TEXT = "buffers beyond the probe's table"
Amount = tuple[int, int]  # requested, reserved


class Unlisted:
    """One entry for each kind on each device: what the counters have, and no single entry does."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._entered: dict[tuple[int, int, MemoryKind], Amount] = {}

    def settle(
        self,
        process: ProcessRecord,
        news: ProbeNews,
        rows: dict[tuple[int, int], AccountRow],
        now: int,
    ) -> None:
        """Brings the entries of a process in line with its counters; `rows` follow."""
        if news.live is not None:  # reading the table has swept what is not in it
            self.forget(process)
        if not (news.unlisted or self.has(process)):
            return
        self._books.define_string(process, NAME, TEXT)
        devices = self._books.device_indices(process)
        for chip, counted in news.counters.items():
            row = rows.get((process.index, devices.get(chip, -1)))
            for kind in MemoryKind:
                if row is not None:
                    key = (process.index, chip, kind)
                    old = self._entered.get(key, (0, 0))
                    requested = counted.kinds[kind].requested - (row.requested[kind] - old[0])
                    reserved = counted.kinds[kind].reserved - (row.held[kind] - old[1])
                    new = (requested, reserved) if news.unlisted and requested > 0 else (0, 0)
                    self._enter(process, key, new, now)
        rows.update({(row.process, row.device): row for row in self._books.event_rows()})

    def has(self, process: ProcessRecord) -> bool:
        """Are there any of it?"""
        return any(key[0] == process.index for key in self._entered)

    def forget(self, process: ProcessRecord) -> None:
        """It is released."""
        for key in [key for key in self._entered if key[0] == process.index]:
            del self._entered[key]

    def _enter(
        self,
        process: ProcessRecord,
        key: tuple[int, int, MemoryKind],
        amount: Amount,
        now: int,
    ) -> None:
        if amount == self._entered.get(key, (0, 0)):
            return
        _, chip, kind = key
        blank = Event(Op.FREE, kind, Flag.KIND_KNOWN | Flag.RESENT, chip, id=ID)
        self._books.account(process, blank.pack(), now)
        self._entered.pop(key, None)
        if amount[0]:
            entry = blank._replace(op=Op.ALLOC, size=amount[0], extra=max(amount[1], 0), name=NAME)
            self._books.account(process, entry.pack(), now)
            self._entered[key] = amount
