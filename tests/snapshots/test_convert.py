"""Snapshots to JSON and back, and documents that an enemy wrote."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.test_laws import World, steps
from tests.views import cases
from ttmem.errors import BadInput
from ttmem.events import Event
from ttmem.snapshots import Snapshot, from_json, to_json


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
    now = cases.readme()

    assert repr(now) == "Snapshot(2 devices, 2 processes)"
    assert repr(now.devices[0]) == (
        "Device(0, '9223372036854000000', n300, dram=4.5 GiB, l1_used=32.0 MiB)"
    )
    assert repr(now.processes[0]) == (
        "Process(41235, 'python generate.py --batch 32', 2 devices, dram=7.8 GiB, l1_used=88.4 MiB)"
    )
