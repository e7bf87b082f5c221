"""How the Device page shares its height between charts, figures and processes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ttmem.snapshots import Device
from ttmem.views.ink import EMPTY, Line, faint
from ttmem.views.monitor.breakdown import breakdown
from ttmem.views.monitor.device_code import code_lines
from ttmem.views.monitor.device_panels import device_panels
from ttmem.views.monitor.facts import device_title
from ttmem.views.monitor.page import Look
from ttmem.views.monitor.provenance_lines import provenance_lines
from ttmem.views.note import note_lines
from ttmem.views.notes import anomaly_notes, missing_notes
from ttmem.views.source_notes import quiet_notes

AIRY = 34  # lines; from that on, empty lines stand between the parts
CHARTS = 5  # lines that charts keep before code has any
ROOMY = 16  # lines that charts keep before provenance has any
TABLE = 3  # lines that the table of processes keeps
REMARKS = 2  # lines
NOTES = 4  # at most one line in so many tells what is wrong


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The lines above the table of processes, its height, and the lines below it."""

    above: list[Line]
    table: int
    below: list[Line]

    @classmethod
    def of(cls, device: Device, look: Look, rows: int) -> DeviceLayout:
        """`rows`: how many processes there are to show."""
        gap = [EMPTY] if look.height >= AIRY else []
        head = [device_title(device, look), *_notes(device, look)]
        remarks = _remarks(device, look) if look.height >= AIRY else []
        figures = breakdown(device, look, look.height - len(head) - 1)
        free = look.height - len(head) - len(figures) - len(remarks) - 3 * len(gap)
        code = code_lines(device, look)[: max(free - CHARTS - TABLE, 0)]
        free -= len(code)
        least = min(rows + 1, TABLE) if rows else 2
        table = min(rows + 1, least + max(free - CHARTS - least, 0) // 3) if rows else least
        free -= table
        origin = provenance_lines(device, look.width)
        if free - len(origin) - len(gap) < ROOMY:
            origin = []
        charts = device_panels(device, look, free - (len(origin) + len(gap) if origin else 0))
        above = [*head, *charts, *gap, *figures, *gap, *code, *gap]
        above = above[: max(look.height - 1, 1)]
        below = [*([*gap, *origin] if origin else ()), *remarks]
        return cls(above, max(min(table, look.height - len(above)), 0), below)


def _notes(device: Device, look: Look) -> list[Line]:
    """Anomalies in full, and why capacities are unknown, in a part of the page; above all else."""
    alone = replace(look.snapshot, devices=(device,))
    notes = [*anomaly_notes(alone), *missing_notes(alone)]
    lines = note_lines(notes, look.width)
    most = max(look.height // NOTES, 1)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], faint(f" and {len(lines) - most + 1:,} more lines")]


def _remarks(device: Device, look: Look) -> list[Line]:
    """What is odd and changes no number, a line each, below all else."""
    alone = replace(look.snapshot, devices=(device,))
    return note_lines(quiet_notes(alone), look.width, whole=False)[:REMARKS]
