"""Bars, sparklines, charts and the columns of time they are made from."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ttmem.views.figures import shares, stacked_meter
from ttmem.views.ink import Style, line_columns
from ttmem.views.monitor.chart import SECOND, TimeColumns, chart, raster, scale, sparkline

amounts = st.integers(0, 1 << 50)
START = 1_787_407_391 * SECOND
values = st.lists(st.none() | amounts, max_size=60)


@given(st.lists(amounts, min_size=1, max_size=4), amounts, st.integers(1, 60))
def test_every_part_of_a_bar_is_visible_and_none_is_too_long(
    parts: list[int], free: int, length: int
) -> None:
    capacity = sum(parts) + free
    cells = shares(parts, capacity, length)
    assert sum(cells) <= length
    if length >= len(parts):
        assert [bool(count) for count in cells] == [bool(part) for part in parts]
    for count, part in zip(cells, parts, strict=True):
        assert count <= 1 or capacity == 0 or (count - 1) * capacity <= part * length


@given(
    st.lists(amounts, min_size=1, max_size=3),
    st.none() | amounts,
    st.integers(4, 60),
    st.booleans(),
)
def test_a_meter_takes_exactly_its_room(
    parts: list[int], capacity: int | None, room: int, ascii: bool
) -> None:
    line = stacked_meter(tuple((part, "#", Style.L1) for part in parts), capacity, room, ascii)
    assert line_columns(line) == room


def test_parts_differ_without_colours() -> None:
    line = stacked_meter(
        ((4, "█", Style.L1), (2, "▓", Style.L1_SMALL), (2, "▒", Style.CB)), 10, 15, False
    )
    assert "".join(span.text for span in line) == "████▓▓▒▒··  80%"


def test_less_than_a_cell_is_a_sliver_and_not_a_cell() -> None:
    parts = ((640 << 10, "█", Style.DRAM),)
    assert "".join(span.text for span in stacked_meter(parts, 32 << 30, 11, False)) == "▏·····  <1%"
    assert "".join(span.text for span in stacked_meter(parts, 32 << 30, 11, True)) == "|.....  <1%"


@given(values, st.integers(1, 1 << 50), st.booleans())
def test_a_sparkline_tells_gap_nothing_and_too_much_apart(
    past: list[int | None], top: int, ascii: bool
) -> None:
    signs = sparkline(past, top, ascii)
    assert len(signs) == len(past)
    nothing = "_" if ascii else "▁"
    for sign, value in zip(signs, past, strict=True):
        assert (sign == " ") == (value is None)
        assert (sign == nothing) == (value == 0)
        assert (sign == "!") == (value is not None and value > top)


def test_a_sparkline_rises_with_its_values() -> None:
    assert sparkline([0, 1, 25, 50, 75, 100, 101, None], 100) == "▁▂▃▅▆█! "


@given(values, st.integers(1, 12), st.integers(1, 1 << 50), st.booleans())
def test_a_chart_shows_what_is_known_and_leaves_gaps_empty(
    past: list[int | None], rows: int, top: int, ascii: bool
) -> None:
    across = raster(ascii).across
    known = past + [None] * (-len(past) % across)
    lines = chart(known, rows, top, Style.DRAM, ascii=ascii)
    texts = ["".join(span.text for span in line) for line in lines]
    assert [len(text) for text in texts] == [len(known) // across] * rows
    for at in range(len(known) // across):
        column = known[at * across : (at + 1) * across]
        assert (texts[-1][at] == " ") == all(value is None for value in column)
    marks = sum(text.count("^" if ascii else "◆") for text in texts)
    assert marks == (1 if any(known) else 0)


def test_what_lies_above_the_limit_is_an_alarm() -> None:
    lines = chart([100, 100], 4, 100, Style.L1, limit=50)
    assert [line[-1].style for line in lines[1:]] == [Style.ALARM, Style.L1, Style.L1]


@given(amounts, st.none() | amounts)
def test_a_scale_holds_the_peak(peak: int, capacity: int | None) -> None:
    assert scale(peak, capacity) >= max(peak, 1)


@given(st.integers(1, 300), st.sampled_from([60, 300, 900, 3600]), st.integers(0, 4000))
def test_no_sample_in_sight_is_lost(count: int, seconds: int, length: int) -> None:
    times = [START - ago * SECOND for ago in range(length, -1, -1)]
    samples = list(range(len(times)))
    columns = TimeColumns.of({"time_ns": times}, START, seconds, count)
    seen = columns.highest(samples)
    assert len(seen) == count
    assert seen[-1] == samples[-1]
    assert None not in seen[seen.index(next(v for v in seen if v is not None)) :]


def test_columns_keep_their_shape_while_time_goes_on() -> None:
    times = [START + second * SECOND for second in range(400)]
    samples = [second * 7919 % 101 for second in range(400)]
    pictures = []
    for now in range(340, 350):
        columns = TimeColumns.of({"time_ns": times[: now + 1]}, times[now], 300, 30)
        highest = columns.highest(samples[: now + 1])
        pictures.append(
            {columns.start_ns + at * columns.step_ns: v for at, v in enumerate(highest[:-1])}
        )
    for earlier, later in pairwise(pictures):
        shared = earlier.keys() & later.keys()
        assert len(shared) >= 28
        assert {at: earlier[at] for at in shared} == {at: later[at] for at in shared}


def test_samples_that_come_rarely_still_make_a_line() -> None:
    """A monitor that reads every ten seconds has no gaps in its past."""
    times = [START - ago * 10 * SECOND for ago in range(6, -1, -1)]
    columns = TimeColumns.of({"time_ns": times}, START, 60, 60)
    assert None not in columns.highest([5] * 7)


def test_a_column_of_another_length_than_the_times_is_unknown() -> None:
    columns = TimeColumns.of({"time_ns": [START]}, START, 60, 4)
    assert columns.highest([1, 2]) == [None] * 4
