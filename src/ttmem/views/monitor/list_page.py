"""A page that is a list with a few lines above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from ttmem.views.ink import EMPTY, Line
from ttmem.views.monitor.list_columns import Row
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.page import Drawn, Look

LEAST_LIST = 5  # lines that the list keeps, whatever stands above it


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Row]):
    """The lines above, most important first, and the list; the lines give way when it is low."""

    above: Sequence[Line]
    table: Listing[Row]
    look: Look
    below: Sequence[Line] = ()  # as many lines as the page has for them

    def draw(self) -> Drawn:
        """Both, in the page's size."""
        above = self._above
        table = self.table.draw(self.look.width, self._height, len(above), self.look.ascii)
        gap = [EMPTY] * (self._height - len(table.lines) if self.below else 0)
        return Drawn([*above, *table.lines, *gap, *self.below], table.targets)

    def key(self, key: str) -> bool:
        """A key for the list; False if it has no use for it."""
        return self.table.key(key, self._height)

    @property
    def _above(self) -> list[Line]:
        room = max(self.look.height - LEAST_LIST - len(self.below), 0)
        roomy = 2 * len(self.above) < room
        return [*self.above, EMPTY] if roomy else list(self.above[:room])

    @property
    def _height(self) -> int:
        return self.look.height - len(self._above) - len(self.below)
