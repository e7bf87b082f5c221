"""Processes that map a region, hold a card or live in a container, found in /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sources.region_writer import Five, Slot, Written
from ttmem.events import Amounts, DeviceSample, Owner
from ttmem.procfs import maps, shared_files
from ttmem.sources.counters.layout import PROCESSES
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import CounterSource

HELD = (4096, 0, 0, 0, 0)
DISABLED = {"TT_METAL_SHM_TRACKING_DISABLED": "1"}

MAPS_AND_WAITS = """
import mmap, sys
files = [open(path, "rb") for path in sys.argv[1:]]
maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
print("ready", flush=True)
sys.stdin.read()
"""
OPENS_AND_WAITS = """
import mmap, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
maps = [mmap.mmap(file.fileno(), 0) for file in files]
print("ready", flush=True)
sys.stdin.read()
"""
HOLDS_AND_WAITS = """
import sys
files = [open(path, "rb") for path in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def _child(
    script: str,
    *paths: Path,
    before: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """The pid of a process that runs the script, once it is ready."""
    child = subprocess.Popen(
        [*before, sys.executable, "-c", script, *map(str, paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        ready = child.stdout.readline() == b"ready\n"
        if before and not ready:
            pytest.skip(f"{before[0]} is not allowed here")
        assert ready
        yield child.pid
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


def _remarks(device: DeviceSample) -> list[tuple[str, int | None]]:
    return [(remark.kind, remark.pid) for remark in device.remarks]


def test_a_process_that_maps_a_region_and_says_nothing_is_shown(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with _child(MAPS_AND_WAITS, region) as pid:
        (device,) = source.read().devices

    assert _remarks(device) == [("publishes_nothing", pid)]


def test_a_process_that_has_opened_a_device_holds_nothing_before_its_first_tensor(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with _child(OPENS_AND_WAITS, region) as pid:
        (device,) = source.read().devices

    (process,) = device.processes
    assert (process.pid, process.owner, process.counters) == (pid, Owner.LIVE, Amounts())
    assert process.start_time_ns is not None
    assert _remarks(device) == []


def test_with_its_first_tensor_a_process_stays_the_same(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with _child(OPENS_AND_WAITS, region) as pid:
        (before,) = source.read().devices
        region.write_bytes(Written(slots=[Slot(pid, HELD)]).bytes())
        (after,) = source.read().devices

    identity = [
        [(each.pid, each.start_time_ns) for each in device.processes] for device in (before, after)
    ]
    assert identity[0] == identity[1]
    assert after.in_use == Amounts(*HELD)


def test_a_process_without_a_slot_is_a_contradiction_where_the_table_is_full(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written(slots=[Slot(os.getpid(), HELD)] * PROCESSES).write(tmp_path)

    with _child(OPENS_AND_WAITS, region) as pid:
        (device,) = source.read().devices

    assert ("publishes_nothing", pid) in _remarks(device)
    assert pid not in [each.pid for each in device.processes]


def test_a_process_that_switched_tracking_off_is_told_apart(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with _child(OPENS_AND_WAITS, region, environment=DISABLED) as pid:
        (device,) = source.read().devices

    assert (_remarks(device), device.processes) == ([("tracking_disabled", pid)], ())


def test_a_process_that_publishes_is_not_accused(source: CounterSource, tmp_path: Path) -> None:
    region = Written().write(tmp_path)

    with _child(MAPS_AND_WAITS, region) as pid:
        region.write_bytes(Written(slots=[Slot(pid, HELD)]).bytes())
        (device,) = source.read().devices

    assert (_remarks(device), device.in_use) == ([], Amounts(*HELD))


@pytest.mark.parametrize("slots", [[HELD], []], ids=["ghost", "no slot"])
def test_a_process_that_died_after_the_walk_is_not_accused(
    source: CounterSource, tmp_path: Path, slots: list[Five]
) -> None:
    region = Written().write(tmp_path)
    with _child(MAPS_AND_WAITS, region) as pid:
        region.write_bytes(Written(slots=[Slot(pid, held) for held in slots]).bytes())
        source.read()

    (device,) = source.read().devices

    told = [remark.kind for remark in device.remarks if remark.kind != "totals_disagree"]
    assert told == ["ghost"] * len(slots)


def test_a_process_that_writes_to_a_replaced_region_is_shown(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with _child(MAPS_AND_WAITS, region) as pid:
        new = tmp_path / "new"
        new.write_bytes(Written().bytes())
        new.replace(region)
        (device,) = source.read().devices

    assert _remarks(device) == [("replaced_region", pid)]


@pytest.mark.parametrize(
    ("environment", "kind"),
    [({}, "publishes_nothing"), (DISABLED, "tracking_disabled")],
)
def test_a_process_with_a_card_open_and_no_slot_is_shown(
    tmp_path: Path, environment: dict[str, str], kind: str
) -> None:
    cards = tmp_path / "tenstorrent"
    cards.mkdir()
    (cards / "0").write_bytes(b"")
    source = CounterSource(str(tmp_path), scanner=ProcScanner(cards=str(cards)))

    with _child(HOLDS_AND_WAITS, cards / "0", environment=environment) as pid:
        (remark,) = source.read().remarks

    assert (remark.kind, remark.pid) == (kind, pid)
    assert f"{cards}/0" in remark.text
    assert source.read().remarks == ()  # it has ended since the walk


def test_a_picture_is_kept_for_its_period(tmp_path: Path) -> None:
    watch = ProcScanner(period_s=float("inf"))

    assert watch.latest() is watch.latest()


NEEDED = () if os.getuid() == 0 else ("--user",)
CONTAINER = ("unshare", *NEEDED, "--pid", "--fork", "--kill-child")


def _inside(pid: int) -> int:
    """The pid of the only child of `unshare`."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux is not installed")
@pytest.mark.parametrize("script", [MAPS_AND_WAITS, HOLDS_AND_WAITS])
def test_a_containers_pid_is_mapped_to_the_hosts(
    source: CounterSource, tmp_path: Path, script: str
) -> None:
    region = Written().write(tmp_path)
    # Each container on this host may have a pid 1 that is called python.
    name = f"model-{os.getpid()}"
    script = f"open('/proc/self/comm', 'w').write({name!r})\n{script}"

    with _child(script, region, before=CONTAINER) as outer:
        pid = _inside(outer)
        region.write_bytes(Written(slots=[Slot(1, HELD, name.encode())]).bytes())
        (device,) = source.read().devices

    (process,) = device.processes
    assert (process.owner, process.pid, process.container_pid) == (Owner.LIVE, pid, 1)
    assert device.in_use == Amounts(*HELD)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux is not installed")
def test_a_containers_pid_that_two_could_have_is_counted_but_not_named(
    source: CounterSource, tmp_path: Path
) -> None:
    region = Written().write(tmp_path)

    with (
        _child(MAPS_AND_WAITS, region, before=CONTAINER),
        _child(MAPS_AND_WAITS, region, before=CONTAINER),
    ):
        region.write_bytes(Written(slots=[Slot(1, HELD)]).bytes())
        (device,) = source.read().devices

    (process,) = device.processes
    assert (process.owner, process.pid, process.container_pid) == (Owner.ELSEWHERE, 1, 1)
    assert device.in_use == Amounts(*HELD)
    assert ("elsewhere", 1) in _remarks(device)


MAPS_MUCH = """
import ctypes, os, sys
os.chdir(sys.argv[1])
for _ in range(15):
    os.mkdir("x" * 250)
    os.chdir("x" * 250)
file = os.open("y", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192)
map = ctypes.CDLL(None).mmap
map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for number in range(12000):
    map(None, 4096, 1, 1, file, number % 2 * 4096)
print("ready", flush=True)
sys.stdin.read()
"""


def test_maps_that_were_made_long_on_purpose_are_not_read_to_their_end(tmp_path: Path) -> None:
    with _child(MAPS_MUCH, tmp_path) as pid:
        assert maps(pid) is None
    assert maps(os.getpid()) is not None


def test_shared_files_are_those_that_the_maps_show(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "other")]
    for file in files:
        file.write_bytes(bytes(8192))

    with _child(MAPS_AND_WAITS, *files) as pid:
        found = shared_files(pid)
        lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]

    if found is None:
        pytest.skip("a kernel before 6.11 does not tell")
    assert {key[1] for key in found} == {int(line[4]) for line in lines if line[1][3] == "s"}
    assert found >= {(file.stat().st_dev, file.stat().st_ino) for file in files}


def test_a_process_that_has_ended_maps_nothing(tmp_path: Path) -> None:
    with _child(MAPS_AND_WAITS) as pid:
        pass

    assert not shared_files(pid)
