"""Events as tables: CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, TextIO

from ttmem.events import EVENT_SIZE, Amounts
from ttmem.events.samples import VALUES
from ttmem.exporters.events import EventRow, event_columns
from ttmem.exporters.parquet import ROW_GROUP, ColumnType, ParquetColumn, ParquetWriter
from ttmem.feeds.recorded_telemetry import SensorRow
from ttmem.recording import Batch, Marker, Stretch
from ttmem.snapshots import Snapshot
from ttmem.text import clean

EVENTS = (
    ParquetColumn("position", ColumnType.U64),
    ParquetColumn("time", ColumnType.TIME),
    ParquetColumn("pid", ColumnType.U32),
    ParquetColumn("device", ColumnType.TEXT, optional=True),
    ParquetColumn("event", ColumnType.TEXT),
    ParquetColumn("memory", ColumnType.TEXT, optional=True),
    ParquetColumn("id", ColumnType.U64, optional=True),
    ParquetColumn("requested", ColumnType.U64, optional=True),
    ParquetColumn("reserved", ColumnType.U64, optional=True),
    ParquetColumn("address", ColumnType.U64, optional=True),
    ParquetColumn("program", ColumnType.U64, optional=True),
    ParquetColumn("number", ColumnType.U32, optional=True),
    ParquetColumn("op", ColumnType.TEXT, optional=True),
    ParquetColumn("site", ColumnType.TEXT, optional=True),
    ParquetColumn("phase", ColumnType.TEXT, optional=True),
)
LIVE = (
    ParquetColumn("time", ColumnType.TIME),
    ParquetColumn("mark", ColumnType.TEXT),
    ParquetColumn("pid", ColumnType.U32, optional=True),
    ParquetColumn("device", ColumnType.TEXT, optional=True),
    ParquetColumn("memory", ColumnType.TEXT),
    ParquetColumn("id", ColumnType.U64),
    ParquetColumn("address", ColumnType.U64, optional=True),
    ParquetColumn("requested", ColumnType.U64),
    ParquetColumn("reserved", ColumnType.U64, optional=True),
    ParquetColumn("allocated", ColumnType.TIME),
    ParquetColumn("op", ColumnType.TEXT, optional=True),
    ParquetColumn("site", ColumnType.TEXT, optional=True),
    ParquetColumn("phase", ColumnType.TEXT, optional=True),
)
TOTALS = (
    ParquetColumn("time", ColumnType.TIME),
    ParquetColumn("position", ColumnType.U64),
    ParquetColumn("device", ColumnType.TEXT),
    ParquetColumn("dram", ColumnType.U64),
    ParquetColumn("l1", ColumnType.U64),
    ParquetColumn("l1_small", ColumnType.U64),
    ParquetColumn("trace", ColumnType.U64),
    ParquetColumn("cb", ColumnType.U64),
    ParquetColumn("l1_used", ColumnType.U64),
)
SAMPLES = tuple(column for column in TOTALS if column.name != "position")
TELEMETRY = (
    ParquetColumn("time", ColumnType.TIME),
    ParquetColumn("device", ColumnType.TEXT, optional=True),
    ParquetColumn("card", ColumnType.U32, optional=True),
    ParquetColumn("pci", ColumnType.TEXT, optional=True),
    ParquetColumn("board", ColumnType.TEXT, optional=True),
    ParquetColumn("temperature_c", ColumnType.F64, optional=True),
    ParquetColumn("power_w", ColumnType.F64, optional=True),
    ParquetColumn("current_a", ColumnType.F64, optional=True),
    ParquetColumn("voltage_mv", ColumnType.U32, optional=True),
    ParquetColumn("aiclk_mhz", ColumnType.U32, optional=True),
    ParquetColumn("axiclk_mhz", ColumnType.U32, optional=True),
    ParquetColumn("arcclk_mhz", ColumnType.U32, optional=True),
    ParquetColumn("fan_rpm", ColumnType.U32, optional=True),
    ParquetColumn("heartbeat", ColumnType.U32, optional=True),
    ParquetColumn("firmware", ColumnType.TEXT, optional=True),
)


def write_csv(out: TextIO, rows: Iterable[EventRow]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EventRow._fields)
    for row in rows:
        writer.writerow([_csv_text(cell) if isinstance(cell, str) else cell for cell in row])


@lru_cache(65_536)
def _csv_text(text: str) -> str:
    """Readers disagree about NUL and lone carriage returns, and a terminal obeys escapes: they are spelled out."""
    return "\n".join(map(clean, text.split("\n")))


def write_json_lines(out: TextIO, rows: Iterable[EventRow]) -> None:
    """Integers beyond 2^53 are exact here, but not in readers that keep numbers as doubles."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for row in rows:
        out.write(encode(row._asdict()) + "\n")


