"""Layouts v1 to v4, told apart by version word, size and name."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sources.conftest import Spawn
from tests.sources.region_writer import NOTHING, OWN_CHIP, READY, UNUSED_CHIP, Slot, Written
from ttmem.events import Amounts, DeviceSample, Owner
from ttmem.sources.counters.source import CounterSource

ME = os.getpid()
HELD = (5 << 30, 1 << 20, 4096, 2048, 777)


def _only(source: CounterSource) -> DeviceSample:
    reading = source.read()
    assert reading.remarks == ()
    (device,) = reading.devices
    return device


def _skipped(source: CounterSource) -> tuple[str, str]:
    reading = source.read()
    assert reading.devices == ()
    (remark,) = reading.remarks
    return remark.kind, remark.text


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_tells_what_its_processes_hold(
    source: CounterSource, tmp_path: Path, version: int
) -> None:
    Written(number=0x412319110CD, version=version, slots=[Slot(ME, HELD)]).write(tmp_path)

    device = _only(source)

    (process,) = device.processes
    assert (device.unique_id, device.version) == (str(0x412319110CD), version)
    assert (process.pid, process.owner, process.counters) == (ME, Owner.LIVE, Amounts(*HELD))
    assert device.stored == device.chips == device.in_use == Amounts(*HELD)
    assert device.remarks == ()


def test_the_golden_region_of_every_version_stays_readable(
    source: CounterSource, tmp_path: Path
) -> None:
    golden = Path(__file__).parents[1] / "data" / "regions"
    for file in golden.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())

    versions = [device.layout for device in source.read().devices]

    assert versions == ["1", "1 with kernel counters", "2", "3", "4"]


def test_circular_buffers_mean_something_else_in_version_4(
    source: CounterSource, tmp_path: Path
) -> None:
    Written(number=1000, version=3).write(tmp_path)
    Written(number=2000, version=4).write(tmp_path)

    third, fourth = source.read().devices

    assert "cached programs" in third.cb_method
    assert "residency at the last dispatch" in fourth.cb_method
    assert "other threads" in third.misses
    assert "dataflow buffers" in third.misses
    assert "other threads" not in fourth.misses


def test_the_early_layout_with_the_next_versions_word_is_version_1(
    source: CounterSource, tmp_path: Path
) -> None:
    number = 0x72701
    early = Written(number=number, version=2, serial=0x727, asic=0x01, slots=[Slot(ME, HELD)])
    replace(early, free_chip=0).write(tmp_path)

    assert _only(source).version == 1


@pytest.mark.parametrize(("free", "version"), [(0, 1), (UNUSED_CHIP, 2)])
def test_free_chips_decide_where_the_id_looks_the_same_either_way(
    source: CounterSource, tmp_path: Path, free: int, version: int
) -> None:
    Written(number=7, version=2, free_chip=free, slots=[Slot(ME, HELD)]).write(tmp_path)

    assert _only(source).version == version


@pytest.mark.parametrize("size", [9280, 9248])
def test_kernel_counters_of_the_prototypes_stand_apart_from_every_sum(
    source: CounterSource, tmp_path: Path, size: int, spawn: Spawn
) -> None:
    dead = spawn()
    dead.kill()
    dead.wait()
    slots = [Slot(ME, HELD, kernels=53 << 20), Slot(dead.pid, HELD, kernels=7)]
    Written(number=469504, version=1, kernel_size=size, slots=slots).write(tmp_path)

    (device,) = source.read().devices

    assert (device.layout, device.version) == ("1 with kernel counters", 1)
    assert device.in_use == Amounts(*HELD)
    assert [(process.owner, process.kernels) for process in device.processes] == [
        (Owner.LIVE, 53 << 20),
        (Owner.DEAD, 7),
    ]
    assert device.kernels == 53 << 20
    assert {remark.kind for remark in device.remarks} == {"ghost", "totals_disagree"}
    assert "TT_METAL_SHM_STATS_PER_PID" in device.misses


def test_an_impossible_kernel_counter_is_unknown_and_hides_nothing_else(
    source: CounterSource, tmp_path: Path
) -> None:
    slots = [Slot(ME, HELD, kernels=2**64 - 4096)]
    Written(number=469504, version=1, kernel_size=9280, slots=slots).write(tmp_path)

    device = _only(source)

    assert (device.kernels, device.in_use) == (None, Amounts(*HELD))


def test_version_1_stamps_with_the_steady_clock(source: CounterSource, tmp_path: Path) -> None:
    Written(
        number=0x72701, version=1, slots=[Slot(ME, HELD, updated_ns=time.monotonic_ns())]
    ).write(tmp_path)

    (process,) = _only(source).processes

    assert process.owner is Owner.LIVE
    assert abs(process.updated_ns - time.time_ns()) < 60_000_000_000


@pytest.mark.parametrize(
    ("region", "words"),
    [
        (Written(version=5), "layout version 5"),
        (Written(version=0xDEADBEEF), "layout version 3735928559"),
        (Written(asic=7), "belongs to chip 7"),
        (Written(version=1, serial=0, asic=OWN_CHIP), "undivided id"),
        (Written(version=3, serial=OWN_CHIP >> 8, asic=OWN_CHIP & 0xFF), "two parts"),
        (Written(version=1, free_chip=UNUSED_CHIP), "free chips are marked as in later ones"),
        (Written(version=1, kernel_size=9280, free_chip=UNUSED_CHIP), "free chips are marked"),
        (
            Written(version=2, kernel_size=9280, serial=OWN_CHIP >> 8, asic=OWN_CHIP & 0xFF),
            "version 2 in 9280 bytes",
        ),
        (Written(version=1, kernel_size=9280, serial=0, asic=OWN_CHIP), "undivided id"),
        (Written(version=1, kernel_size=9280, asic=7), "belongs to chip 7"),
    ],
)
def test_what_does_not_fit_is_named_not_guessed(
    source: CounterSource, tmp_path: Path, region: Written, words: str
) -> None:
    region.write(tmp_path)

    kind, text = _skipped(source)

    assert kind == "unknown_layout"
    assert words in text


@pytest.mark.parametrize(
    ("size", "words"), [(9216, "9216 bytes"), (8575, "8575 bytes"), (8640, "8640 bytes")]
)
def test_another_size_is_another_layout(
    source: CounterSource, tmp_path: Path, size: int, words: str
) -> None:
    path = Written().write(tmp_path)
    path.write_bytes(path.read_bytes().ljust(size, b"\0")[:size])

    kind, text = _skipped(source)

    assert kind == "unknown_layout"
    assert words in text


@pytest.mark.parametrize("state", [0, 1, READY + 1])
def test_a_region_that_is_not_ready_is_reported(
    source: CounterSource, tmp_path: Path, state: int
) -> None:
    Written(version=4, state=state).write(tmp_path)

    assert _skipped(source)[0] == "initialising"


def test_a_region_full_of_zeros_is_being_initialised(source: CounterSource, tmp_path: Path) -> None:
    Written().write(tmp_path).write_bytes(bytes(8576))

    assert _skipped(source)[0] == "initialising"


def test_a_slot_that_is_being_released_is_nobodys(source: CounterSource, tmp_path: Path) -> None:
    Written(
        version=4, slots=[Slot(-1, HELD), Slot(ME, HELD)], totals=HELD, chips=[(0, HELD)]
    ).write(tmp_path)

    device = _only(source)

    assert [process.pid for process in device.processes] == [ME]
    assert device.remarks == ()


def test_a_process_with_no_update_yet_is_alive(source: CounterSource, tmp_path: Path) -> None:
    Written(version=4, slots=[Slot(ME, NOTHING, updated_ns=0)]).write(tmp_path)

    (process,) = _only(source).processes

    assert (process.owner, process.updated_ns) == (Owner.LIVE, 0)
