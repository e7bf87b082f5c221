"""Snapshots of watched processes without a server: sums equal what the probe counted, to the byte."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.other_user import sleepers
from tests.probe.watched import DISPATCHING, Watched, switch
from tests.sources.region_writer import Slot, Written
from ttmem.feeds import LocalFeed
from ttmem.probe import layout
from ttmem.snapshots import Snapshot

Watch = Callable[..., Watched]
BLOCK = 512 * 8  # of every buffer that these scripts make in DRAM: 512 bytes of each of 8 banks


def started(watch: Watch, script: str, **variables: str) -> Watched:
    process = watch(f"{script}\nsay('made')\ninput()", **variables)
    process.wait_for("made")
    return process


def until(feed: LocalFeed, is_so: Callable[[Snapshot], bool]) -> Snapshot:
    deadline = time.monotonic() + 60
    while not is_so(picture := feed.read()):
        assert time.monotonic() < deadline, picture
        time.sleep(0.02)
    return picture


CHIP, L1_SMALL_SIZE = 12, 5  # places in the record of a device


def mixed(total: int, word: int) -> int:
    total = (total ^ word) * 0x9E3779B97F4A7C15 % (1 << 64)
    return total ^ total >> 29


def forge_device(path: Path, place: int, value: int) -> None:
    """Rewrites the record of the first device, with a checksum that is right."""
    data = bytearray(path.read_bytes())
    offset, _, stride = layout.SECTION.unpack_from(
        data, layout.SECTIONS_AT + 16 * layout.Section.DEVICES
    )
    values = list(layout.DEVICE.unpack_from(data, offset))
    values[place] = value
    words = struct.unpack(f"<{stride // 8}Q", layout.DEVICE.pack(*values))
    one, other = 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    for word in words[1::2]:
        one = mixed(one, word)
    for word in words[2::2]:
        other = mixed(other, word)
    check = mixed(one, other)
    layout.DEVICE.pack_into(data, offset, check, *values[1:])
    with path.open("r+b") as region:
        region.seek(offset)
        region.write(data[offset : offset + stride])


def test_a_peak_is_known_where_the_probe_has_seen_all_and_not_where_counters_tell_too(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    started(watch, "mesh = lib.mesh_open(1); lib.buffer_free(buffer(mesh, 7, 0, 4000))")
    alone = feed.read().devices[0].memory.dram
    with sleepers(1) as (owner,):
        Written(1000, slots=[Slot(owner.pid, (300, 0, 0, 0, 0))]).write(tmp_path)
        beside = feed.read().devices[0].memory.dram

    assert (alone.held, alone.peak) == (0, BLOCK)
    assert (beside.held, beside.peak) == (300, None)


RUNS = (
    DISPATCHING
    + "lib.program_add_kernel.argtypes = [address, ctypes.c_char_p, ctypes.c_uint32]\n"
    + "mesh = lib.mesh_open(1)\n"
    + "def made():\n"
    + "    program = lib.program_make(5, mesh, 4096, 2)\n"
    + "    lib.program_add_kernel(program, b'reader', 3000)\n"
    + "    return lib.workload_make(mesh, program, None)\n"
    + "def used(workload): lib.workload_enqueue(workload)\n"
    + "workload = made()\n"
    + "lib.workload_enqueue(workload)\n"
    + "for _ in range(3): used(workload)"
)


@pytest.mark.parametrize("late", [False, True])
def test_a_program_is_told_with_who_made_it_and_who_ran_it_last(
    watch: Watch, feed: LocalFeed, late: bool
) -> None:
    started(watch, RUNS, **({"TTMEM_EVENTS": "64"} if late else {}))

    (program,) = feed.read(["programs"]).programs or ()

    sites = (program.site or "", program.last_site or "")
    assert [site.split()[-1] for site in sites] == ["made", "used"]


def test_a_kernel_was_loaded_once_and_ran_as_often_as_its_program(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, RUNS)

    (kernel,) = feed.read(["programs"]).kernels or ()

    assert (kernel.loads, kernel.dispatches) == (1, 4)


def test_kernel_figures_are_partial_while_counters_tell_of_another_process(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    started(watch, "mesh = lib.mesh_open(1); program = lib.program_make(5, mesh, 4096, 2)")
    alone = feed.read().devices[0].kernels
    with sleepers(1) as (owner,):
        Written(1000, slots=[Slot(owner.pid, (300, 0, 0, 0, 0))]).write(tmp_path)
        beside = feed.read().devices[0].kernels

    assert (alone.partial, beside.partial) == (False, True)


def test_a_watched_process_is_there_with_its_devices_and_their_capacities(
    watch: Watch, feed: LocalFeed
) -> None:
    process = started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")

    picture = feed.read()

    (device,) = picture.devices
    assert (device.unique_id, device.arch, device.grid) == ("1000", "blackhole", (11, 10))
    assert device.l1_capacity == 110 * (1_428_352 + 32_768)
    assert device.provenance["capacity"].source == "probe"
    (shown,) = picture.processes
    assert (shown.pid, shown.sources) == (process.process.pid, ("probe",))
    assert shown.devices["1000"].dram == BLOCK
    assert (device.memory.dram.requested, device.memory.dram.reserved) == (4000, BLOCK)


def test_a_device_that_was_opened_again_with_other_sizes_has_those(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    started(watch, "mesh = lib.mesh_open(1)")
    before = feed.read().devices[0].memory.l1_small.capacity
    (path,) = tmp_path.glob("ttmem_*")

    forge_device(path, L1_SMALL_SIZE, 16_384)  # as the probe does when a device is opened again
    after = feed.read().devices[0].memory.l1_small.capacity

    assert (before, after) == (110 * 32_768, 110 * 16_384)


def test_a_buffer_of_a_mesh_counts_on_each_chip_once(watch: Watch, feed: LocalFeed) -> None:
    started(watch, "mesh = lib.mesh_open(4); buffer(mesh, 7, 0, 5000, 640)")

    memory = [device.memory.dram for device in feed.read().devices]

    facts = [(dram.requested, dram.reserved, dram.count) for dram in memory]
    assert facts == [(5000, 640 * 8, 1)] * 4


def test_single_buffers_programs_and_cores_are_listed(watch: Watch, feed: LocalFeed) -> None:
    started(
        watch,
        "mesh = lib.mesh_open(1); buffer(mesh, 7, 1, 4000); lib.program_make(3, mesh, 2048, 2)",
    )

    seen = feed.read(["buffers", "programs", "cores", "events"])

    assert [(row.kind, row.id, row.address) for row in seen.buffers or ()] == [
        ("L1", 7, 0x100000 + 7 * 64)
    ]
    assert {row.address for row in seen.circular_buffers or ()} == {111_744, 113_792}
    ((found,),) = (seen.cores or {}).values()
    assert (len(found.cores), found.regions) == (4, ((111_744, 115_840),))
    assert {"DEVICE_OPENED", "PROGRAM_CREATED", "ALLOC"} <= {row.op for row in seen.events or ()}


def test_a_reader_that_comes_when_the_first_events_are_gone_sees_all_that_is_alive(
    watch: Watch, feed: LocalFeed
) -> None:
    script = "mesh = lib.mesh_open(2); buffer(mesh, 1, 0, 4000); lib.program_make(3, mesh, 2048, 2)"
    started(watch, f"{script}\nlib.churn(mesh, 100, 1000)", TTMEM_EVENTS="64")

    picture = feed.read(["buffers", "programs"])

    assert [device.memory.dram.held for device in picture.devices] == [BLOCK] * 2
    assert [device.memory.cb.cached for device in picture.devices] == [4 * 4096] * 2
    assert len(picture.buffers or ()) == 2
    assert [device.anomalies for device in picture.devices] == [()] * 2


def test_events_that_were_overwritten_are_counted_and_totals_stay_exact(
    watch: Watch, feed: LocalFeed
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); a = buffer(mesh, 1, 0, 4000); say('made'); input()\n"
        "lib.churn(mesh, 100, 1000); lib.buffer_free(a); buffer(mesh, 2, 0, 9); say('more'); input()",
        TTMEM_EVENTS="64",
    )
    process.wait_for("made")
    feed.read()

    process.go_on()
    process.wait_for("more")
    picture = feed.read(["buffers"])

    assert [row.id for row in (picture.buffers or ())] == [2]
    assert picture.devices[0].memory.dram.requested == 9
    assert picture.losses.gaps == 1
    assert picture.losses.dropped_events == 2000 + 2 - 64
    assert picture.devices[0].anomalies == ()


def test_what_the_probe_has_no_room_to_list_is_in_the_totals(watch: Watch, feed: LocalFeed) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); held = [buffer(mesh, n, 0, 4000) for n in range(1000)]\n"
        "say('made'); input(); [lib.buffer_free(one) for one in held[:999]]; say('freed'); input()",
        TTMEM_LIVE="64",
        TTMEM_EVENTS="64",
    )
    process.wait_for("made")
    assert feed.read().devices[0].memory.dram.held == 1000 * BLOCK

    process.go_on()
    process.wait_for("freed")

    assert feed.read().devices[0].memory.dram.held == BLOCK


def test_a_killed_process_holds_nothing_and_is_left_behind(watch: Watch, feed: LocalFeed) -> None:
    process = started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")
    feed.read()

    process.close()
    picture = until(feed, lambda seen: not seen.processes)

    assert picture.devices[0].memory.dram.held == 0
    (left,) = picture.left_behind
    assert (left.pid, left.devices["1000"].dram) == (process.process.pid, BLOCK)


def test_a_process_that_had_ended_before_the_first_look_is_in_no_sum(
    watch: Watch, tmp_path: Path
) -> None:
    process = started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")
    process.close()

    with closing(LocalFeed(str(tmp_path))) as late:
        picture = late.read()

    assert (picture.devices, picture.processes) == ((), ())


def test_a_process_that_execs_begins_anew(watch: Watch, feed: LocalFeed) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, int(sys.argv[2]) if sys.argv[2:] else 1, 0, 4000)\n"
        "say('made'); input()\n"
        "os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2], sys.argv[1], '2'])"
    )
    process.wait_for("made")
    assert [row.id for row in (feed.read(["buffers"]).buffers or ())] == [1]

    process.go_on()
    process.wait_for("made")
    picture = feed.read(["buffers"])

    assert [row.id for row in (picture.buffers or ())] == [2]
    assert picture.devices[0].memory.dram.held == BLOCK


def test_a_region_that_somebody_cut_is_named_and_its_process_is_in_no_sum(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")
    feed.read()
    (path,) = tmp_path.glob("ttmem_*")

    os.truncate(path, 4096)
    picture = feed.read()

    assert picture.processes == ()
    assert [remark.kind for remark in picture.remarks] == ["probe_region"]


def test_a_deleted_region_is_still_read_by_who_has_it_open(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()\n"
        "buffer(mesh, 2, 0, 4000); say('more'); input()"
    )
    process.wait_for("made")
    feed.read()

    for path in tmp_path.glob("ttmem_*"):
        path.unlink()
    process.go_on()
    process.wait_for("more")

    assert feed.read().devices[0].memory.dram.held == 2 * BLOCK


def test_a_feed_that_was_closed_reads_again(watch: Watch, feed: LocalFeed) -> None:
    started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); lib.churn(mesh, 100, 5)")
    feed.read()

    feed.close()

    assert feed.read().devices[0].memory.dram.held == BLOCK


def test_an_allocation_that_failed_is_in_the_list_with_the_words_of_the_runtime(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 2 << 40)")

    events = feed.read(["events"]).events or ()

    (failed,) = [row for row in events if row.op == "ALLOCATION_FAILED"]
    assert (failed.kind, failed.size) == ("DRAM", 2 << 40)
    assert "memory" in (failed.text or "").lower()


def test_a_failed_allocation_is_said_of_its_device_also_when_the_process_is_gone(
    watch: Watch, feed: LocalFeed
) -> None:
    process = started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 2 << 40)")
    (alive,) = feed.read().devices[0].anomalies
    process.process.kill()
    process.process.wait()

    picture = until(feed, lambda picture: not picture.processes)
    events = feed.read(["events", "buffers"]).events or ()

    pid = process.process.pid
    assert (alive.kind, alive.pid, alive.bytes) == ("allocation_failed", pid, 2 << 40)
    assert "an allocation FAILED: 2.0 TiB of DRAM" in alive.text
    assert [device.anomalies for device in picture.devices] == [(alive,)]
    assert [row.pid for row in events if row.op == "ALLOCATION_FAILED"] == [pid]


def test_tracking_that_was_switched_off_is_said_beside_the_numbers(
    watch: Watch, feed: LocalFeed, tmp_path: Path
) -> None:
    started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")
    before = feed.read().devices[0].provenance["dram"]
    (path,) = tmp_path.glob("ttmem_*")

    switch(str(path), on=False)
    after = feed.read().devices[0].provenance["dram"]

    assert "switched off" not in (before.misses or "")
    assert "switched off" in (after.misses or "")


@pytest.mark.parametrize("chip", [5000, 1 << 31])
def test_a_device_that_cannot_be_one_does_no_harm(
    watch: Watch, feed: LocalFeed, tmp_path: Path, chip: int
) -> None:
    started(watch, "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)")
    (path,) = tmp_path.glob("ttmem_*")
    forge_device(path, CHIP, chip)

    picture = feed.read(["buffers", "cores", "events"])

    assert [device.memory.dram.held for device in picture.devices] == [BLOCK]


def test_a_region_that_is_just_being_made_is_no_news_and_one_that_stays_blank_is(
    tmp_path: Path,
) -> None:
    region = tmp_path / f"ttmem_{os.getpid()}_1"
    kinds = []
    for content, age_s in ((b"", 0), (bytes(1 << 16), 0), (bytes(1 << 16), 3600)):
        region.write_bytes(content)
        os.utime(region, (time.time() - age_s,) * 2)
        kinds.append([remark.kind for remark in LocalFeed(str(tmp_path)).read().remarks])

    assert kinds == [[], [], ["probe_region"]]
