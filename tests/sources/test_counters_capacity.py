"""Capacities: cluster descriptor, UMD, sysfs, the unique id's board; else unknown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.sources.region_writer import Slot, Written
from ttmem.events import DeviceSample
from ttmem.hw import device_spec
from ttmem.hw.descriptor import Cluster, read_cluster
from ttmem.hw.discovery import LARGEST, Capacities, Descriptors
from ttmem.hw.umd import Discovery
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import CounterSource

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"
P150X4 = DESCRIPTORS / "p150x4.yaml"
IN_P150X4 = 18446744073709551002
P150_ID = 4476187513037


def _read(folder: Path, capacities: Capacities) -> DeviceSample:
    quiet = ProcScanner(period_s=float("inf"))
    (device,) = CounterSource(str(folder), scanner=quiet, capacities=capacities).read().devices
    return device


def _found(device: DeviceSample) -> tuple[str | None, str | None, int | None]:
    declared = device.declaration
    if declared is None:
        return device.capacity_source, None, None
    return device.capacity_source, declared.board, declared.l1_capacity_default


@contextmanager
def _owner(folder: Path, **environment: str) -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **environment}, cwd=folder)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


@contextmanager
def _owner_with_ttnn(folder: Path, version: str) -> Iterator[int]:
    """Maps a file where that version of ttnn has its library."""
    packages = folder / "site-packages"
    (packages / f"ttnn-{version}.dist-info").mkdir(parents=True)
    library = packages / "ttnn" / "_ttnn.so"
    library.parent.mkdir()
    library.write_bytes(bytes(4096))
    script = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); kept = mmap.mmap(file.fileno(), 0);"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


def _note(device: DeviceSample) -> str:
    assert device.declaration is not None
    return device.declaration.note or ""


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
    assert _found(device) == ("cluster descriptor", "p150", device_spec(chip.board).l1_capacity)


def test_a_relative_path_is_the_owners(tmp_path: Path, bare: Capacities) -> None:
    (tmp_path / "mine.yaml").write_bytes(P150X4.read_bytes())
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH="mine.yaml") as pid:
        Written(number=IN_P150X4, slots=[Slot(pid)]).write(tmp_path)

        assert _read(tmp_path, bare).capacity_source == "cluster descriptor"


def test_without_unique_ids_regions_have_logical_numbers(tmp_path: Path, bare: Capacities) -> None:
    with _owner(tmp_path, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(DESCRIPTORS / "n150.yaml")) as pid:
        Written(number=0, slots=[Slot(pid)]).write(tmp_path)

        assert _found(_read(tmp_path, bare))[:2] == ("cluster descriptor", "n150")


@pytest.fixture
def p150x4(tmp_path: Path) -> Capacities:
    return Capacities(str(P150X4), sysfs=str(tmp_path / "none"))


def test_slow_dispatch_leaves_more_cores(tmp_path: Path, p150x4: Capacities) -> None:
    with _owner(tmp_path, TT_METAL_SLOW_DISPATCH_MODE="1") as pid:
        Written(number=IN_P150X4, slots=[Slot(pid)]).write(tmp_path)
        device = _read(tmp_path, p150x4)

    assert _found(device) == ("cluster descriptor", "p150", 120 * 1_461_120)
    assert "slow dispatch" in _note(device)


def test_what_the_arguments_of_the_opener_decide_is_unknown(
    tmp_path: Path, bare: Capacities
) -> None:
    Written(number=P150_ID).write(tmp_path)

    declared = _read(tmp_path, bare).declaration

    assert declared is not None
    assert (declared.grid, declared.l1_banks, declared.l1_total, declared.l1_capacity) == (
        None,
    ) * 4
    assert (declared.ring_capacity, declared.cb_base, declared.trace_bank_size) == (None,) * 3
    assert declared.l1_per_core == 1_572_864
    assert (declared.dram_banks, declared.dram_bank_size) == (8, 4_277_141_376)
    assert declared.l1_most == 140 * 1_572_864  # of a board whose harvesting is only presumed
    said = declared.note or ""
    assert "dispatch_core_config and worker_l1_size, which are not published" in said
    assert "153.3 MiB (160,723,200 B)" in said


def test_a_board_that_is_sold_with_more_cores_too_has_no_default_by_its_name_alone(
    tmp_path: Path, bare: Capacities
) -> None:
    Written(number=P150_ID).write(tmp_path)

    device = _read(tmp_path, bare)

    assert _found(device) == ("unique id", "p150", None)
    assert "some p150 have 120 compute cores, not 110" in _note(device)


@pytest.mark.parametrize(
    ("version", "l1", "dram"),
    [
        ("0.81.1", 160_723_200, 4_277_141_376),
        ("0.75.0", 160_765_440, 4_277_141_376),
        ("0.71.2", 160_793_600, 4_278_190_016),
    ],
)
def test_the_default_is_that_of_the_ttnn_which_the_owner_has_loaded(
    tmp_path: Path, p150x4: Capacities, version: str, l1: int, dram: int
) -> None:
    with _owner_with_ttnn(tmp_path, version) as pid:
        Written(number=IN_P150X4, slots=[Slot(pid)]).write(tmp_path)
        device = _read(tmp_path, p150x4)

    assert _found(device) == ("cluster descriptor", "p150", l1)
    assert f"defaults of ttnn {version} " in _note(device)
    assert device.declaration is not None
    assert device.declaration.dram_bank_size == dram


def test_a_version_without_a_known_map_is_said_to_be_near(tmp_path: Path, bare: Capacities) -> None:
    with _owner_with_ttnn(tmp_path, "0.99.0") as pid:
        Written(number=P150_ID, slots=[Slot(pid)]).write(tmp_path)

        assert "no L1 map is known for ttnn '0.99.0'" in _note(_read(tmp_path, bare))


def test_a_descriptor_can_be_given(tmp_path: Path, p150x4: Capacities) -> None:
    Written(number=IN_P150X4).write(tmp_path)

    assert _found(_read(tmp_path, p150x4))[:2] == ("cluster descriptor", "p150")


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
    assert "usual" in _note(device)


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


def test_the_user_mode_driver_is_asked_by_who_wants_it_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tt_umd.py").write_text("")  # it is installed
    monkeypatch.syspath_prepend(str(tmp_path))
    script = f"import shutil, sys; shutil.copy({str(P150X4)!r}, sys.argv[1])"
    discovery = Discovery(str(tmp_path), wait_s=60, script=script)
    Written(number=IN_P150X4).write(tmp_path)
    none = str(tmp_path / "none")

    wanted = _read(tmp_path, Capacities(sysfs=none, discovery=discovery))
    unwanted = _read(tmp_path, Capacities(sysfs=none))

    assert _found(wanted)[:2] == ("umd", "p150")
    assert _found(unwanted) == (None, None, None)


def test_a_chip_is_known_as_local_or_remote_by_descriptor_sysfs_or_its_id(tmp_path: Path) -> None:
    def remote(number: int, capacities: Capacities) -> bool | None:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        Written(number=number).write(folder)
        declared = _read(folder, capacities).declaration
        return None if declared is None else declared.remote

    none = str(tmp_path / "none")
    given = Capacities(str(DESCRIPTORS / "n300.yaml"), sysfs=none)
    assert [remote(1099511640077, given), remote(1099511640078, given)] == [False, True]
    card = Capacities(sysfs=_card(tmp_path, tt_card_type="n300", tt_serial="010001461190302B"))
    assert [remote(0x26190302B, card), remote(0x36190302B, card)] == [False, True]
    alone = Capacities(sysfs=none)
    assert remote(P150_ID, alone) is False
    assert remote(17716556166399396846, alone) is None


def test_a_descriptor_that_a_process_names_is_read_again_when_its_user_has_time_left(
    tmp_path: Path,
) -> None:
    # given one that was read
    path = tmp_path / "mine.yaml"
    path.write_bytes(P150X4.read_bytes())
    descriptors = Descriptors()
    before = descriptors.read(str(path), LARGEST, 1000)

    # when it changes all the time
    def changed() -> Cluster | None:
        path.write_text(f"arch: {{}} # {os.urandom(8).hex()}")
        return descriptors.read(str(path), LARGEST, 1000)

    at_once = changed()

    # then its user waits, and nobody else does
    assert before is at_once is not None
    assert descriptors.read(str(path), LARGEST, 1001) is None
    wait_until(lambda: changed() is None)


def test_two_jobs_of_one_user_have_descriptors_of_their_own_at_the_first_look(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / name for name in ("one.yaml", "another.yaml")]
    for path in paths:
        path.write_bytes(P150X4.read_bytes())
    descriptors = Descriptors()

    read = [descriptors.read(str(path), LARGEST, 1000) for path in paths]

    assert None not in read


def test_a_descriptor_that_a_process_names_is_not_read_beyond_what_one_can_have(
    tmp_path: Path,
) -> None:
    path = tmp_path / "long.yaml"
    path.write_bytes(P150X4.read_bytes() + b"#" * (1 << 20))

    assert Descriptors().read(str(path), LARGEST, 1000) is None
    assert Descriptors().read(str(path)) is not None
