"""Parquet files that DuckDB and pyarrow read back identically."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ttmem.exporters.parquet import ColumnType, ParquetColumn, ParquetWriter

COLUMNS = (
    ParquetColumn("time", ColumnType.TIME),
    ParquetColumn("id", ColumnType.U64),
    ParquetColumn("count", ColumnType.U32),
    ParquetColumn("address", ColumnType.U64, optional=True),
    ParquetColumn("site", ColumnType.TEXT, optional=True),
    ParquetColumn("event", ColumnType.TEXT),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.none() | st.integers(0, 2**64 - 1),
        st.none() | TEXT,
        TEXT,
    ),
    min_size=1,
    max_size=40,
)


def write(path: Path, groups: Sequence[Sequence[tuple[Any, ...]]]) -> None:
    with path.open("wb") as out:
        writer = ParquetWriter(out, COLUMNS, "time", {"exporter": "ttmem"})
        for rows in groups:
            columns = zip(*rows, strict=True)
            writer.write({c.name: list(v) for c, v in zip(COLUMNS, columns, strict=True)})
        writer.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(ROWS, min_size=1, max_size=4))
def test_pyarrow_reads_what_was_written(
    tmp_path: Path, groups: list[list[tuple[Any, ...]]]
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "rows.parquet"

    write(path, groups)

    table = parquet.read_table(path)
    columns = [table.column(column.name) for column in COLUMNS]
    columns[0] = columns[0].cast(pyarrow.int64())
    found = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert found == [row for rows in groups for row in rows]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(ROWS, min_size=1, max_size=4))
def test_duckdb_reads_what_was_written(tmp_path: Path, groups: list[list[tuple[Any, ...]]]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    path = tmp_path / "rows.parquet"

    write(path, groups)

    question = f"select epoch_ns(time), id, count, address, site, event from '{path}'"
    assert duckdb.sql(question).fetchall() == [row for rows in groups for row in rows]


def test_row_groups_say_which_times_they_have(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "rows.parquet"
    groups = [[(first + n, n, n, None, None, "alloc") for n in range(100)] for first in (0, 1000)]

    write(path, groups)

    described = parquet.ParquetFile(path).metadata
    bounds = [
        (
            described.row_group(group).column(0).statistics.min_raw,
            described.row_group(group).column(0).statistics.max_raw,
        )
        for group in range(described.num_row_groups)
    ]
    assert bounds == [(0, 99), (1000, 1099)]
