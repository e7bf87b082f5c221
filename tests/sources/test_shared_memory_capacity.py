"""Capacities: cluster descriptor, UMD, sysfs, the unique id's board; else unknown."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sources.region_writer import Slot, Written
from ttmem.events import DeviceSample
from ttmem.hw import read_cluster
from ttmem.sources.shared_memory import HoldersWatch, SharedMemory
from ttmem.sources.shared_memory.capacity import Capacities
from ttmem.sources.shared_memory.umd import Discovery

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"
P150X4 = DESCRIPTORS / "p150x4.yaml"
IN_P150X4 = 18446744073709551002
P150_ID = 4476187513037


def _read(folder: Path, capacities: Capacities) -> DeviceSample:
    quiet = HoldersWatch(period_s=float("inf"))
    (device,) = SharedMemory(str(folder), holders=quiet, capacities=capacities).read().devices
    return device


def _found(device: DeviceSample) -> tuple[str | None, str | None, int | None]:
    declared = device.declaration
    if declared is None:
        return device.capacity_source, None, None
    return device.capacity_source, declared.board, declared.l1_capacity


@contextmanager
def _owner(folder: Path, **environment: str) -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **environment}, cwd=folder)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def bare(tmp_path: Path) -> Capacities:
    return Capacities(sysfs=str(tmp_path / "none"), discovery=Discovery(str(tmp_path / "none")))


def test_the_owners_descriptor_comes_first(tmp_path: Path, bare: Capacities) -> None:
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(P150X4)) as pid:
        Written(number=IN_P150X4, slots=[Slot(pid)]).write(tmp_path)
        device = _read(tmp_path, bare)

    cluster = read_cluster(P150X4)
    chip = cluster.by_unique_id(IN_P150X4)
    assert chip is not None
    assert _found(device) == ("cluster descriptor", "p150", cluster.spec(chip).l1_capacity)
    assert device.declaration is not None
    assert (device.declaration.trace_bank_size, device.declaration.l1_small_bank_size) == (
        None,
        None,
    )


def test_a_relative_path_is_the_owners(tmp_path: Path, bare: Capacities) -> None:
    (tmp_path / "mine.yaml").write_bytes(P150X4.read_bytes())
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH="mine.yaml") as pid:
        Written(number=IN_P150X4, slots=[Slot(pid)]).write(tmp_path)

        assert _read(tmp_path, bare).capacity_source == "cluster descriptor"


def test_without_unique_ids_regions_have_logical_numbers(tmp_path: Path, bare: Capacities) -> None:
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(DESCRIPTORS / "n150.yaml")) as pid:
        Written(number=0, slots=[Slot(pid)]).write(tmp_path)

        assert _found(_read(tmp_path, bare))[:2] == ("cluster descriptor", "n150")


def test_slow_dispatch_leaves_more_cores(tmp_path: Path, bare: Capacities) -> None:
    with _owner(tmp_path, TT_METAL_SLOW_DISPATCH_MODE="1") as pid:
        Written(number=P150_ID, slots=[Slot(pid)]).write(tmp_path)
        device = _read(tmp_path, bare)

    assert device.declaration is not None
    assert device.declaration.l1_banks == 120


def test_a_descriptor_can_be_given(tmp_path: Path) -> None:
    Written(number=IN_P150X4).write(tmp_path)

    given = Capacities(str(P150X4), sysfs=str(tmp_path / "none"))

    assert _found(_read(tmp_path, given))[:2] == ("cluster descriptor", "p150")


def test_a_broken_descriptor_leaves_it_to_the_next_source(tmp_path: Path, bare: Capacities) -> None:
    (tmp_path / "bad.yaml").write_text("arch: [}")
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(tmp_path / "bad.yaml")) as pid:
        Written(number=P150_ID, slots=[Slot(pid)]).write(tmp_path)

        assert _found(_read(tmp_path, bare))[:2] == ("unique id", "p150")


def _card(folder: Path, **words: str) -> str:
    card = folder / "sysfs" / "tenstorrent!0"
    card.mkdir(parents=True)
    for name, word in words.items():
        (card / name).write_text(f"{word}\n")
    (card / "device").symlink_to("../../../0000:01:00.0")
    return str(folder / "sysfs")


def test_sysfs_knows_the_card_by_its_chips_own_id(tmp_path: Path) -> None:
    number = 17716556166399396846
    sysfs = _card(tmp_path, tt_card_type="p100a", tt_asic_id=f"{number:016X}")
    Written(number=number).write(tmp_path)

    device = _read(tmp_path, Capacities(sysfs=sysfs))

    assert _found(device)[:2] == ("sysfs", "p100")
    assert device.declaration is not None
    assert device.declaration.pci == "0000:01:00.0"
    assert "usual" in (device.declaration.note or "")


def test_sysfs_knows_the_card_by_its_serial_number(tmp_path: Path) -> None:
    sysfs = _card(tmp_path, tt_card_type="n300", tt_serial="010001461190302B")
    Written(number=0x36190302B).write(tmp_path)

    device = _read(tmp_path, Capacities(sysfs=sysfs))

    assert _found(device)[:2] == ("sysfs", "n300")
    assert device.declaration is not None
    assert device.declaration.pci is None  # a board with two chips: which one is unknown


def test_what_nobody_knows_is_unknown(tmp_path: Path, bare: Capacities) -> None:
    Written(number=17716556166399396846).write(tmp_path)

    assert _found(_read(tmp_path, bare)) == (None, None, None)


def test_the_drivers_discovery_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = f"import shutil, sys; shutil.copy({str(P150X4)!r}, sys.argv[1])"
    discovery = Discovery(str(tmp_path), wait_s=60, script=script)

    cluster = discovery.cluster()

    assert cluster == read_cluster(P150X4)


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "import os; os.abort()", "pass"])
def test_a_discovery_that_fails_is_no_answer(tmp_path: Path, script: str) -> None:
    assert Discovery(str(tmp_path), wait_s=60, script=script).cluster() is None
