"""The data of a page: a JSON document, and tables of integers beside it, compressed.

====== ============= ==========================================================================================
part   size          meaning
====== ============= ==========================================================================================
length u32           little-endian, of the document
JSON   length        UTF-8; `tables` is {name: {"rows": n, "columns": {name: [offset, bytes]}}}
blob   the rest      columns, each at its offset: differences between neighbours, zigzag-coded, as LEB128
====== ============= ==========================================================================================

All of it is compressed with gzip, which browsers can undo themselves. `static/payload.js` reads it; a test compares.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNKNOWN = -1  # in a column

Table = Mapping[str, Sequence[int]]  # columns of the same length


def table(names: Sequence[str], rows: Iterable[Sequence[int]]) -> Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return dict(zip(names, columns, strict=True))


def pack(document: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """As base64. Integers beyond 2^53 are not exact in a browser."""
    blob = bytearray()
    named: dict[str, Any] = {}
    for name, columns in tables.items():
        places = {}
        for column, values in columns.items():
            coded = coded_integers(values)
            places[column] = [len(blob), len(coded)]
            blob += coded
        rows = {len(values) for values in columns.values()}
        assert len(rows) == 1, f"columns of {name} differ in length"
        named[name] = {"rows": rows.pop(), "columns": places}
    head = json.dumps({**document, "tables": named}, separators=(",", ":")).encode()
    whole = len(head).to_bytes(4, "little") + head + blob
    return b64encode(gzip.compress(whole, 9, mtime=0)).decode()


def coded_integers(values: Iterable[int]) -> bytes:
    out = bytearray()
    add = out.append
    before = 0
    for value in values:
        step, before = value - before, value
        coded = step << 1 if step >= 0 else ~step << 1 | 1
        while coded > 127:
            add(coded & 127 | 128)
            coded >>= 7
        add(coded)
    return bytes(out)
