"""`ttmem ps` as text, cut to the height of a terminal if need be."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from ttmem.sizes import several
from ttmem.snapshots import Device, Snapshot
from ttmem.views.device_lines import device_cells, device_lines
from ttmem.views.devices import MANY, Sheet, device_blocks, device_sentences
from ttmem.views.ink import Line, Style, clip_line, faint, indent, ink, paint, paragraph
from ttmem.views.kernels import kernel_lines, kernel_list, kernel_type_table
from ttmem.views.names import DeviceNames, in_order, used_devices
from ttmem.views.notes import (
    Note,
    anomaly_notes,
    blind_notes,
    dead_notes,
    hint_notes,
    instant_notes,
    late_notes,
    loss_notes,
    missing_notes,
    note_lines,
    partial_notes,
    quiet_notes,
    remark_notes,
)
from ttmem.views.processes import LEFT_REMARK, change_table, left_behind_table, process_table
from ttmem.views.selection import (
    NOTHING_RUNNING,
    TRY,
    idle_sentence,
    is_empty,
    no_device,
    no_process,
    without_idle,
)
from ttmem.views.table import section, stack, title_lines
from ttmem.views.telemetry import telemetry_table


class Extent(NamedTuple):
    """How much is shown. What gives way, in this order."""

    hints: bool = True
    kernels: bool = True
    left_behind: bool = True  # the table; else one line
    details: bool = True  # of devices; else a line for each
    by_type: bool = True
    telemetry: bool = True
    processes: int | None = None  # rows; None: all
    airy: bool = True  # empty lines, and all of the title
    commands: bool = True  # may have lines of their own
    whole_notes: bool = True  # else one line for each
    most_devices: int | None = None
    most_notes: int | None = None


ALL = Extent()
LEAST = {"processes": 3, "most_devices": 1, "most_notes": 1}  # rows; all else gives way altogether


def fitting(fits: Callable[[Extent], bool], counts: Mapping[str, int]) -> Extent:
    """The largest extent that fits, or the smallest one there is; `counts`: rows that there are."""
    extent = ALL
    if fits(extent):
        return extent
    for name in Extent._fields:
        if name in counts and counts[name] <= LEAST[name]:
            continue
        extent = _with(extent, name, LEAST.get(name, False))
        if fits(extent):
            grows = name if name in counts else "processes"
            return _grown(extent, grows, counts[grows], fits)
    return extent


def _grown(extent: Extent, name: str, count: int, fits: Callable[[Extent], bool]) -> Extent:
    """As many rows as fit."""
    fewest = getattr(extent, name)
    if fewest is None:
        return extent
    more = range(fewest + 1, count)
    found = bisect_left(more, True, key=lambda rows: not fits(_with(extent, name, rows)))
    return _with(extent, name, fewest + found)


def _with(extent: Extent, name: str, value: Any) -> Extent:
    return extent._replace(**{name: value})


FOLD_FROM = 8  # devices; of more, the idle ones share a line
CHOICES = ("--device", "--pid")  # how `ttmem ps` shows less, and so all of it
BY_TYPE = "of each device; * if resident everywhere"


def render(
    snapshot: Snapshot,
    *,
    width: int,
    color: bool,
    kernels: bool = False,
    earlier: Snapshot | None = None,
    previous: Snapshot | None = None,
    zone: tzinfo | None = None,
    height: int | None = None,
    chosen: bool = False,
    choices: Sequence[str] = CHOICES,
) -> str:
    """Everything, no line wider than `width`; or what fits into `height` lines.

    `earlier`: to tell growing from flat in hints. `previous`: also show what changed since then. `chosen`:
    devices or processes were selected, so losses of others are not mentioned. `choices`: options that
    show what does not fit.
    """
    text = _Text(snapshot, width, kernels, earlier, previous, zone, chosen, choices)
    return paint(text.lines(height), width, color)


class _Text:
    def __init__(
        self,
        snapshot: Snapshot,
        width: int,
        kernels: bool,
        earlier: Snapshot | None,
        previous: Snapshot | None,
        zone: tzinfo | None,
        chosen: bool,
        choices: Sequence[str],
    ) -> None:
        self.width, self.kernels, self.earlier, self.zone = width, kernels, earlier, zone
        self.chosen, self.choices = chosen, choices
        shown, self.idle = (snapshot, 0) if chosen else without_idle(snapshot)
        self.snapshot = now = in_order(shown)
        before = previous and without_idle(previous)[0]
        both = [now, before] if before else [now]
        self.names = DeviceNames(
            [device for one in both for device in one.devices],
            frozenset().union(*map(used_devices, both)),
        )
        # Made once, because many heights are tried; changes with and without commands on lines of their own.
        self.telemetry = telemetry_table(now, width)
        self.changes = {
            commands: change_table(now, before, self.names, width, commands) if before else []
            for commands in (True, False)
        }

    def lines(self, height: int | None) -> list[Line]:
        if height is None:
            return self._made(ALL)
        extent = fitting(
            lambda extent: len(self._made(extent)) <= height,
            {
                "processes": len(self.snapshot.processes),
                "most_devices": len(self.snapshot.devices),
                "most_notes": len(self._notes(ALL)),
            },
        )
        lines = self._made(extent)
        return lines if len(lines) <= height else [*lines[: height - 1], lines[-1]]

    def _made(self, extent: Extent) -> list[Line]:
        snapshot, width = self.snapshot, self.width
        left_behind = left_behind_table(snapshot, self.names, width) if extent.left_behind else []
        sections = [
            title_lines(snapshot, width, self.zone, short=not extent.airy),
            self._idle()
            if self._is_idle
            else section("DEVICES", idle_sentence(self.idle), self._devices(extent)),
            self._kernel_code() if extent.kernels else [],
            self._by_type() if extent.by_type else [],
            section("TELEMETRY", "", self.telemetry) if extent.telemetry else [],
            [] if self._is_idle else section("PROCESSES", "", self._processes(extent)),
            section("CHANGES", "since the previous refresh", self.changes[extent.commands]),
            section("LEFT BEHIND", LEFT_REMARK, left_behind),
            self._note_lines(extent),
            self._left_out(extent),
        ]
        return stack(sections, extent.airy)

    def _devices(self, extent: Extent) -> list[Line]:
        if not self.snapshot.devices:
            return indent(paragraph(no_device(self.snapshot), self.width - 1, Style.FAINT), 1)
        devices, empty = self._busy()
        shown, most = devices, extent.most_devices
        if most is not None and most < len(devices):
            fullest = sorted(devices, key=_fullness, reverse=True)[:most]
            shown = [device for device in devices if device in fullest]
        lines = _device_lines(Sheet(shown, self.width, self.names), extent.details) if shown else []
        if len(shown) < len(devices):
            more = several(len(devices) - len(shown), "more device")
            lines.append(faint(f" and {more}, none of them fuller"))
        return [*lines, *empty]

    def _busy(self) -> tuple[Sequence[Device], list[Line]]:
        """The devices to list, and of many the line that names the idle ones."""
        devices = self.snapshot.devices
        used = used_devices(self.snapshot)
        idle = [d for d in devices if is_empty(d) and d.unique_id not in used]
        if self.chosen or len(devices) <= FOLD_FROM or len(idle) < 2:
            return devices, []
        names = self.names.sentence(device.unique_id for device in idle)
        boards = ", ".join(sorted({device.board or "board N/A" for device in idle}))
        text = f"{len(idle):,} idle: {names} ({boards})"
        busy = [device for device in devices if device not in idle]
        return busy, indent(paragraph(text, self.width - 1, Style.FAINT), 1)

    def _kernel_code(self) -> list[Line]:
        lines = kernel_lines(self.snapshot.devices, self.names, self.width)
        return section("KERNEL CODE", "per device, not part of any total", lines)

    def _by_type(self) -> list[Line]:
        if not self.kernels:
            return []
        table = kernel_type_table(self.snapshot, self.width)
        kernels = kernel_list(self.snapshot, self.names, self.width)
        listed = section(
            "KERNELS", "largest footprint first; BINARY: the size of one copy", kernels
        )
        by_type = table or [ink(" no kernels have been reported")]
        return stack([section("KERNELS BY TYPE", BY_TYPE, by_type), listed])

    def _processes(self, extent: Extent) -> list[Line]:
        if not self.snapshot.processes:
            return indent(paragraph(no_process(self.snapshot), self.width - 1, Style.FAINT), 1)
        return process_table(
            self.snapshot, self.names, self.width, extent.processes, extent.commands
        )

    @property
    def _is_idle(self) -> bool:
        empty = not (self.snapshot.devices or self.snapshot.processes)
        return empty and no_device(self.snapshot).startswith(NOTHING_RUNNING)

    def _idle(self) -> list[Line]:
        widest = max(map(len, TRY))
        lines = [
            (*ink(f"   {command:{widest}}"), *faint(f"   {what}")) for command, what in TRY.items()
        ]
        said = idle_sentence(self.idle)
        remark = indent(paragraph(said, self.width - 1, Style.FAINT), 1) if said else []
        return [ink(f" {NOTHING_RUNNING}; try"), *lines, *remark]

    def _notes(self, extent: Extent) -> list[Note]:
        snapshot, names = self.snapshot, self.names
        return [
            *anomaly_notes(snapshot, names),
            *remark_notes(snapshot),
            *instant_notes(snapshot),
            *loss_notes(snapshot, self.chosen),
            *late_notes(snapshot),
            *(() if extent.left_behind else dead_notes(snapshot)),
            *missing_notes(snapshot, names),
            *partial_notes(snapshot, names),
            *quiet_notes(snapshot, names),
            *(blind_notes(snapshot, names) if extent.hints else ()),
            *(hint_notes(snapshot, self.earlier) if extent.hints else ()),
        ]

    def _note_lines(self, extent: Extent) -> list[Line]:
        notes = self._notes(extent)
        shown = notes[: extent.most_notes]
        lines = note_lines(shown, self.width, whole=extent.whole_notes)
        if len(shown) < len(notes):
            lines.append(faint(f" and {several(len(notes) - len(shown), 'more note')}"))
        return lines

    def _left_out(self, extent: Extent) -> list[Line]:
        """What is not shown, the most important first, and how to see it."""
        said = self._missing(extent)
        if not said:
            return []
        ways = ["a taller window", *self.choices]
        how = ", ".join(ways[:-1]) + " or " + ways[-1] if len(ways) > 1 else ways[0]
        full = f"{how} shows: {', '.join(said)}"
        short = f"hidden: {', '.join(said)}"
        return [clip_line(faint(full if len(full) <= self.width else short), self.width)]

    def _missing(self, extent: Extent) -> list[str]:
        snapshot, out = self.snapshot, []
        if extent.processes is not None and len(snapshot.processes) > extent.processes:
            more = len(snapshot.processes) - extent.processes
            out.append(several(more, "more process", "more processes"))
        if extent.most_devices is not None and len(snapshot.devices) > extent.most_devices:
            out.append(several(len(snapshot.devices) - extent.most_devices, "more device"))
        notes = len(self._notes(extent))
        hidden: dict[str, object] = {
            "complete notes": not extent.whole_notes and notes,
            "commands": not extent.commands
            and self._processes(extent._replace(commands=True)) != self._processes(extent),
            "telemetry": not extent.telemetry and self.telemetry,
            "kernels by type": not extent.by_type and self.kernels,
            "what dead processes left behind": not extent.left_behind and snapshot.left_behind,
            "device details": not extent.details
            and self._devices(extent._replace(details=True)) != self._devices(extent),
            "kernel code": not extent.kernels and self._kernel_code(),
            "hints": not extent.hints and len(self._notes(extent._replace(hints=True))) > notes,
        }
        return out + [what for what, is_hidden in hidden.items() if is_hidden]


def _device_lines(sheet: Sheet, details: bool) -> list[Line]:
    """The largest form that fits: a line with everything, a block, sentences; without details a line, or a cell.

    Of many devices no one reads three lines each.
    """
    area = (device_lines(sheet, whole=True) or device_blocks(sheet)) if details else None
    if area is None and details and len(sheet.devices) <= MANY:
        return device_sentences(sheet)
    return (area or device_lines(sheet) or device_cells(sheet)).lines


def _fullness(device: Device) -> float:
    dram, l1 = device.memory.dram, device.l1_capacity
    return max(
        dram.held / dram.capacity if dram.capacity else 0.0, device.l1_used / l1 if l1 else 0.0
    )
