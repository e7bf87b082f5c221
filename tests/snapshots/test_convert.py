"""Snapshots to JSON and back, and documents that an enemy wrote."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.test_laws import World, steps
from tests.views import cases
from ttmem.errors import BadInput
from ttmem.events import Event
from ttmem.snapshots import (
    Buffer,
    CircularBuffer,
    Cores,
    CoreSet,
    Kernel,
    LoggedEvent,
    MemoryHistory,
    Program,
    ResidentBuffer,
    Snapshot,
    from_json,
    to_json,
)
from ttmem.snapshots.convert import Earlier
from ttmem.snapshots.types import DETAIL_FIELDS


def picture(sequence: list[tuple[int, Event | str]]) -> Snapshot:
    world = World()
    for number, what in sequence:
        world.step(number, what)
    return world.books.snapshot(5, {"server": {"pid": 1}})


@settings(max_examples=50, deadline=None)
@given(steps)
def test_reading_is_the_inverse_of_writing(sequence: list[tuple[int, Event | str]]) -> None:
    before = picture(sequence)

    assert from_json(json.loads(json.dumps(to_json(before)))) == before


@settings(max_examples=50, deadline=None)
@given(steps, steps)
def test_reading_beside_an_earlier_snapshot_gives_the_same(
    sequence: list[tuple[int, Event | str]], further: list[tuple[int, Event | str]]
) -> None:
    old = json.loads(json.dumps(to_json(picture(sequence))))
    now = picture([*sequence, *further])

    assert from_json(json.loads(json.dumps(to_json(now))), Earlier(old, from_json(old))) == now


def test_what_has_not_changed_is_the_same_object_as_before() -> None:
    old = to_json(picture([(0, Event(1, 1, id=1, size=5))]))
    known = from_json(old)
    new = to_json(picture([(0, Event(1, 1, id=1, size=6))]))

    device, before = from_json(new, Earlier(old, known)).devices[0], known.devices[0]
    assert device.kernels is before.kernels
    assert device.provenance is before.provenance
    assert (device.memory.l1.held, before.memory.l1.held) == (6, 5)


def test_the_document_has_the_keys_of_the_design() -> None:
    document = to_json(picture([(0, Event(1, 1, id=1, size=5))]))

    assert list(document)[:3] == ["schema", "time_ns", "host"]
    device = document["devices"][0]
    assert {"unique_id", "logical_id", "board", "arch", "pci", "memory", "l1_used"} <= set(device)
    assert {"l1_capacity", "l1_total", "l1_peak", "l1_peak_time_ns", "kernels"} <= set(device)
    use = {
        "capacity",
        "requested",
        "reserved",
        "free",
        "largest_free",
        "count",
        "peak",
        "peak_time_ns",
    }
    assert all(use <= set(device["memory"][kind]) for kind in ("dram", "l1", "l1_small", "trace"))
    assert {"resident", "cached", "demand", "dataflow"} <= set(device["memory"]["cb"])
    assert set(device["kernels"]["footprint"]) == {"application", "fabric", "dispatch"}
    assert {"capacity", "occupied", "wraps", "syncs"} <= set(device["kernels"]["ring"])
    counters = {"loads", "unloads", "dispatches", "cache_entries", "cache_hits", "cache_misses"}
    assert counters | {"dram_binaries", "distinct_binaries"} <= set(device["kernels"])
    assert set(document["processes"][0]["devices"]["0"]) == {
        "dram",
        "l1",
        "l1_small",
        "trace",
        "cb",
    }
    assert set(document["losses"]) == {"dropped_events", "gaps", "rejected_records"}


def test_keys_of_a_newer_version_are_ignored() -> None:
    document = to_json(picture([]))

    assert from_json({**document, "of the future": 7}) == from_json(document)


ROWS: dict[str, Any] = {
    "programs": (
        Program(41, "0", 7, "Committed", 4, 3, 1, 99, 2048, 64, "op", "a.py:1", "a.py:2"),
    ),
    "kernels": (Kernel(41, "0", "fabric", 8, 7, "mm", 64, 4, 256, "00ff", 1, 4, 98, "a.py:1"),),
    "circular_buffers": (CircularBuffer(41, None, 7, 64, 4096, 64, True, False, 2, 97),),
    "buffers": (Buffer(None, "0", "L1", 5, 4096, 10, None, 1, 96, None, "a.py:3", "load"),),
    "l1_buffers": (Buffer(41, "0", "L1_SMALL"),),
    "events": (
        LoggedEvent(95, 41, "0", "ALLOC", "L1", ("RESENT",), 5, 10, text="no", name="x"),
        LoggedEvent(96, 41, None, 250),
    ),
}
SPOTS = Cores.of([(0, 0), (7, 3)])
MAPS: dict[str, Any] = {
    "cores": {"0": (CoreSet(41, SPOTS, 12, ((64, 76), (80, 92)), None),)},
    "resident": {"0": (ResidentBuffer(41, 7, SPOTS, 64, 76, True),), "1": ()},
    "history": {"0": MemoryHistory((1, 2), (3, 4), (5, 6), (0, 0), (0, 0), (7, 8), (12, 14))},
}


def test_details_are_read_as_they_were_written() -> None:
    before = replace(picture([]), **ROWS, **MAPS)
    document = json.loads(json.dumps(to_json(before)))

    assert from_json(document) == before
    assert document["circular_buffers"][0]["global"] is True
    assert document["cores"]["0"][0]["cores"] == [[0, 0], [7, 3]]


def test_details_that_were_not_asked_for_are_no_keys() -> None:
    assert not set(to_json(picture([]))) & set(DETAIL_FIELDS)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("buffers", "requested", -1),
        ("buffers", "requested", 1 << 64),
        ("buffers", "kind", 7),
        ("buffers", "site", 7),
        ("kernels", "footprint", True),
        ("events", "op", None),
        ("events", "flags", [7]),
        ("events", "size", "10"),
        ("circular_buffers", "global", 1),
    ],
)
def test_a_row_with_an_impossible_value_is_refused(name: str, key: str, value: object) -> None:
    document = to_json(replace(picture([]), **ROWS))
    document[name][0][key] = value

    with pytest.raises(BadInput, match="damaged"):
        from_json(document)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cores", [[32, 0]]),
        ("cores", [[0, -1]]),
        ("cores", [[0, True]]),
        ("cores", "x"),
        ("cores", [[0]]),
        ("regions", [[1, 2, 3]]),
        ("regions", [[-1, 2]]),
        ("regions", [[0, 10**400]]),
        ("cached", 10**400),
    ],
    ids=repr,
)
def test_an_impossible_set_of_cores_is_refused(key: str, value: object) -> None:
    document = to_json(replace(picture([]), **MAPS))
    document["cores"]["0"][0][key] = value

    with pytest.raises(BadInput, match="damaged"):
        from_json(document)


@pytest.mark.parametrize("column", [7, "12", ["1"], [1.5], [None]])
def test_a_history_that_is_no_numbers_is_refused(column: object) -> None:
    document = to_json(replace(picture([]), **MAPS))
    document["history"]["0"]["dram"] = column

    with pytest.raises(BadInput, match="damaged"):
        from_json(document)


@pytest.mark.parametrize("schema", [None, 3, "ttmem.snapshot/2", "something/1"])
def test_another_schema_is_refused(schema: object) -> None:
    with pytest.raises(BadInput, match="snapshot"):
        from_json({**to_json(picture([])), "schema": schema})


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(junk=JUNK, choice=st.randoms(use_true_random=False))
def test_a_damaged_document_is_refused_in_words(junk: Any, choice: Any) -> None:
    document = to_json(picture([(0, Event(1, 1, id=1, size=5))]))
    _damage(document, junk, choice)

    with suppress(BadInput):
        assert isinstance(from_json(document), Snapshot)


def _damage(node: Any, junk: Any, choice: Any) -> None:
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = choice.choice(keys)
        inner = node[key]
        if isinstance(inner, (dict, list)) and inner and choice.random() < 0.8:
            node = inner
            continue
        node[key] = junk
        return


@pytest.mark.parametrize(
    ("told", "read"), [(51, 51.0), (51.5, 51.5), (float("nan"), None), (10**400, None)]
)
def test_a_sensor_may_tell_a_whole_number_and_nothing_beyond_numbers(
    told: float, read: float | None
) -> None:
    document = to_json(picture([(0, Event(1, 1, id=1, size=5))]))
    document["devices"][0]["telemetry"] = {"temperature_c": told}

    device = from_json(document).devices[0]

    assert device.telemetry is not None
    assert device.telemetry.temperature_c == read


@pytest.mark.parametrize("told", ["51", True, [], {}])
def test_a_sensor_that_tells_no_number_is_damage(told: object) -> None:
    document = to_json(picture([(0, Event(1, 1, id=1, size=5))]))
    document["devices"][0]["telemetry"] = {"temperature_c": told}

    with pytest.raises(BadInput):
        from_json(document)


def test_reprs_are_one_short_line() -> None:
    now = cases.four_devices()

    assert repr(now) == "Snapshot(4 devices, 2 processes)"
    assert repr(now.devices[0]) == (
        "Device(0, '9223372036854000000', n300, dram=4.5 GiB, l1_used=32.0 MiB)"
    )
    assert (
        repr(now.processes[0])
        == "Process(42001, 'python serve.py --port 8000', 1 device, dram=2.0 GiB, l1_used=3.0 MiB)"
    )
