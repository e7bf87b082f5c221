"""Events as tables: CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import BinaryIO, TextIO

from ttmem.events import EVENT_SIZE
from ttmem.exporters.events import EventRow, event_columns
from ttmem.exporters.parquet import ROW_GROUP, Column, Kind, ParquetWriter
from ttmem.recording import Batch, Marker, Totals
from ttmem.snapshots import Snapshot

EVENTS = (
    Column("position", Kind.U64),
    Column("time", Kind.TIME),
    Column("pid", Kind.U32),
    Column("device", Kind.TEXT, optional=True),
    Column("event", Kind.TEXT),
    Column("memory", Kind.TEXT, optional=True),
    Column("id", Kind.U64, optional=True),
    Column("requested", Kind.U64, optional=True),
    Column("reserved", Kind.U64, optional=True),
    Column("address", Kind.U64, optional=True),
    Column("program", Kind.U64, optional=True),
    Column("number", Kind.U32, optional=True),
    Column("op", Kind.TEXT, optional=True),
    Column("site", Kind.TEXT, optional=True),
    Column("phase", Kind.TEXT, optional=True),
)
LIVE = (
    Column("time", Kind.TIME),
    Column("mark", Kind.TEXT),
    Column("pid", Kind.U32, optional=True),
    Column("device", Kind.TEXT, optional=True),
    Column("memory", Kind.TEXT),
    Column("id", Kind.U64),
    Column("address", Kind.U64, optional=True),
    Column("requested", Kind.U64),
    Column("reserved", Kind.U64, optional=True),
    Column("allocated", Kind.TIME),
    Column("op", Kind.TEXT, optional=True),
    Column("site", Kind.TEXT, optional=True),
    Column("phase", Kind.TEXT, optional=True),
)
TOTALS = (
    Column("time", Kind.TIME),
    Column("position", Kind.U64),
    Column("device", Kind.TEXT),
    Column("dram", Kind.U64),
    Column("l1", Kind.U64),
    Column("l1_small", Kind.U64),
    Column("trace", Kind.U64),
    Column("cb", Kind.U64),
    Column("l1_used", Kind.U64),
)


def write_csv(out: TextIO, rows: Iterable[EventRow]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EventRow._fields)
    writer.writerows(rows)


def write_json_lines(out: TextIO, rows: Iterable[EventRow]) -> None:
    """Integers beyond 2^53 are exact here, but not in readers that keep numbers as doubles."""
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
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


def write_totals(out: BinaryIO, totals: Iterable[Totals], about: Mapping[str, str]) -> None:
    rows = (
        (one.time_ns, one.position, one.device, *one.amounts, one.amounts.l1_used) for one in totals
    )
    _write(out, TOTALS, rows, about, time=0)


def write_live(
    out: BinaryIO, marked: Iterable[tuple[Marker, Snapshot]], about: Mapping[str, str]
) -> None:
    """What was alive at each marker: snapshots with the detail `buffers`."""
    _write(out, LIVE, _live_rows(marked), about, time=0)


def _live_rows(marked: Iterable[tuple[Marker, Snapshot]]) -> Iterator[tuple[object, ...]]:
    for marker, snapshot in marked:
        name = f"{marker.kind}: {marker.text}" if marker.text else marker.kind
        for b in snapshot.buffers or ():
            place = (b.pid, b.device, b.kind, b.id, b.address, b.requested, b.reserved, b.time_ns)
            yield (marker.time_ns, name, *place, b.name, b.site, b.phase)


def _write(
    out: BinaryIO,
    columns: tuple[Column, ...],
    rows: Iterable[tuple[object, ...]],
    about: Mapping[str, str],
    time: int,
) -> None:
    """In row groups that are sorted by time: a query for a second reads one or two of them."""
    writer = ParquetWriter(out, columns, columns[time].name, about)
    remaining = iter(rows)
    while group := list(islice(remaining, ROW_GROUP)):
        group.sort(key=itemgetter(time))
        values = zip(*group, strict=True)
        writer.write({column.name: list(v) for column, v in zip(columns, values, strict=True)})
    writer.close()
