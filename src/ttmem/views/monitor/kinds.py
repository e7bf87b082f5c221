"""How each kind of memory looks, the same in every bar, chart and legend.

Signs differ as colours do: without colours, or for eyes that see them alike, a bar says the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.views.ink import Style


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of memory, or a sum of kinds."""

    title: str
    series: str  # its column in the history
    style: Style
    sign: str
    ascii_sign: str

    def bar_sign(self, ascii: bool) -> str:
        """What its part of a bar is made of."""
        return self.ascii_sign if ascii else self.sign


DRAM = Kind("DRAM", "dram", Style.DRAM, "█", "#")
TRACE = Kind("TRACE", "trace", Style.TRACE, "█", "#")
L1 = Kind("L1", "l1", Style.L1, "█", "#")
L1_SMALL = Kind("L1_SMALL", "l1_small", Style.L1_SMALL, "▓", "=")
CB = Kind("CB", "cb", Style.CB, "▒", "+")
L1_USED = Kind("L1 used", "l1_used", Style.L1, "█", "#")
