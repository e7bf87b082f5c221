"""Events as tables: CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO

from ttmem.events import EVENT_SIZE, Amounts
from ttmem.events.samples import VALUES
from ttmem.exporters.events import EventRow, event_columns
from ttmem.exporters.parquet import ROW_GROUP, ColumnType, ParquetColumn, ParquetWriter
from ttmem.exporters.request import ExportRequest, private_file
from ttmem.recording import Batch
from ttmem.text import clean


def _columns(described: str) -> tuple[ParquetColumn, ...]:
    """Names and types; those with a question mark may have no value."""
    columns = (column.split(":") for column in described.split())
    return tuple(
        ParquetColumn(name, ColumnType[kind.rstrip("?").upper()], kind.endswith("?"))
        for name, kind in columns
    )


EVENTS = _columns(
    "position:u64 time:time pid:u32 device:text? event:text memory:text? id:u64? requested:u64?"
    " reserved:u64? address:u64? program:u64? number:u32? op:text? site:text? phase:text?"
)
LIVE = _columns(
    "time:time mark:text pid:u32? device:text? memory:text id:u64 address:u64? requested:u64"
    " reserved:u64? allocated:time op:text? site:text? phase:text?"
)
TOTALS = _columns(
    "time:time position:u64 device:text dram:u64 l1:u64 l1_small:u64 trace:u64 cb:u64 l1_used:u64"
)
SAMPLES = tuple(column for column in TOTALS if column.name != "position")
TELEMETRY = _columns(
    "time:time device:text? card:u32? pci:text? board:text? temperature_c:f64? power_w:f64?"
    " current_a:f64? voltage_mv:u32? aiclk_mhz:u32? axiclk_mhz:u32? arcclk_mhz:u32? fan_rpm:u32?"
    " heartbeat:u32? firmware:text?"
)


def write_csv(request: ExportRequest, out: BinaryIO) -> None:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(EventRow._fields)
    for row in request.rows():
        writer.writerow([_csv_text(cell) if isinstance(cell, str) else cell for cell in row])
    text.detach()


@lru_cache(65_536)
def _csv_text(text: str) -> str:
    """Readers disagree about NUL and lone carriage returns, and a terminal obeys escapes: they are spelled out."""
    return "\n".join(map(clean, text.split("\n")))


def write_json_lines(request: ExportRequest, out: BinaryIO) -> None:
    """Integers beyond 2^53 are exact here, but not in readers that keep numbers as doubles."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for row in request.rows():
        text.write(encode(row._asdict()) + "\n")
    text.detach()


def write_parquet(request: ExportRequest, path: str) -> None:
    """A directory with a file for each table."""
    os.mkdir(path, 0o700)
    tables = {
        "events": (EVENTS, _events(request)),
        "totals": (TOTALS, _totals(request)),
        "samples": (SAMPLES, _groups(SAMPLES, _samples(request))),
        "live": (LIVE, _groups(LIVE, _live(request))),
        "telemetry": (TELEMETRY, _groups(TELEMETRY, _telemetry(request))),
    }
    for name, (columns, groups) in tables.items():
        with private_file(os.path.join(path, f"{name}.parquet")) as out:
            writer = ParquetWriter(out, columns, "time", request.about())
            for group in groups:
                writer.write(group)
            writer.close()


def _events(request: ExportRequest) -> Iterator[dict[str, Any]]:
    group: list[Batch] = []
    rows = 0
    for batch in request.batches():
        count = len(batch.events) // EVENT_SIZE
        if rows + count > ROW_GROUP:
            yield event_columns(group)
            group, rows = [], 0
        group.append(batch)
        rows += count
    yield event_columns(group)


def _totals(request: ExportRequest) -> Iterator[dict[str, Any]]:
    """By columns: there are nearly as many rows as events. Their times never decrease."""
    waiting: dict[str, Any] = {column.name: array("Q") for column in TOTALS} | {"device": []}
    for stretch in request.stretches():
        position, time, device, amounts = stretch.columns()
        kinds = dict(zip(Amounts._fields, amounts, strict=True))
        parts = (kinds["l1"], kinds["l1_small"], kinds["cb"])
        l1_used = array("Q", map(sum, zip(*parts, strict=True)))
        found = {"time": time, "position": position, "device": device, **kinds, "l1_used": l1_used}
        for name, column in found.items():
            waiting[name] += column
        while len(waiting["time"]) >= ROW_GROUP:
            yield {name: column[:ROW_GROUP] for name, column in waiting.items()}
            waiting = {name: column[ROW_GROUP:] for name, column in waiting.items()}
    yield waiting


def _samples(request: ExportRequest) -> Iterator[tuple[object, ...]]:
    for device, time_ns, amounts in request.samples():
        yield (time_ns, device, *amounts)


def _live(request: ExportRequest) -> Iterator[tuple[object, ...]]:
    """What was alive at each marker."""
    for marker, snapshot in request.marked():
        name = f"{marker.kind}: {marker.text}" if marker.text else marker.kind
        for b in snapshot.buffers or ():
            place = (b.pid, b.device, b.kind, b.id, b.address, b.requested, b.reserved, b.time_ns)
            yield (marker.time_ns, name, *place, b.name, b.site, b.phase)


def _telemetry(request: ExportRequest) -> Iterator[tuple[object, ...]]:
    for row in request.sensors():
        card = row.card
        values = (getattr(card.telemetry, name) for name in VALUES)
        yield (row.time_ns, row.device, card.number, card.pci, card.board, *values)


def _groups(
    columns: tuple[ParquetColumn, ...], rows: Iterable[tuple[object, ...]]
) -> Iterator[dict[str, Any]]:
    """Row groups sorted by time: a query for one second reads one or two of them."""
    remaining = iter(rows)
    while group := list(islice(remaining, ROW_GROUP)):
        group.sort(key=itemgetter(0))
        values = zip(*group, strict=True)
        yield {column.name: list(cells) for column, cells in zip(columns, values, strict=True)}
