"""The probe counts on its own, beside its events: the two must agree, to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.events import MemoryKind
from ttmem.ledger.process_record import ProcessRecord
from ttmem.sizes import human
from ttmem.snapshots import Anomaly
from ttmem.wire.rows import AccountRow

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeCounters, ProbeNews

PATIENCE = 3  # looks in a row: counters and events are not read at the same instant
Place = tuple[int, int]  # process index, device index
Difference = tuple[int, ...]  # bytes by kind of memory, then of circular buffers


@dataclass(slots=True)
class Doubt:
    """A difference that stays the same."""

    difference: Difference
    looks: int = 1
    rebuilt: bool = False  # and is there again after the live table was read


class ProbeChecks:
    """First a lasting difference is repaired from the live table; one that is left is an anomaly."""

    def __init__(self) -> None:
        self._doubts: dict[Place, Doubt] = {}
        self._to_rebuild: set[int] = set()

    def look(
        self,
        process: ProcessRecord,
        news: ProbeNews,
        devices: Mapping[int, int],
        rows: Mapping[Place, AccountRow],
    ) -> None:
        """One more look at all devices of a process."""
        for chip, counted in news.counters.items():
            place = (process.index, devices.get(chip, -1))
            difference = _difference(counted, rows.get(place))
            if not any(difference):
                self._doubts.pop(place, None)
                continue
            doubt = self._doubts.get(place)
            if doubt is None or doubt.difference != difference:
                rebuilt = doubt is not None and doubt.rebuilt
                self._doubts[place] = Doubt(difference, rebuilt=rebuilt)
                continue
            doubt.looks += 1
            if doubt.looks == PATIENCE and not doubt.rebuilt:
                self._to_rebuild.add(process.index)
                self._doubts[place] = Doubt(difference, rebuilt=True)

    def take_doubts(self) -> set[int]:
        """Processes whose live table is to be read now."""
        wanted, self._to_rebuild = self._to_rebuild, set()
        return wanted

    def forget(self, process: ProcessRecord) -> None:
        """It is released."""
        self._to_rebuild.discard(process.index)
        for place in [place for place in self._doubts if place[0] == process.index]:
            del self._doubts[place]

    def odd(self, processes: Mapping[int, ProcessRecord]) -> Iterator[tuple[Place, Anomaly]]:
        """What reading the live table did not explain."""
        for place, doubt in self._doubts.items():
            if doubt.rebuilt and doubt.looks >= PATIENCE:
                yield place, _anomaly(processes[place[0]], doubt.difference)


def _difference(counted: ProbeCounters, row: AccountRow | None) -> Difference:
    held = row.held if row is not None else (0,) * len(MemoryKind)
    demand = row.cb_demand if row is not None else 0
    kinds = [counted.kinds[kind].reserved - held[kind] for kind in MemoryKind]
    return (*kinds, counted.cb_demand - demand)


def _anomaly(process: ProcessRecord, difference: Difference) -> Anomaly:
    names = [*(kind.name for kind in MemoryKind), "circular buffers"]
    parts = [
        f"{human(abs(amount))} {'more' if amount > 0 else 'less'} {name}"
        for name, amount in zip(names, difference, strict=True)
        if amount
    ]
    text = (
        f"{process.title}: the probe's counters have {', '.join(parts)} than its events and its table, which"
        " count; please report this"
    )
    return Anomaly("probe_counters", text, process.pid, sum(map(abs, difference)))
