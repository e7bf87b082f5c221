"""Columns that native code makes of events are the rows that Python makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from ttmem.events import EVENT_SIZE, Event, Flag, Notice, Op
from ttmem.exporters.events import TABLE, event_columns, event_rows
from ttmem.exporters.parquet import Numbers, Texts
from ttmem.recording import Batch, RecordedProcess

PROCESSES = (
    RecordedProcess(1, 41, None, "ann", None, {1: "matmul", 2: "a.py:3"}, {0: "chip", 1: "other"}),
    RecordedProcess(2, 42, None, "bob", None, {1: "add", 3: "matmul"}, {0: "other"}),
)
SMALL = st.integers(0, 3)
EVENTS = st.builds(
    Event,
    op=st.sampled_from([*Op, *Notice, 127]),
    kind=st.integers(0, 9),
    flags=st.sampled_from([0, int(Flag.KIND_KNOWN)]),
    device=SMALL,
    time=st.sampled_from([0, 5, 7, 90, 5000]),
    id=st.sampled_from([0, 1, (1 << 64) - 1]),
    size=st.sampled_from([0, 64]),
    extra=st.sampled_from([0, 2, 128]),
    address=st.sampled_from([0, 4096]),
    number=SMALL,
    cores=SMALL,
    name=SMALL,
    site=SMALL,
)
BATCHES = st.lists(
    st.tuples(st.sampled_from(PROCESSES), st.sampled_from([6, 100]), st.lists(EVENTS, min_size=1)),
    max_size=4,
)


def _values(column: Numbers | Texts, wide: bool) -> list[object]:
    if isinstance(column, Texts):
        known: list[object] = [column.entries[at] for at in memoryview(column.indices).cast("I")]
    else:
        known = [*memoryview(column.packed).cast("Q" if wide else "I")]
        if known:
            assert (column.lowest, column.highest) == (min(known), max(known))  # type: ignore[type-var]
    given_ = iter(known)
    return [next(given_) if there else None for there in column.present]


@given(BATCHES)
def test_columns_equal_the_rows_in_the_order_of_time(
    parts: Sequence[tuple[RecordedProcess, int, list[Event]]],
) -> None:
    starts = accumulate((len(events) + 1 for _, _, events in parts), initial=10)
    batches = [
        Batch(at, process, arrived, memoryview(b"".join(event.pack() for event in events)), 0)
        for at, (process, arrived, events) in zip(starts, parts, strict=False)
    ]
    rows = [row for batch in batches for row in event_rows(batch)]
    rows.sort(key=lambda row: row.time_ns)

    columns = event_columns(batches)

    found = [_values(columns[name], name not in ("pid", "number")) for name in TABLE]
    assert [*zip(*found, strict=True)] == [tuple(row) for row in rows]
    assert sum(len(batch.events) for batch in batches) == len(rows) * EVENT_SIZE
