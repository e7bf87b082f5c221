"""Which chip a client means that knows its devices by number only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.ledger.device_record import DeviceRecord, made_up_id
from ttmem.ledger.merge import owners
from ttmem.ledger.process_record import ProcessRecord

if TYPE_CHECKING:
    from ttmem.ledger.books import Books


def locate(books: Books) -> Iterator[tuple[ProcessRecord, int, DeviceRecord]]:
    """(process, number, device): the same process has a slot in the region that bears that number.

    Numbers are per process (`TT_VISIBLE_DEVICES`), so another process's device of that number proves
    nothing; and where two regions of a process bear the same number, neither does.
    """
    regions: dict[tuple[int, int], list[DeviceRecord]] = {}
    by_index = {}
    for account, process in list(owners(books.counters.samples, books.processes)):
        number = account.sample.logical_id
        if process is not None and number is not None:
            regions.setdefault((process.index, number), []).append(account.device)
            by_index[process.index] = process
    for (index, number), found in regions.items():
        for part in by_index[index].accounts:
            if len(found) == 1 and part.devices.get(number) == made_up_id(number):
                yield part, number, found[0]
