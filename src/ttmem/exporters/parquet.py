"""A writer for Parquet files: numbers, timestamps and text, compressed with zstd.

Numbers are stored as BYTE_STREAM_SPLIT (all first bytes, then all second bytes, ...), which compresses them better
than the usual encodings do. Text is dictionary-encoded in each row group. DuckDB, pyarrow, polars, Spark and ClickHouse
read both; fastparquet does not read BYTE_STREAM_SPLIT.

A file is complete only with its footer. `ParquetWriter` therefore writes to a stream that the caller renames or closes
when all went well.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import BinaryIO, NamedTuple

from ttmem._native import transposed
from ttmem.exporters.protobuf import varint

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = b"PAR1"
ROW_GROUP = 65_536  # rows: what a query for one second has to read
_LEVEL = 3

# Thrift's compact protocol
_TRUE, _FALSE, _I8, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
# Parquet
_INT32, _INT64, _DOUBLE, _BYTE_ARRAY = 1, 2, 5, 6
_REQUIRED, _OPTIONAL = 0, 1
_PLAIN, _RLE, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 3, 8, 9
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_ZSTD = 6


class ColumnType(Enum):
    """The type of a column."""

    U32 = "u32"
    U64 = "u64"
    F64 = "f64"
    TIME = "ns since 1970"
    TEXT = "text"


class ParquetColumn(NamedTuple):
    """A column: its name and type, and whether values may be missing (None)."""

    name: str
    kind: ColumnType
    optional: bool = False


class Numbers(NamedTuple):
    """Numbers of a column, packed: the values that are present, and a byte per row that says whether it has one."""

    packed: bytes
    present: bytes
    lowest: int  # of integers
    highest: int


class Texts(NamedTuple):
    """Texts of a column: packed indices (u32) of those that are present, and the texts."""

    indices: bytes
    present: bytes
    entries: Sequence[str]


Values = (
    Sequence[float]
    | Sequence[float | None]
    | Sequence[str]
    | Sequence[str | None]
    | Numbers
    | Texts
)


class ParquetWriter:
    """Writes row groups, then the footer with `close`."""

    def __init__(
        self,
        out: BinaryIO,
        columns: Sequence[ParquetColumn],
        sorted_by: str,
        about: Mapping[str, str],
    ) -> None:
        self._out = out
        self._columns = columns
        self._sorted_by = [column.name for column in columns].index(sorted_by)
        self._about = about
        self._groups: list[bytes] = []
        self._rows = 0
        self._at = 0
        self._put(MAGIC)

    def _put(self, data: bytes) -> None:
        self._out.write(data)
        self._at += len(data)

    def write(self, values: Mapping[str, Values]) -> None:
        """One row group; all columns have the same length."""
        packed = {column.name: _packed(column, values[column.name]) for column in self._columns}
        rows = len(packed[self._columns[0].name].present)
        if not rows:
            return
        began = self._at
        chunks, uncompressed = [], 0
        for column in self._columns:
            chunk, size = self._column(column, packed[column.name])
            chunks.append(chunk)
            uncompressed += size
        sorting = _struct((1, _I32, self._sorted_by), (2, _FALSE, None), (3, _FALSE, None))
        self._groups.append(
            _struct(
                (1, _LIST, (_STRUCT, chunks)),
                (2, _I64, uncompressed),
                (3, _I64, rows),
                (4, _LIST, (_STRUCT, [sorting])),
                (5, _I64, began),
                (6, _I64, self._at - began),
            )
        )
        self._rows += rows

    def close(self) -> None:
        """Writes the footer, without which the file cannot be read."""
        root = _struct((4, _BINARY, b"ttmem"), (5, _I32, len(self._columns)))
        about = [
            _struct((1, _BINARY, key.encode()), (2, _BINARY, value.encode()))
            for key, value in self._about.items()
        ]
        type_order = _struct((1, _STRUCT, _struct()))
        footer = _struct(
            (1, _I32, 2),
            (2, _LIST, (_STRUCT, [root, *map(_schema, self._columns)])),
            (3, _I64, self._rows),
            (4, _LIST, (_STRUCT, self._groups)),
            (5, _LIST, (_STRUCT, about)),
            (6, _BINARY, b"ttmem"),
            (7, _LIST, (_STRUCT, [type_order] * len(self._columns))),
        )
        self._put(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _column(self, column: ParquetColumn, values: Numbers | Texts) -> tuple[bytes, int]:
        """Writes the pages of one column; returns its description, and its size before compression."""
        began, rows, count = self._at, len(values.present), values.present.count(1)
        levels = _levels(values.present, count) if column.optional else b""
        size, dictionary_at, bounds = 0, None, None
        if isinstance(values, Texts):
            dictionary_at = self._at
            entries = b"".join(_counted(_utf8(text)) for text in values.entries)
            size += self._page(_DICTIONARY_PAGE, entries, len(values.entries), _PLAIN)
            page, encoding = _indices(values.indices), _RLE_DICTIONARY
        else:
            width = 4 if column.kind is ColumnType.U32 else 8
            page, encoding = transposed(values.packed, width), _BYTE_STREAM_SPLIT
            if count and column.kind is not ColumnType.F64:
                bounds = values.lowest, values.highest
        data_at = self._at
        size += self._page(_DATA_PAGE, levels + page, rows, encoding)
        encodings = [_RLE, encoding, *([_PLAIN] if dictionary_at is not None else [])]
        fields: list[tuple[int, int, object]] = [
            (1, _I32, _PHYSICAL[column.kind]),
            (2, _LIST, (_I32, [_zigzag(one) for one in encodings])),
            (3, _LIST, (_BINARY, [_counted_varint(column.name.encode())])),
            (4, _I32, _ZSTD),
            (5, _I64, rows),
            (6, _I64, size),
            (7, _I64, self._at - began),
            (9, _I64, data_at),
        ]
        if dictionary_at is not None:
            fields.append((11, _I64, dictionary_at))
        fields.append((12, _STRUCT, _statistics(column, rows - count, bounds)))
        return _struct((2, _I64, began), (3, _STRUCT, _struct(*fields))), size

    def _page(self, kind: int, data: bytes, values: int, encoding: int) -> int:
        stored = zstd.compress(data, _LEVEL)
        described = _struct((1, _I32, values), (2, _I32, encoding))
        number = 7
        if kind == _DATA_PAGE:
            described = _struct(
                (1, _I32, values), (2, _I32, encoding), (3, _I32, _RLE), (4, _I32, _RLE)
            )
            number = 5
        header = _struct(
            (1, _I32, kind),
            (2, _I32, len(data)),
            (3, _I32, len(stored)),
            (number, _STRUCT, described),
        )
        self._put(header)
        self._put(stored)
        return len(header) + len(data)


_PHYSICAL = {
    ColumnType.U32: _INT32,
    ColumnType.U64: _INT64,
    ColumnType.F64: _DOUBLE,
    ColumnType.TIME: _INT64,
    ColumnType.TEXT: _BYTE_ARRAY,
}
_CONVERTED = {ColumnType.U32: 13, ColumnType.U64: 14, ColumnType.TEXT: 0}


def _schema(column: ParquetColumn) -> bytes:
    kind, logical = column.kind, None
    if kind is ColumnType.TIME:  # UTC, in nanoseconds
        unit = _struct((3, _STRUCT, _struct()))
        logical = _struct((8, _STRUCT, _struct((1, _TRUE, None), (2, _STRUCT, unit))))
    elif kind is ColumnType.TEXT:
        logical = _struct((1, _STRUCT, _struct()))
    elif kind is not ColumnType.F64:
        bits = 32 if kind is ColumnType.U32 else 64
        logical = _struct((10, _STRUCT, _struct((1, _I8, bits), (2, _FALSE, None))))
    fields: list[tuple[int, int, object]] = [
        (1, _I32, _PHYSICAL[kind]),
        (3, _I32, _OPTIONAL if column.optional else _REQUIRED),
        (4, _BINARY, column.name.encode()),
    ]
    if kind in _CONVERTED:
        fields.append((6, _I32, _CONVERTED[kind]))
    if logical is not None:
        fields.append((10, _STRUCT, logical))
    return _struct(*fields)


def _statistics(column: ParquetColumn, missing: int, bounds: tuple[int, int] | None) -> bytes:
    fields: list[tuple[int, int, object]] = [(3, _I64, missing)]
    if bounds is not None:
        width = 4 if column.kind is ColumnType.U32 else 8
        lowest, highest = (bound.to_bytes(width, "little") for bound in bounds)
        fields += [(5, _BINARY, highest), (6, _BINARY, lowest)]
    return _struct(*fields)


# -- encodings -----------------------------------------------------------------------------------------


def _packed(column: ParquetColumn, values: Values) -> Numbers | Texts:
    if isinstance(values, (Numbers, Texts)):
        return values
    if isinstance(values, array):  # nothing is missing
        bounds = min(values, default=0), max(values, default=0)
        return Numbers(values.tobytes(), bytes([1]) * len(values), *bounds)
    given = [value for value in values if value is not None]
    present = bytes([value is not None for value in values])
    if column.kind is ColumnType.TEXT:
        known = {text: number for number, text in enumerate(dict.fromkeys(map(str, given)))}
        indices = array("I", [known[str(text)] for text in given])
        return Texts(indices.tobytes(), present, [*known])
    if column.kind is ColumnType.F64:
        return Numbers(array("d", map(float, given)).tobytes(), present, 0, 0)
    numbers = array("I" if column.kind is ColumnType.U32 else "Q", map(int, given))
    return Numbers(numbers.tobytes(), present, min(numbers, default=0), max(numbers, default=0))


def _utf8(text: str) -> bytes:
    """A recording may contain invalid text: half a surrogate pair."""
    return text.encode("utf-8", "replace")


def _levels(present: bytes, count: int) -> bytes:
    """Definition levels of an optional column: a run if all are alike, else one bit each."""
    alike = count in (0, len(present))
    one_run = varint(len(present) << 1) + bytes([count > 0])
    runs = one_run if alike else _bit_packed(present)
    return len(runs).to_bytes(4, "little") + runs


def _bit_packed(bits: bytes) -> bytes:
    """One bit per byte of 0 or 1, in groups of eight, the first in the lowest bit."""
    groups = -(-len(bits) // 8)
    digits = bits.ljust(groups * 8, b"\0")[::-1].translate(_DIGITS)
    return varint(groups << 1 | 1) + int(digits, 2).to_bytes(groups, "little")


_DIGITS = bytes([48, 49]) + bytes(254)


def _indices(packed: bytes) -> bytes:
    """Dictionary indices of 32 bits: a group of eight of them is simply eight integers."""
    groups = -(-len(packed) // 32)
    return bytes([32]) + varint(groups << 1 | 1) + packed.ljust(groups * 32, b"\0")


def _counted(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


# -- Thrift's compact protocol -------------------------------------------------------------------------


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _counted_varint(data: bytes) -> bytes:
    return varint(len(data)) + data


def _struct(*fields: tuple[int, int, object]) -> bytes:
    """(field id, type, value): a number, bytes, an encoded struct, or (element type, encoded elements)."""
    out, before = bytearray(), 0
    for number, kind, value in fields:
        out.append(number - before << 4 | kind)
        before = number
        if isinstance(value, int) and kind != _I8:
            out += _zigzag(value)
        elif isinstance(value, int):
            out.append(value)
        elif isinstance(value, bytes):
            out += _counted_varint(value) if kind == _BINARY else value
        elif isinstance(value, tuple):
            out += _list(*value)
    out.append(0)
    return bytes(out)


def _list(kind: int, elements: Iterable[bytes]) -> bytes:
    parts = list(elements)
    count = len(parts)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return head + b"".join(parts)
