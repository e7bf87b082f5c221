"""Regions of each version, kept: they stay readable for ever."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.probe.test_captured import events_of
from ttmem.events import MemoryKind, Op
from ttmem.probe.layout import Counted, LiveType, Notice, RegionState
from ttmem.sources.probe.region import ProbeRegion

GOLDEN = Path(__file__).parents[1] / "data" / "probe_regions"


@contextmanager
def golden(version: int, folder: Path) -> Iterator[ProbeRegion]:
    path = folder / "ttmem_1_1"
    path.write_bytes(gzip.decompress((GOLDEN / f"version-{version}.gz").read_bytes()))
    with closing(ProbeRegion(str(path))) as found:
        yield found


@pytest.fixture
def region(tmp_path: Path) -> Iterator[ProbeRegion]:
    with golden(1, tmp_path) as found:
        yield found


def test_version_1_knows_no_chip_0_and_no_base_of_dram(region: ProbeRegion) -> None:
    told = [(device.unique_id, device.dram_base) for device in region.devices() if device]

    assert (region.header().version, told) == (1, [("1000", None), ("1001", None)])


def test_version_2_tells_ids_from_0_on_and_where_dram_begins(tmp_path: Path) -> None:
    with golden(2, tmp_path) as region:
        told = [(device.unique_id, device.dram_base) for device in region.devices() if device]

        assert (region.header().version, told) == (2, [("0", 64), ("1", 64)])
        assert [entry.requested for entry in region.live()] == [5000]
        assert [entry.requested for entry in region.gone_with_device()] == [100]


def test_version_3_has_the_tables_of_version_2_and_no_events(tmp_path: Path) -> None:
    with golden(2, tmp_path) as whole:
        expected = (whole.devices(), whole.counters(), whole.live(), whole.gone_with_device())
        last = events_of(whole.new_events())[-1].time

    with golden(3, tmp_path) as region:
        told = (region.devices(), region.counters(), region.live(), region.gone_with_device())

        assert region.header().version == 3
        assert told == expected
        assert (region.new_events().lost, region.last_event_ns) == (0, last)


def test_its_process_ended_in_order(region: ProbeRegion) -> None:
    assert region.header().state is RegionState.ENDED
    assert not region.process_alive()


def test_its_counters_are_what_they_were(region: ProbeRegion) -> None:
    first, second = region.counters()

    held = {kind: (first[kind].requested, first[kind].count) for kind in range(len(first))}
    assert held == {
        MemoryKind.DRAM: (11_144, 2),
        MemoryKind.L1: (100, 1),
        MemoryKind.SYSTEM_MEMORY: (0, 0),
        MemoryKind.L1_SMALL: (0, 0),
        MemoryKind.TRACE: (8192, 1),
        Counted.CB_DEMAND: (16_384, 2),
        Counted.DATAFLOW_DEMAND: (0, 0),
        Counted.KERNEL_BINARIES: (6144, 1),
    }
    assert first == second


def test_what_was_alive_has_its_name_line_and_phase(region: ProbeRegion) -> None:
    texts = region.new_strings()

    alive = {(entry.type, entry.requested, texts.get(entry.phase)) for entry in region.live()}

    assert alive == {
        (LiveType.BUFFER, 5000, "prefill"),
        (LiveType.BUFFER, 100, None),
        (LiveType.BUFFER, 6144, None),
        (LiveType.BUFFER, 8192, None),
        (LiveType.CIRCULAR_BUFFER, 8192, None),
        (LiveType.PROGRAM, 0, None),
        (LiveType.KERNEL, 3000, None),
    }
    assert {texts.get(entry.site) for entry in region.live()} >= {"model.py:11 <module>"}


def test_its_events_are_all_there(region: ProbeRegion) -> None:
    batch = region.new_events()

    told = [event.op for event in events_of(batch) if event.device == 1]

    assert batch.lost == 0
    assert told == [
        Notice.DEVICE_OPENED,
        *(Op.ALLOC, Op.ALLOC, Op.ALLOC, Op.FREE, Notice.ALLOCATION_FAILED),
        *(Op.CB_ALLOC, Op.CB_ALLOC, Op.KERNEL_LOAD, Notice.PROGRAM_COMPILED),
        *(Notice.PROGRAM_FINALIZED, Op.ALLOC, Op.BINARY_STATUS, Op.BINARY_STATUS),
        *(Op.PROGRAM_DISPATCH, Op.PROGRAM_DISPATCH, Op.PROGRAM_DISPATCH),
        *(Notice.TRACE_BEGUN, Op.ALLOC, Notice.TRACE_CAPTURED),
    ]


def test_the_refused_allocation_keeps_its_words(region: ProbeRegion) -> None:
    (failure,) = region.failures()

    assert (failure.requested, failure.chips) == (1 << 41, (0, 1))
    assert failure.message == "Out of Memory: not enough space"
