"""A watched process on chips that counters tell of too: one device, one owner, and the probe's word counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.probe.watched import Watched
from tests.sources.region_writer import Slot, Written
from ttmem.feeds import LocalFeed
from ttmem.ledger import Books
from ttmem.snapshots import Device, Snapshot
from ttmem.sources.counters.source import CounterSource
from ttmem.sources.host import gather
from ttmem.sources.probe.watcher import ProbeWatcher

Watch = Callable[..., Watched]
BANK, L1_BANK, L1_SMALL_BANK = 4_277_010_304, 1_428_352, 32_768  # of the small runtime
DRAM_BASE = 64
STEPS = "say('next'); input()\n"


def go_on(process: Watched) -> None:
    process.go_on()
    process.wait_for("next")


def looks(feed: LocalFeed, folder: Path) -> list[Snapshot]:
    """Of one that has followed the process, and of one that comes now."""
    return [feed.read(), LocalFeed(str(folder)).read()]


def test_a_chip_with_unique_id_0_is_one_device_from_open_to_close(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    process = watch(
        f"mesh = lib.mesh_open_from(2, 0)\n{STEPS}kept = buffer(mesh, 1, 0, 4000)\n{STEPS}"
        f"lib.mesh_close(mesh)\n{STEPS}"
    )
    process.wait_for("next")

    Written(0).write(tmp_path)  # nobody has allocated
    pictures = looks(feed, tmp_path)
    go_on(process)
    Written(0, slots=[Slot(process.process.pid, (4000, 0, 0, 0, 0))]).write(tmp_path)
    pictures += looks(feed, tmp_path)
    go_on(process)
    Written(0).write(tmp_path)
    pictures += looks(feed, tmp_path)

    for picture in pictures:
        assert [device.unique_id for device in picture.devices] == ["0", "1"]
        for device in picture.devices:
            assert device.memory.dram.capacity == 8 * BANK
            assert device.l1_capacity == 110 * (L1_BANK + L1_SMALL_BANK)
            assert device.provenance["identity"].method == "chip unique id"
            assert device.provenance["capacity"].source == "probe"
            assert device.provenance["dram"].source == "probe"
    held = [[device.memory.dram.held for device in picture.devices] for picture in pictures]
    assert held == [[0, 0]] * 2 + [[8 * 512] * 2] * 2 + [[0, 0]] * 2


def test_a_device_without_a_told_id_has_one_that_the_probe_made_up(
    watch: Watch, feed: LocalFeed
) -> None:
    process = watch(f"mesh = lib.submesh_open(0, 1)\n{STEPS}")
    process.wait_for("next")

    (device,) = feed.read().devices

    assert device.unique_id.endswith(":0")
    assert device.provenance["identity"].source == "probe"


def test_a_watched_process_is_not_said_to_publish_nothing(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    region = Written(1000).write(tmp_path)
    process = watch(
        f"import mmap\nfile = open({str(region)!r}, 'r+b')\n"
        f"mapped = mmap.mmap(file.fileno(), 0)\n{STEPS}"
        f"mesh = lib.mesh_open(1)\n{STEPS}"
    )
    process.wait_for("next")
    unwatched = LocalFeed(str(tmp_path)).read()
    go_on(process)
    watched = looks(feed, tmp_path)
    doctor = gather(str(tmp_path), str(tmp_path / "socket"))

    assert [one.pid for one in unwatched.processes] == [process.process.pid]
    for picture in watched:
        (device,) = picture.devices
        assert (device.anomalies, picture.remarks) == ((), ())
    assert [each.sample.remarks for each in doctor.regions] == [()]


def test_the_largest_free_block_is_known_as_soon_as_a_device_is_open(
    watch: Watch, feed: LocalFeed
) -> None:
    process = watch(
        f"mesh = lib.mesh_open(2)\n{STEPS}"
        "worker = threading.Thread(target=lambda: buffer(mesh, 1, 0, 4000))\n"
        f"worker.start(); worker.join()\n{STEPS}"
    )
    process.wait_for("next")
    opened = feed.read().devices
    go_on(process)
    allocated = feed.read().devices

    for device in opened:
        assert device.memory.dram.largest_free == 8 * BANK
        assert device.memory.l1.largest_free == 110 * L1_BANK
        assert device.memory.l1_small.largest_free == 110 * L1_SMALL_BANK
    end_of_buffer = 0x100000 + 64 + 512
    for device in allocated:
        assert device.memory.dram.largest_free == 8 * (DRAM_BASE + BANK - end_of_buffer)


def test_a_peak_of_a_watched_and_an_unwatched_process_is_right_or_unknown(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(
        f"mesh = lib.mesh_open(1)\n{STEPS}kept = buffer(mesh, 1, 0, 4000)\n{STEPS}"
        f"lib.buffer_free(buffer(mesh, 2, 0, 4000))\n{STEPS}"
    )
    process.wait_for("next")
    Written(1000, slots=[Slot(os.getpid(), (1 << 20, 0, 0, 0, 0))]).write(tmp_path)
    books = Books()
    with closing(ProbeWatcher(str(tmp_path))) as watcher:
        counters = CounterSource(str(tmp_path))

        def look() -> Device:
            books.probed.take(watcher.read().news, time.time_ns())
            books.sample(counters.read().devices, (), time.time_ns())
            (device,) = books.snapshot(time.time_ns()).devices
            return device

        look()
        go_on(process)
        met = look()
        go_on(process)
        missed = look()

    held = (1 << 20) + 4096
    assert [device.memory.dram.held for device in (met, missed)] == [held, held]
    assert [device.memory.dram.peak for device in (met, missed)] == [held, None]
    assert "unless both were read at their highest" in (missed.provenance["dram"].misses or "")
