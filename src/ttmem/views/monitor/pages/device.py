"""One device in depth."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.snapshots import Device
from ttmem.views.ink import Style, clip_line, indent, paragraph
from ttmem.views.monitor.device_layout import DeviceLayout
from ttmem.views.monitor.device_panels import SCROLL
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.page import Drawn, Look
from ttmem.views.monitor.pages.device_help import HELP
from ttmem.views.monitor.process_rows import FIRST, ProcessRow, process_columns, process_rows
from ttmem.views.monitor.state import State
from ttmem.views.no_device import no_device

NOBODY = "no process holds memory here"


class DevicePage:
    """Charts of its past, its memory kind by kind, its kernel code, and who holds it."""

    name = "Device"
    keys = (("c", "other charts"), ("s", "sort"), ("enter", "buffers of the process"))

    def details(self, state: State) -> Sequence[str]:
        """Sums are enough; the past comes with every picture."""
        return ()

    def draw(self, look: Look) -> Drawn:
        """The chosen device."""
        device = look.device
        if device is None:
            lines = indent(paragraph(no_device(look.snapshot), look.width - 1, Style.FAINT), 1)
            return Drawn([clip_line(line, look.width) for line in lines[: look.height]])
        table = _table(device, look)
        layout = DeviceLayout.of(device, look, len(table.rows))
        drawn = table.draw(look.width, layout.table, len(layout.above), look.ascii)
        lines = [*layout.above, *drawn.lines, *layout.below]
        return Drawn([clip_line(line, look.width) for line in lines[: look.height]], drawn.targets)

    def key(self, key: str, look: Look) -> str | None:
        """`c` turns the charts, Enter goes to the buffers of a process."""
        device = look.device
        if device is None:
            return None
        table = _table(device, look)
        if key == "c":
            look.state.of(SCROLL).cursor += 1
        elif key == "enter" and table.chosen is not None:
            look.state.filter = str(table.chosen.pid)
            return "Buffers"
        else:
            table.key(key, DeviceLayout.of(device, look, len(table.rows)).table)
        return None

    def help(self) -> Sequence[tuple[str, str]]:
        """Each figure, and how it is made."""
        return HELP


def _table(device: Device, look: Look) -> Listing[ProcessRow]:
    rows = process_rows(look.snapshot, device.unique_id)
    columns = process_columns(look.state.units)
    return Listing(
        DevicePage.name, columns, rows, look.state, first=FIRST, empty=NOBODY, noun="process"
    )
