"""The largest live buffers: who holds them, where they lie, which line of code made them."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.views.ink import Line, Style, clip_line, ink
from ttmem.views.monitor.buffer_facts import buffer_facts
from ttmem.views.monitor.buffer_list import FIRST, BufferEntry, buffer_columns, buffer_entries
from ttmem.views.monitor.entries import device_names, why_none, words
from ttmem.views.monitor.facts import device_title, fact_lines
from ttmem.views.monitor.list_page import ListPage
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.page import Drawn, Look
from ttmem.views.monitor.state import State


class Buffers:
    """Buffers of all devices, or of the chosen one."""

    name = "Buffers"
    keys = (("a", "all devices/chosen"), ("s", "sort"), ("enter", "its device"))

    def __init__(self) -> None:
        self._all = True  # devices

    def details(self, state: State) -> Sequence[str]:
        """Its one detail."""
        return ("buffers",)

    def draw(self, look: Look) -> Drawn:
        """What is listed, what it adds up to, and the list."""
        return self._page(look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """`a` changes which devices are shown; Enter goes to the device of the chosen buffer."""
        page = self._page(look)
        if key == "a":
            self._all = not self._all
            look.state.of(self.name).cursor = 0
        elif key == "enter" and page.table.chosen:
            look.state.device = words(page.table.chosen.entry, "device") or look.state.device
            return "Device"
        else:
            page.key(key)
        return None

    def help(self) -> Sequence[tuple[str, str]]:
        """Each column, and how it is made."""
        return HELP

    def _page(self, look: Look) -> ListPage[BufferEntry]:
        several = self._all and len(look.snapshot.devices) > 1
        chosen = None if several else look.device
        devices = look.snapshot.devices if chosen is None else (chosen,)
        rows = buffer_entries(look.snapshot, chosen.unique_id if chosen else None)
        names = device_names(devices).values()
        table = Listing(
            self.name,
            buffer_columns(look.state.units, names, chosen is None, _has_phases(rows or [])),
            rows or [],
            look.state,
            first=FIRST,
            empty=why_none(
                look.snapshot, "buffers", rows is not None, chosen.unique_id if chosen else None
            ),
        )
        title = device_title(chosen, look) if chosen else _all_title(look)
        facts = buffer_facts(devices, rows, table.rows, look) if rows else []
        return ListPage([title, *fact_lines(facts, look, 2)], table, look)


def _has_phases(rows: Sequence[BufferEntry]) -> bool:
    return any(words(row.entry, "phase") for row in rows)


def _all_title(look: Look) -> Line:
    count = len(look.snapshot.devices)
    return clip_line(
        ink(f" all {count:,} devices" if count > 1 else f" {count or 'no'} device", Style.LABEL),
        look.width,
    )


HELP = (
    (
        "the largest N of M",
        "N buffers are listed; M are alive, by the counts of each device. A device's own page and"
        " `ttmem ps --json --detail buffers` have the rest",
    ),
    ("holding A of B", "A: what the listed ones hold; B: what all buffers hold, without CBs"),
    ("KIND", "where it lives; SYSTEM_MEMORY is memory of the host, and in no sum"),
    ("REQUESTED", "bytes asked for"),
    (
        "RESERVED",
        "bytes taken: per-bank block x all banks, because allocation is lock-step; N/A where the"
        " client does not tell",
    ),
    ("ADDRESS", "device address in every bank; N/A where the client does not tell"),
    ("AGE", "time since it was allocated"),
    (
        "NAME, CALL SITE",
        "under the probe the operation and the line of Python that made it; else what the client tells",
    ),
    ("PHASE", "what the program was doing, as it said with ttmem.phase()"),
    ("OWNER", "command of the process"),
)
