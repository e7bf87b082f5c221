"""The device table for wide terminals: one line for each device, everything in a column of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttmem.sizes import human
from ttmem.snapshot import Device
from ttmem.views.device_facts import cb_measure, requested_text, trace_text
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import EMPTY, Line, Span, faint, indent, ink
from ttmem.views.meter import meter, of_capacity
from ttmem.views.names import logical, model

LEAST_METER = 16
MOST_METER = 30

Figures = tuple[int, int | None]


def one_line(devices: Sequence[Device], width: int) -> list[Line] | None:
    """The table, or None if it does not fit."""
    grid = _grid(devices)
    bars = min((width - 1 - grid.width) // 2 - 1, MOST_METER)
    if bars < LEAST_METER:
        return None
    return indent(_with_bars(grid, devices, bars).lines(), 1)


def _grid(devices: Sequence[Device]) -> Grid:
    dram = [(device.memory.dram.held, device.memory.dram.capacity) for device in devices]
    l1 = [(device.l1_used, device.l1_capacity) for device in devices]
    columns: list[tuple[Column, list[Line]]] = [
        (Column("ID", right=True), [ink(logical(device)) for device in devices]),
        (Column("DEVICE"), [ink(model(device)) for device in devices]),
        (Column("UNIQUE ID"), [faint(device.unique_id) for device in devices]),
        (Column("PCI"), [faint(device.pci or "N/A") for device in devices]),
        (Column("DRAM used / capacity"), _cells(dram)),
        (Column("L1 used / capacity"), _cells(l1)),
        (Column("L1", right=True), [ink(human(device.memory.l1.held)) for device in devices]),
        (Column("L1_SMALL", right=True), [ink(human(d.memory.l1_small.held)) for d in devices]),
        (Column("CB       ", right=True), [_circular(device) for device in devices]),
        *_optional("TRACE", [trace_text(device) for device in devices]),
        *_optional("REQUESTED DRAM", [requested_text(device) for device in devices]),
    ]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return Grid([column for column, _ in columns], rows)


def _with_bars(grid: Grid, devices: Sequence[Device], bars: int) -> Grid:
    rows = []
    for device, row in zip(devices, grid.rows, strict=True):
        cells = list(row)
        dram = device.memory.dram
        cells[4] = (*cells[4], Span(" "), *meter(dram.held, dram.capacity, bars))
        cells[5] = (*cells[5], Span(" "), *meter(device.l1_used, device.l1_capacity, bars))
        rows.append(cells)
    return replace(grid, rows=rows)


def _cells(figures: Sequence[Figures]) -> list[Line]:
    used = max(len(human(value)) for value, _ in figures)
    limit = max(len(human(value)) for _, value in figures)
    return [of_capacity(*pair, used, limit) for pair in figures]


def _circular(device: Device) -> Line:
    cb = device.memory.cb
    return (*ink(human(cb.used)), *faint(f" {cb_measure(cb):<6}"))


def _optional(title: str, texts: Sequence[str | None]) -> list[tuple[Column, list[Line]]]:
    if not any(texts):
        return []
    return [(Column(title, right=True), [ink(text) if text else EMPTY for text in texts])]