def write_events(out: BinaryIO, found: Iterable[Batch], about: Mapping[str, str]) -> None:
    writer = ParquetWriter(out, EVENTS, "time", about)
    group: list[Batch] = []
    rows = 0
    for batch in found:
        count = len(batch.events) // EVENT_SIZE
        if rows + count > ROW_GROUP:
            writer.write(event_columns(group))
            group, rows = [], 0
        group.append(batch)
        rows += count
    writer.write(event_columns(group))
    writer.close()


def write_totals(out: BinaryIO, stretches: Iterable[Stretch], about: Mapping[str, str]) -> None:
    """By columns: there are nearly as many rows as events. Their times never decrease."""
    writer = ParquetWriter(out, TOTALS, "time", about)
    waiting: dict[str, Any] = {column.name: array("Q") for column in TOTALS} | {"device": []}
    for stretch in stretches:
        position, time, device, amounts = stretch.columns()
        kinds = dict(zip(Amounts._fields, amounts, strict=True))
        parts = (kinds["l1"], kinds["l1_small"], kinds["cb"])
        l1_used = array("Q", map(sum, zip(*parts, strict=True)))
        found = {"time": time, "position": position, "device": device, **kinds, "l1_used": l1_used}
        for name, column in found.items():
            waiting[name] += column
        while len(waiting["time"]) >= ROW_GROUP:
            writer.write({name: column[:ROW_GROUP] for name, column in waiting.items()})
            waiting = {name: column[ROW_GROUP:] for name, column in waiting.items()}
    writer.write(waiting)
    writer.close()


def write_samples(
    out: BinaryIO, samples: Iterable[tuple[str, int, tuple[int, ...]]], about: Mapping[str, str]
) -> None:
    """(device, time, what it held)."""
    rows = ((time, device, *amounts) for device, time, amounts in samples)
    _write(out, SAMPLES, rows, about, time=0)


def write_live(
    out: BinaryIO, marked: Iterable[tuple[Marker, Snapshot]], about: Mapping[str, str]
) -> None:
    """What was alive at each marker: snapshots with the detail `buffers`."""
    _write(out, LIVE, _live_rows(marked), about, time=0)


def write_telemetry(out: BinaryIO, rows: Iterable[SensorRow], about: Mapping[str, str]) -> None:
    found = (
        (
            one.time_ns,
            one.device,
            one.card.number,
            one.card.pci,
            one.card.board,
            *(getattr(one.card.telemetry, name) for name in VALUES),
        )
        for one in rows
    )
    _write(out, TELEMETRY, found, about, time=0)


def _live_rows(marked: Iterable[tuple[Marker, Snapshot]]) -> Iterator[tuple[object, ...]]:
    for marker, snapshot in marked:
        name = f"{marker.kind}: {marker.text}" if marker.text else marker.kind
        for b in snapshot.buffers or ():
            place = (b.pid, b.device, b.kind, b.id, b.address, b.requested, b.reserved, b.time_ns)
            yield (marker.time_ns, name, *place, b.name, b.site, b.phase)


def _write(
    out: BinaryIO,
    columns: tuple[ParquetColumn, ...],
    rows: Iterable[tuple[object, ...]],
    about: Mapping[str, str],
    time: int,
) -> None:
    """In row groups sorted by time: a query for one second reads one or two of them."""
    writer = ParquetWriter(out, columns, columns[time].name, about)
    remaining = iter(rows)
    while group := list(islice(remaining, ROW_GROUP)):
        group.sort(key=itemgetter(time))
        values = zip(*group, strict=True)
        writer.write({column.name: list(v) for column, v in zip(columns, values, strict=True)})
    writer.close()
