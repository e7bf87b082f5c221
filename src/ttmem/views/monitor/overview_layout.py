"""How the Overview shares its height between devices and processes; both are always in sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttmem.snapshots import Device
from ttmem.views.ink import EMPTY, Line, Style, clip_line, flow, indent, paragraph
from ttmem.views.monitor.alarms import alarm_lines
from ttmem.views.monitor.amounts import amount_room
from ttmem.views.monitor.device_area import DeviceArea
from ttmem.views.monitor.device_blocks import device_blocks
from ttmem.views.monitor.device_lines import device_lines
from ttmem.views.monitor.device_parts import DeviceParts
from ttmem.views.monitor.fleet import fleet
from ttmem.views.monitor.host_totals import totals_line
from ttmem.views.monitor.page import Look
from ttmem.views.monitor.process_rows import ProcessRow, legend, process_totals
from ttmem.views.no_device import no_device

LOW = 10  # lines; below that only devices and processes have room
AIRY = 30  # lines; from that on, empty lines stand between the parts
BLOCK = 8  # lines for a device at most
LEAST_TABLE = 8  # lines that processes keep, if they need them, when devices have one line each
SHARE = 0.55  # of the height, that devices with more lines than one may take


@dataclass(frozen=True, slots=True)
class OverviewLayout:
    """The parts of the page from top to bottom; the table of processes has the rest."""

    top: list[Line]
    devices: DeviceArea
    between: list[Line]
    table: int  # lines for the table of processes
    below: list[Line]

    @classmethod
    def of(cls, look: Look, rows: Sequence[ProcessRow], chosen: int | None) -> OverviewLayout:
        """`chosen`: index of the device under the cursor, if it is on one."""
        low = look.height < LOW
        gap = [EMPTY] if look.height >= AIRY else []
        top = [] if low else _totals(look)
        top += alarm_lines(look.snapshot, look.width) if look.height > 5 else []
        top += gap if top else []
        between = [] if low else [*gap, process_totals(rows, look)]
        below = [] if low else _legend(rows, look.width)[:1]
        free = look.height - len(top) - len(between) - len(below)
        area = _devices(look, free, len(rows) + 1, chosen)
        table = max(free - len(area.lines), 0)
        return cls(top, area, between, table, below)


def _totals(look: Look) -> list[Line]:
    devices = look.snapshot.devices
    return [totals_line(devices, look.state.units, look.width, look.ascii)] if devices else []


def _legend(rows: Sequence[ProcessRow], width: int) -> list[Line]:
    return [clip_line(line, width) for line in indent(flow(legend(rows), width - 1), 1)]


def _devices(look: Look, free: int, wanted: int, chosen: int | None) -> DeviceArea:
    """The most that fits: blocks, a line for each, a cell for each."""
    room = amount_room(look.state.units, _amounts(look.snapshot.devices))
    devices = [DeviceParts(look, device, room) for device in look.snapshot.devices]
    if not devices:
        lines = indent(paragraph(no_device(look.snapshot), look.width - 1, Style.FAINT), 1)
        return DeviceArea([clip_line(line, look.width) for line in lines[: max(free - 1, 1)]])
    roomy = max(free - wanted, int(free * SHARE))
    for most in range(BLOCK, 1, -1):
        if len(devices) * 2 + 1 <= roomy:
            area = device_blocks(devices, look.width, most, chosen)
            if area is not None and len(area.lines) <= roomy:
                return area
    if len(devices) + 1 <= free - min(wanted, LEAST_TABLE):
        line = device_lines(devices, look.width, chosen)
        if line is not None:
            return line
    least = min(wanted, max(free // 3, 2))
    return fleet(devices, look.width, max(free - least, 1), chosen)


def _amounts(devices: Sequence[Device]) -> Iterator[int | None]:
    """The largest that are shown of each device."""
    for device in devices:
        memory = device.memory
        yield from (memory.dram.held, memory.dram.capacity, device.l1_used, device.l1_capacity)
        yield memory.cb.demand
