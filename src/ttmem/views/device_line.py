"""The device table for wide terminals: one line for each device, a column for each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttmem.sizes import human
from ttmem.snapshots import Device
from ttmem.views.device_facts import AMOUNT, Figures, cb_measure, requested_text, trace_text
from ttmem.views.device_sheet import LEAST_METER, MOST_METER
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import EMPTY, Line, Span, faint, indent, ink
from ttmem.views.meter import meter, of_capacity
from ttmem.views.names import logical, model, short_ids, short_pci

DRAM, L1 = "DRAM used / capacity", "L1 used / capacity"  # the columns with bars
ID_ROOMS = (24, 15)
MEASURE = len(" cached")


def one_line(devices: Sequence[Device], width: int) -> list[Line]:
    """The table, or nothing if it does not fit."""
    for room in ID_ROOMS:
        grid = _grid(devices, room)
        bars = min((width - 1 - grid.width) // 2 - 1, MOST_METER)
        if bars >= LEAST_METER:
            return indent(_with_bars(grid, devices, bars).lines(), 1)
    return []


def _grid(devices: Sequence[Device], id_room: int) -> Grid:
    dram = [(device.memory.dram.held, device.memory.dram.capacity) for device in devices]
    short = short_ids((device.unique_id for device in devices), id_room)
    l1 = [(device.l1_used, device.l1_capacity) for device in devices]
    columns: list[tuple[Column, list[Line]]] = [
        (Column("ID", right=True), [ink(logical(device)) for device in devices]),
        (Column("DEVICE"), [ink(model(device)) for device in devices]),
        (Column("UNIQUE ID"), [faint(short[device.unique_id]) for device in devices]),
        (Column("PCI"), [faint(short_pci(device) or "N/A") for device in devices]),
        (Column(DRAM), _cells(dram)),
        *_optional("REQUESTED", [requested_text(device) for device in devices]),
        *_optional("TRACE", [trace_text(device) for device in devices]),
        (Column(L1), _cells(l1)),
        (_amount("L1"), [ink(human(device.memory.l1.held)) for device in devices]),
        (_amount("L1_SMALL"), [ink(human(d.memory.l1_small.held)) for d in devices]),
        (Column("CB       ", True, AMOUNT + MEASURE), [_circular(device) for device in devices]),
    ]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return Grid([column for column, _ in columns], rows)


def _with_bars(grid: Grid, devices: Sequence[Device], bars: int) -> Grid:
    titles = [column.title for column in grid.columns]
    at_dram, at_l1 = titles.index(DRAM), titles.index(L1)
    rows = []
    for device, row in zip(devices, grid.rows, strict=True):
        cells = list(row)
        dram = device.memory.dram
        cells[at_dram] = (*cells[at_dram], Span(" "), *meter(dram.held, dram.capacity, bars))
        cells[at_l1] = (*cells[at_l1], Span(" "), *meter(device.l1_used, device.l1_capacity, bars))
        rows.append(cells)
    return replace(grid, rows=rows)


def _cells(figures: Sequence[Figures]) -> list[Line]:
    used = max(AMOUNT, *(len(human(value)) for value, _ in figures))
    limit = max(len(human(value)) for _, value in figures)
    return [of_capacity(*pair, used, limit) for pair in figures]


def _amount(title: str) -> Column:
    return Column(title, right=True, least=AMOUNT)


def _circular(device: Device) -> Line:
    cb = device.memory.cb
    return (*ink(human(cb.used)), *faint(f" {cb_measure(cb)}".ljust(MEASURE)))


def _optional(title: str, texts: Sequence[str | None]) -> list[tuple[Column, list[Line]]]:
    if not any(texts):
        return []
    least = AMOUNT + max(len(text) - len(text.split(" / ")[0]) for text in texts if text)
    return [(Column(title, True, least), [ink(text) if text else EMPTY for text in texts])]
