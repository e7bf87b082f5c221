"""Details of one device, and of so many rows: what a monitor asks ten times a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import RunningServer
from ttmem.client import AllocationClient, Buffer, GraphTracker
from ttmem.client.query import ServerConnection
from ttmem.errors import TtmemError
from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.feeds.server_feed import ServerFeed
from ttmem.hw import device_spec
from ttmem.snapshots import DETAILS, Snapshot
from ttmem.snapshots.types import DETAIL_FIELDS, DETAIL_MAPS, DETAIL_ROWS

SPEC = device_spec("p150", l1_small_size=32_768)
ALL_CORES, FEW_CORES = ((0, 0, 10, 9),), ((0, 0, 1, 1),)
TOP = SPEC.cb_base + SPEC.l1_bank_size


def _report(tracker: GraphTracker) -> None:
    """On both devices 30 DRAM and 30 L1 buffers and 20 programs, the first ones the largest."""
    for number in (0, 1):
        tracker.declare_device(DeviceDeclaration.from_spec(SPEC, number, f"chip-{number}"))
    for device in (0, 1):
        for n in range(30):
            size = (60 - n) * 64 * SPEC.dram_banks
            place = SPEC.dram_reserved + n * 4096
            at = f"dram.py:{device}{n:02}"
            buffer = Buffer(n + 1, size, MemoryKind.DRAM, device, place, size, at)
            tracker.track_allocate(buffer)
        for n in range(30):
            size, place = 64 * SPEC.l1_banks, TOP - (n + 1) * 64
            tracker.track_allocate(
                Buffer(n + 100, size, MemoryKind.L1, device, place, size, f"l1.py:{device}{n:02}")
            )
        for n in range(1, 21):
            cores = ALL_CORES if n % 2 else FEW_CORES
            tracker.track_allocate_cb(
                cores, SPEC.cb_base, n * 1024, False, device, program_id=n, dataflow=n == 20
            )
            tracker.track_kernel_load(
                9000 - n, n, device, num_cores=4, program_id=n, name=f"kernel-{device}-{n}"
            )
            tracker.track_program_dispatch(n, device)


@pytest.fixture
def feed(server: RunningServer) -> Iterator[ServerFeed]:
    tracker = GraphTracker(AllocationClient(server.path))
    tracker.enabled = True
    _report(tracker)
    assert tracker.client.flush(PATIENCE_S)
    server.sees(lambda p: [d.kernels.dispatches for d in p.devices] == [20, 20])
    made = ServerFeed(server.path)
    yield made
    made.close()
    tracker.client.close()


def _without_time(picture: Snapshot) -> tuple[Any, ...]:
    return picture.devices, picture.processes, picture.left_behind, picture.losses


def test_narrowing_changes_no_sum_no_device_and_no_process(feed: ServerFeed) -> None:
    whole = feed.read()

    narrowed = feed.read(DETAILS, device="chip-1", limit=1)
    assert _without_time(narrowed) == _without_time(whole)


def test_rows_are_those_of_the_device(feed: ServerFeed) -> None:
    wait_until(lambda: "chip-1" in (feed.read(["history"]).history or {}))
    whole, mine = feed.read(DETAILS), feed.read(DETAILS, device="chip-1")

    for key in DETAIL_ROWS:
        rows, all_rows = getattr(mine, key), getattr(whole, key)
        assert rows == tuple(row for row in all_rows if row.device == "chip-1")
        assert 0 < len(rows) < len(all_rows)
    for key in DETAIL_MAPS:
        assert list(getattr(mine, key)) == ["chip-1"]
    assert (mine.cores or {})["chip-1"] == (whole.cores or {})["chip-1"]


def test_a_limit_keeps_the_largest_the_latest_and_the_lowest(feed: ServerFeed) -> None:
    found = feed.read(DETAILS, device="chip-0", limit=3)

    sizes = [row.reserved or 0 for row in feed.read(["buffers"], device="chip-0").buffers or ()]
    assert [row.reserved for row in found.buffers or ()] == sorted(sizes, reverse=True)[:3]
    assert [row.name for row in found.kernels or ()] == [f"kernel-0-{n}" for n in (1, 2, 3)]
    assert [row.program for row in found.programs or ()] == [20, 19, 18]
    assert [row.address for row in found.l1_buffers or ()] == [TOP - n * 64 for n in (30, 29, 28)]
    last = [event.op for event in found.events or ()]
    assert last == ["CB_ALLOC", "KERNEL_LOAD", "PROGRAM_DISPATCH"]


def test_names_are_there_whatever_the_rows(feed: ServerFeed) -> None:
    found = feed.read(["buffers", "cores"], device="chip-1", limit=2)

    sites = [str(row.site) for row in found.buffers or ()]
    assert [site.split(":1")[0] in ("dram.py", "l1.py") for site in sites] == [True, True]
    assert [row.site for row in found.l1_buffers or ()] == ["l1.py:129", "l1.py:128"]


def test_only_the_strings_of_the_rows_travel(feed: ServerFeed) -> None:
    with closing(ServerConnection(feed.path, 5.0)) as server:
        answer, _ = server.query("snapshot", detail=["programs"], device="chip-0", limit=2)

    texts = sorted(text for _, pairs in answer["names"]["strings"] for _, text in pairs)
    assert texts == ["kernel-0-1", "kernel-0-2"]


def test_cores_tell_who_is_resident_and_who_reaches_highest(feed: ServerFeed) -> None:
    found = feed.read(["cores"], device="chip-0")

    few = [core_set for core_set in (found.cores or {})["chip-0"] if len(core_set.cores) == 4]
    assert [core_set.highest_program for core_set in few] == [20]
    assert few[0].regions == ((SPEC.cb_base, SPEC.cb_base + 20 * 1024),)
    resident = {
        (buffer.program, len(buffer.cores), buffer.dataflow)
        for buffer in (found.resident or {})["chip-0"]
    }
    assert resident == {(20, 4, True), (19, 106, False)}


def test_rows_of_an_unknown_device_are_none(feed: ServerFeed) -> None:
    found = feed.read(DETAILS, device="no such chip", limit=5)

    assert [len(getattr(found, key)) for key in DETAIL_FIELDS] == [0] * len(DETAIL_FIELDS)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"device": 7}, "device is a unique id as a string, not 7"),
        ({"device": ["chip-0"]}, "device is a unique id"),
        ({"limit": 0}, "limit is a whole number of rows, 1 or more, not 0"),
        ({"limit": -3}, "limit is a whole number"),
        ({"limit": True}, "limit is a whole number"),
        ({"limit": 2.5}, "limit is a whole number"),
        ({"limit": "ten"}, "limit is a whole number"),
        ({"detail": [["buffers"]]}, "details are a list of"),
    ],
)
def test_a_senseless_question_is_answered_with_a_sentence(
    server: RunningServer, question: dict[str, Any], sentence: str
) -> None:
    asked = ServerConnection(server.path, 5.0)
    with closing(asked), pytest.raises(TtmemError, match=sentence):
        asked.query("snapshot", **{"detail": ["buffers"], **question})
    assert server.alive


def test_a_limit_beyond_all_numbers_has_no_effect(feed: ServerFeed) -> None:
    assert len(feed.read(["buffers"], limit=10**30).buffers or ()) == 120
