"""`ttmem ps`: one picture as a table."""

from __future__ import annotations

from datetime import tzinfo

from ttmem.snapshots import Snapshot
from ttmem.views.device_table import device_table
from ttmem.views.ink import Line, Span, Style, faint, ink, paragraph
from ttmem.views.kernel_table import kernel_lines, kernel_type_table
from ttmem.views.names import in_order
from ttmem.views.notes import anomaly_lines, hint_lines, loss_lines, missing_lines
from ttmem.views.process_table import left_behind_table, process_table
from ttmem.views.sections import page, section
from ttmem.views.title import title_lines

NO_DEVICE = (
    "no device has been reported yet; start the application with TT_ALLOC_TRACKING_ENABLED=1"
)
NO_PROCESS = "no process reports"


def render(
    snapshot: Snapshot,
    *,
    width: int,
    color: bool,
    kernels: bool = False,
    earlier: Snapshot | None = None,
    zone: tzinfo | None = None,
) -> str:
    """The whole picture, no line wider than `width`. `earlier`: hints tell growing from flat."""
    snapshot = in_order(snapshot)
    sections = [
        title_lines(snapshot, width, zone),
        section("DEVICES", "", _devices(snapshot, width)),
        section("KERNEL CODE", "of each device, in no sum", kernel_lines(snapshot.devices, width)),
        section("PROCESSES", "", _processes(snapshot, width)),
        section("LEFT BEHIND", "by dead processes, in no sum", left_behind_table(snapshot, width)),
        _notes(snapshot, earlier, width),
    ]
    if kernels:
        by_type = kernel_type_table(snapshot, width) or [ink(" no kernel has been reported")]
        sections.insert(3, section("KERNELS BY TYPE", "* if resident everywhere", by_type))
    return page(sections, width, color)


def _devices(snapshot: Snapshot, width: int) -> list[Line]:
    if not snapshot.devices:
        return [(Span(" "), *line) for line in paragraph(NO_DEVICE, width - 1, Style.FAINT)]
    return device_table(snapshot.devices, width)


def _processes(snapshot: Snapshot, width: int) -> list[Line]:
    if not snapshot.processes:
        return [faint(f" {NO_PROCESS}")]
    return process_table(snapshot, width)


def _notes(snapshot: Snapshot, earlier: Snapshot | None, width: int) -> list[Line]:
    return [
        *anomaly_lines(snapshot, width),
        *loss_lines(snapshot.losses, width),
        *missing_lines(snapshot, width),
        *hint_lines(snapshot, earlier, width),
    ]
