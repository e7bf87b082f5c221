"""Kernels and programs of one device: what code is loaded, how large it is, how often it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.snapshots import Device
from ttmem.views.ink import faint
from ttmem.views.monitor import kernel_list, program_list
from ttmem.views.monitor.code_facts import counter_facts, partial_lines, type_facts
from ttmem.views.monitor.entries import program_key, why_none
from ttmem.views.monitor.facts import device_title, fact_lines
from ttmem.views.monitor.kernel_list import KernelEntry
from ttmem.views.monitor.list_page import ListPage
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.page import Drawn, Look
from ttmem.views.monitor.pages.kernels_help import HELP
from ttmem.views.monitor.program_list import ProgramEntry
from ttmem.views.monitor.ring_line import ring_facts
from ttmem.views.monitor.state import State

PROGRAMS = "Programs"  # the choices in the table of programs are its own


class Kernels:
    """Two tables of one device: kernels, and the programs that they belong to."""

    name = "Kernels"
    keys = (("t", "kernels/programs"), ("s", "sort"), ("enter", "its program"))

    def __init__(self) -> None:
        self._programs = False  # the table of programs is shown
        self._crossed = False  # Enter led from the other table

    def details(self, state: State) -> Sequence[str]:
        """Programs bring their kernels and circular buffers."""
        return ("programs",)

    def draw(self, look: Look) -> Drawn:
        """The device, its ring, sums by type, and the chosen table."""
        device = look.device
        if device is None:
            return Drawn(fact_lines([faint(why_none(look.snapshot, "kernels", True))], look, 2))
        return self._page(device, look).draw()

    def key(self, key: str, look: Look) -> str | None:
        """`t` changes the table; Enter goes from a kernel to its program and back."""
        device = look.device
        if device is None:
            return None
        page = self._page(device, look)
        if key == "t":
            self._programs, self._crossed = not self._programs, False
        elif key == "enter":
            self._other_side(page.table.chosen, device, look)
        else:
            page.key(key)
        return None

    def back(self) -> bool:
        """From the other side to where Enter was pressed."""
        crossed, self._crossed = self._crossed, False
        self._programs ^= crossed
        return crossed

    def help(self) -> Sequence[tuple[str, str]]:
        """Each column, and how it is made."""
        return HELP

    def _page(self, device: Device, look: Look) -> ListPage[Any]:
        table = self._program_table if self._programs else self._kernel_table
        above = [
            device_title(device, look),
            *partial_lines(device, look),
            *fact_lines(ring_facts(device.kernels.ring, look), look, 2),
            *fact_lines(type_facts(device, look), look, 2),
            *fact_lines(counter_facts(device, look), look, 2),
        ]
        return ListPage(above, table(device, look), look)

    def _kernel_table(self, device: Device, look: Look) -> Listing[KernelEntry]:
        rows = kernel_list.kernel_entries(look.snapshot, device.unique_id)
        return Listing(
            self.name,
            kernel_list.kernel_columns(look.state.units),
            rows or [],
            look.state,
            first=kernel_list.FIRST,
            empty=why_none(look.snapshot, "kernels", rows is not None, device.unique_id),
        )

    def _program_table(self, device: Device, look: Look) -> Listing[ProgramEntry]:
        rows = program_list.program_entries(look.snapshot, device.unique_id)
        return Listing(
            PROGRAMS,
            program_list.program_columns(look.state.units, program_list.are_named(rows or [])),
            rows or [],
            look.state,
            first=program_list.FIRST,
            empty=why_none(look.snapshot, "programs", rows is not None, device.unique_id),
        )

    def _other_side(self, chosen: object, device: Device, look: Look) -> None:
        """Shows the other table, with the cursor on what belongs to the chosen row."""
        if isinstance(chosen, KernelEntry):
            wanted = program_key(chosen.kernel)
            programs = self._program_table(device, look).rows
            found = [at for at, row in enumerate(programs) if program_key(row.program) == wanted]
        elif isinstance(chosen, ProgramEntry):
            wanted = program_key(chosen.program)
            kernels = self._kernel_table(device, look).rows
            found = [at for at, row in enumerate(kernels) if program_key(row.kernel) == wanted]
        else:
            return
        if found:
            self._programs, self._crossed = not self._programs, not self._crossed
            look.state.of(PROGRAMS if self._programs else self.name).cursor = found[0]
