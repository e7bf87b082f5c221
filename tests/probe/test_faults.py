"""Whatever happens to a region, its process or its readers, no process is harmed and no number is invented."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.own_process import ran
from tests.patience import PATIENCE_S
from tests.probe.test_captured import events_of
from tests.probe.watched import Watched, switch
from ttmem.events import MemoryKind, Op
from ttmem.probe import environment, layout
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, find_regions

Watch = Callable[..., Watched]


def dram_counts(region: ProbeRegion) -> list[int]:
    return [row[MemoryKind.DRAM].count for row in region.counters()]


@pytest.mark.parametrize("seed", range(4))
def test_a_process_killed_in_the_middle_leaves_no_garbage(watch: Watch, seed: int) -> None:
    process = watch(
        "mesh = lib.mesh_open(3); say('open')\n"
        "for n in range(4):\n"
        "    threading.Thread(target=lib.churn, args=(mesh, 1 + n * 10**9, 10**9)).start()"
    )
    process.wait_for("open")
    region = process.region()
    wanted = random.Random(seed).randrange(1000, 200_000)  # any moment will do
    deadline = time.monotonic() + 60
    while region.counters()[0][MemoryKind.DRAM].allocations < wanted:
        assert time.monotonic() < deadline
    os.kill(process.process.pid, signal.SIGKILL)
    process.process.wait()

    events = events_of(ProbeRegion(region.path).new_events())
    assert {event.op for event in events} <= {Op.ALLOC, Op.FREE, layout.Notice.DEVICE_OPENED}
    assert {event.device for event in events} <= {0, 1, 2}
    sized = [event for event in events if event.op in (Op.ALLOC, Op.FREE)]
    assert {(event.size, event.extra) for event in sized} == {(4096, 4096)}
    assert all(event.address == (0x100000 + event.id * 64) & 0xFFFFFFFF for event in sized)
    assert all(thing.requested == 4096 for thing in region.live())
    assert len(region.live()) <= 4
    assert not region.process_alive()


def test_a_killed_reader_troubles_neither_process_nor_other_readers(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); say('open'); input()\nlib.churn(mesh, 1, 1000); say('done')"
    )
    process.wait_for("open")
    region = process.region()
    source = (
        "import sys\n"
        "from ttmem.sources.probe.region import ProbeRegion\n"
        "region = ProbeRegion(sys.argv[1])\n"
        "while True: region.new_events(), region.live(); print(1, flush=True)"
    )
    reader = subprocess.Popen([sys.executable, "-c", source, region.path], stdout=subprocess.PIPE)
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        reader.kill()

    process.go_on()
    process.wait_for("done")
    batch = region.new_events()
    events = events_of(batch)
    assert batch.lost == 0
    assert [event.op for event in events if event.op == Op.FREE] == [Op.FREE] * 1000


def test_the_region_of_a_dead_process_lists_what_was_never_freed(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 5, 1, 64); say('made')")
    process.wait_for("made")
    process.end()
    region = process.region()

    assert [(thing.id, thing.kind) for thing in region.live()] == [(5, MemoryKind.L1)]
    assert region.header().state is layout.RegionState.ENDED
    assert not region.process_alive()


def test_only_the_user_may_read_a_region(watch: Watch) -> None:
    process = watch("os.umask(0); mesh = lib.mesh_open(1); say('open')")
    process.wait_for("open")

    assert stat.S_IMODE(os.stat(process.region().path).st_mode) == 0o600


def test_a_process_without_the_runtime_makes_no_region(tmp_path: Path) -> None:
    env = environment({**os.environ, "TTMEM_REGION_DIR": str(tmp_path)})

    done = subprocess.run([sys.executable, "-c", "print(1)"], env=env, capture_output=True)

    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, b"", [])


def test_no_room_for_the_region_is_one_line_and_nothing_else(watch: Watch) -> None:
    process = watch(
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "mesh = lib.mesh_open(1)\n"
        "for n in range(100): lib.buffer_free(buffer(mesh, n, 0, 64))\n"
        "say('alive')"
    )
    process.wait_for("alive")

    errors = process.end()
    assert process.regions() == []
    assert len(errors.splitlines()) == 1
    assert "tracking is off: no space for the region" in errors


def test_a_small_shared_memory_gets_a_small_region(watch: Watch) -> None:
    process = watch(
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, 6 << 20))\n"
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('made')"
    )
    process.wait_for("made")

    assert dram_counts(process.region()) == [1]


def test_a_region_that_was_deleted_troubles_nobody(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); say('open'); input()\nlib.churn(mesh, 1, 1000); say('alive')"
    )
    process.wait_for("open")
    region = process.region()
    os.unlink(region.path)
    process.go_on()
    process.wait_for("alive")

    assert region.counters()[0][MemoryKind.DRAM].allocations == 1000  # it was open already
    process.end()


def test_a_region_that_was_cut_hurts_neither_process_nor_reader(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); say('open'); input()\nlib.churn(mesh, 1, 1000); say('alive')"
    )
    process.wait_for("open")
    region = process.region()
    os.truncate(region.path, 8192)
    process.go_on()
    process.wait_for("alive")

    process.end()
    with pytest.raises(BadRegion, match="cut"):
        region.live()
    os.truncate(region.path, 0)
    with pytest.raises(BadRegion):
        ProbeRegion(region.path)


def test_a_fault_elsewhere_still_ends_the_process(watch: Watch) -> None:
    process = watch(
        "import mmap; mesh = lib.mesh_open(1); say('open')\n"
        "other = open(sys.argv[1] + '.cut', 'w+b'); other.truncate(4096)\n"
        "view = mmap.mmap(other.fileno(), 4096); other.truncate(0); view[0]"
    )
    process.wait_for("open")

    assert process.process.wait(PATIENCE_S) == -signal.SIGBUS


def test_a_child_of_fork_has_a_region_of_its_own(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); mine = buffer(mesh, 1, 0, 64)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    buffer(mesh, 2, 0, 64); buffer(mesh, 3, 0, 64); os._exit(0)\n"
        "os.waitpid(child, 0); buffer(mesh, 4, 0, 64); say('done')"
    )
    process.wait_for("done")

    held = {region.pid: dram_counts(region) for region in process.regions()}
    assert held.pop(process.process.pid) == [2]
    assert list(held.values()) == [[2]]


def test_a_process_that_replaces_itself_starts_anew(watch: Watch) -> None:
    process = watch(
        "if len(sys.argv) == 2:\n"
        "    buffer(lib.mesh_open(1), 1, 0, 64)\n"
        "    source = open('/proc/self/cmdline').read().split('\\0')[2]\n"
        "    os.execv(sys.executable, [sys.executable, '-c', source, sys.argv[1], 'again'])\n"
        "mesh = lib.mesh_open(1); buffer(mesh, 2, 0, 64); buffer(mesh, 3, 0, 64); say('made')"
    )
    process.wait_for("made")

    assert dram_counts(process.region()) == [2]


def test_threads_that_end_leave_their_events(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        "for n in range(200):\n"
        "    one = threading.Thread(target=lib.churn, args=(mesh, 1 + n * 10, 10))\n"
        "    one.start(); one.join()\n"
        "say('done')"
    )
    process.wait_for("done")
    region = process.region()

    dram = region.counters()[0][MemoryKind.DRAM]
    assert (dram.count, dram.allocations, dram.frees) == (0, 2000, 2000)
    assert len(events_of(region.new_events())) == 4001


def test_a_full_ring_overwrites_and_the_reader_counts_what_it_missed(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); lib.churn(mesh, 1, 1000); buffer(mesh, 5000, 0, 64)\nsay('done')",
        TTMEM_EVENTS="256",
    )
    process.wait_for("done")
    region = process.region()
    batch = region.new_events()

    assert (len(events_of(batch)), batch.lost) == (256, 2002 - 256)
    assert region.counters()[0][MemoryKind.DRAM].count == 1


def test_a_full_live_table_loses_entries_but_no_bytes(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); all = [buffer(mesh, n, 0, 64) for n in range(1, 501)]\n"
        "say('made'); input()\n"
        "for one in all: lib.buffer_free(one)\n"
        "say('freed')",
        TTMEM_LIVE="64",
    )
    process.wait_for("made")
    region = process.region()

    assert dram_counts(region) == [500]
    assert (len(region.live()), region.losses().live_not_listed) == (64, 436)
    process.go_on()
    process.wait_for("freed")
    dram = region.counters()[0][MemoryKind.DRAM]
    assert (dram.count, dram.requested, dram.reserved) == (0, 0, 0)


def test_two_readers_see_the_same(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); lib.churn(mesh, 1, 500); say('done')")
    process.wait_for("done")
    first, second = process.region(), process.region()

    assert first.new_events() == second.new_events()
    assert first.new_events().events == b""


def test_the_library_may_be_there_twice(watch: Watch, tmp_path: Path) -> None:
    library = environment({})["LD_PRELOAD"]
    copy = tmp_path / "copy.so"
    copy.write_bytes(Path(library).read_bytes())
    process = watch(
        f"again = ctypes.CDLL({str(copy)!r}, ctypes.RTLD_GLOBAL)\n"
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('made')",
        LD_PRELOAD=f"{library}:{copy}",
    )
    process.wait_for("made")

    assert [dram_counts(region) for region in process.regions()] == [[1]]


def test_a_runtime_without_some_names_loses_only_those_features(
    watch: Watch, half_runtime: Path
) -> None:
    process = watch(
        "mesh = lib.mesh_open(2); buffer(mesh, 1, 0, 5000)\n"
        "one = lib.program_make(0, mesh, 2048, 3); say('made')",
        library=half_runtime,
    )
    process.wait_for("made")
    region = process.region()
    features = region.features()
    lines = process.end().splitlines()

    assert features["buffers"]
    assert features["circular buffers"]
    assert features["devices"]
    assert not features["reserved bytes"]
    assert not features["traces"]
    assert not features["kernels"]
    assert [row[MemoryKind.DRAM].requested for row in region.counters()] == [5000] * 2
    off = sorted(name for name, found in features.items() if not found)
    assert sorted(line.split(": ")[2] for line in lines) == off


def test_tracking_is_switched_off_and_on_from_outside(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); before = buffer(mesh, 1, 0, 64); say('open'); input()\n"
        "unseen = buffer(mesh, 2, 0, 64); say('off'); input()\n"
        "lib.buffer_free(unseen); lib.buffer_free(before); say('on')"
    )
    process.wait_for("open")
    region = process.region()
    switch(region.path, on=False)
    process.go_on()
    process.wait_for("off")
    assert dram_counts(region) == [1]

    switch(region.path, on=True)
    process.go_on()
    process.wait_for("on")
    assert dram_counts(region) == [0]
    assert region.losses().unpaired_frees == 1


def test_the_environment_keeps_a_loaded_library_out(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64)", TTMEM="0")

    assert process.end() == ""
    assert process.regions() == []


def test_other_files_are_no_regions(tmp_path: Path) -> None:
    (tmp_path / "ttmem_1_2").write_bytes(os.urandom(100_000))
    (tmp_path / "ttmem_1_2_3").write_bytes(b"")
    (tmp_path / "ttmem_x_2").write_bytes(b"")
    (tmp_path / "ttmem_3_4").symlink_to(tmp_path / "ttmem_1_2")

    (found,) = find_regions(str(tmp_path))
    with pytest.raises(BadRegion, match="not a probe region"):
        ProbeRegion(found.path)


# A reader that has every descriptor it may have in use, and looks at a live process.
WITHOUT_DESCRIPTORS = """
import os, resource, sys
from ttmem.procfs import is_alive, start_time_ns
from ttmem.sources.probe.region import ProbeRegion
region = ProbeRegion(sys.argv[1])
started = start_time_ns(region.pid)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(region.process_alive(), is_alive(region.pid, started))
"""


def test_who_has_no_descriptor_left_takes_nobody_for_dead(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()")
    process.wait_for("made")

    looked = ran([sys.executable, "-c", WITHOUT_DESCRIPTORS, process.region().path])

    assert (looked.stdout, looked.stderr) == ("True True\n", "")
