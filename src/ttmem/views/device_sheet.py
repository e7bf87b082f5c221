"""The rooms that every device of a table shares, so that figures stand under figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ttmem.sizes import human
from ttmem.snapshots import Device
from ttmem.views.device_facts import AMOUNT, DeviceFacts, Figures, device_facts
from ttmem.views.ink import EMPTY, Line, Span, faint, ink, line_columns, pad
from ttmem.views.meter import meter, of_capacity
from ttmem.views.names import short_ids

GAP = 2
LEAST_METER = 16  # '!! over capacity'
MOST_METER = 34


@dataclass(frozen=True, slots=True)
class DeviceSheet:
    """The facts of all devices, and how wide their figures are."""

    facts: Sequence[DeviceFacts]
    number: int
    used: int
    limit: int

    @classmethod
    def of(cls, devices: Sequence[Device]) -> DeviceSheet:
        """The sheet of these devices."""
        facts = [device_facts(device) for device in devices]
        figures = [pair for one in facts for pair in (one.dram, one.l1)]
        return cls(
            facts=facts,
            number=max(len("ID"), *(len(one.number) for one in facts)),
            used=max(AMOUNT, *(len(human(used)) for used, _ in figures)),
            limit=max(len(human(limit)) for _, limit in figures),
        )

    @property
    def cell(self) -> int:
        """Columns of 'used / capacity'."""
        return self.used + self.limit + 3

    def short_ids(self, room: int) -> dict[str, str]:
        """Unique ids in that room, if they stay different."""
        return short_ids((one.unique_id for one in self.facts), room)

    def numbered(self, one: DeviceFacts) -> list[Line]:
        """The logical id."""
        return [ink(one.number.rjust(self.number))]

    def metered(self, figures: Figures, room: int) -> Line:
        """'used / capacity', bar and percentage."""
        bar = min(room - self.cell - 1, MOST_METER)
        return (*of_capacity(*figures, self.used, self.limit), Span(" "), *meter(*figures, bar))


def widest(blocks: Sequence[Sequence[Line]]) -> int:
    """Columns of the widest line in any block."""
    return max((line_columns(line) for block in blocks for line in block), default=0)


def heads(titles: Sequence[str], rooms: Sequence[int]) -> list[Line]:
    """The line of titles."""
    return beside([[faint(title)] for title in titles], rooms)


def beside(blocks: Sequence[Sequence[Line]], rooms: Sequence[int]) -> list[Line]:
    """Blocks of lines next to each other, one column in from the left."""
    out: list[Line] = []
    for cells in zip_longest(*blocks, fillvalue=EMPTY):
        line: list[Span] = [Span(" ")]
        for cell, room in zip(cells[:-1], rooms[:-1], strict=True):
            line += [*pad(cell, room), Span(" " * GAP)]
        out.append((*line, *cells[-1]))
    return out
