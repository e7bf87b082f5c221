"""One hour of samples, whatever the feed and the clock do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.views.cases import empty_host, four_devices, one_device
from ttmem.snapshots import MemoryHistory, Snapshot
from ttmem.views.monitor.sample_history import SECONDS, SampleHistory

SECOND = 1_000_000_000
(DEVICE,) = one_device().devices


def at(seconds: float, snapshot: Snapshot | None = None) -> Snapshot:
    return replace(snapshot or one_device(), time_ns=int(seconds * SECOND))


def times(history: SampleHistory) -> list[float]:
    series = history.series.get(DEVICE.unique_id)
    return [] if series is None else [time / SECOND for time in series["time_ns"]]


def past(*seconds: int, **other: tuple[int, ...]) -> dict[str, MemoryHistory]:
    columns = dict.fromkeys(MemoryHistory._fields, (7,) * len(seconds))
    times = tuple(second * SECOND for second in seconds)
    return {DEVICE.unique_id: MemoryHistory(**{**columns, "time_ns": times, **other})}


def test_pictures_are_sampled_once_a_second() -> None:
    history = SampleHistory()
    for moment in (100.0, 100.1, 100.9, 101.2, 101.8, 103.0):
        history.add(at(moment))
    assert times(history) == [100.0, 101.2, 103.0]


def test_a_sample_is_what_the_picture_says() -> None:
    history = SampleHistory()
    history.add(at(100))
    series = history.series[DEVICE.unique_id]
    memory = DEVICE.memory
    assert {name: list(column) for name, column in series.items()} == {
        "time_ns": [100 * SECOND],
        "dram": [memory.dram.held],
        "l1": [memory.l1.held],
        "l1_small": [memory.l1_small.held],
        "trace": [memory.trace.held],
        "cb": [memory.cb.used],
        "l1_used": [DEVICE.l1_used],
    }


def test_the_past_of_the_feed_comes_before_what_is_seen() -> None:
    history = SampleHistory()
    history.add(at(103))
    history.begin(past(100, 101, 102))
    history.add(at(103))
    assert times(history) == [100, 101, 102, 103]


def test_an_hour_is_kept() -> None:
    history = SampleHistory()
    for second in range(SECONDS + 100):
        history.add(at(1000 + second))
    assert len(times(history)) == SECONDS
    assert times(history)[-1] == 1000 + SECONDS + 99


def test_a_clock_that_goes_back_drops_what_would_be_the_future() -> None:
    history = SampleHistory()
    for moment in (100, 101, 102, 50, 51):
        history.add(at(moment))
    assert times(history) == [50, 51]


def test_a_clock_that_goes_back_a_little_keeps_the_past() -> None:
    history = SampleHistory()
    for moment in (100, 101, 102.5, 102.1):
        history.add(at(moment))
    assert times(history) == [100, 101, 102.1]


def test_a_device_that_vanishes_keeps_its_past_for_an_hour() -> None:
    history = SampleHistory()
    history.add(at(100))
    history.add(at(200, empty_host()))
    assert times(history) == [100]
    history.add(at(100 + SECONDS + 1, empty_host()))
    assert dict(history.series) == {}


def test_a_copy_does_not_grow() -> None:
    history = SampleHistory()
    history.add(at(100))
    held = history.copy()
    history.add(at(101))
    assert list(held[DEVICE.unique_id]["time_ns"]) == [100 * SECOND]


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        past(100, 99),
        past(100, dram=()),
        past(100, dram=(1 << 70,)),
    ],
    ids=repr,
)
def test_a_damaged_past_keeps_what_was_known(damaged: dict[str, MemoryHistory] | None) -> None:
    history = SampleHistory()
    history.add(at(100))
    history.begin(damaged)
    assert times(history) == [100]


def test_impossible_amounts_are_no_sample() -> None:
    history = SampleHistory()
    history.add(replace(one_device(), devices=(replace(DEVICE, l1_used=1 << 90),), time_ns=SECOND))
    assert times(history) == []


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 10**7), st.booleans()), max_size=60))
def test_times_are_always_in_order_and_within_an_hour(moments: list[tuple[int, bool]]) -> None:
    history = SampleHistory()
    for seconds, there in moments:
        history.add(at(seconds, four_devices() if there else empty_host()))
        for series in history.series.values():
            stamps = list(series["time_ns"])
            assert stamps == sorted(set(stamps))
            assert len({len(column) for column in series.values()}) == 1
