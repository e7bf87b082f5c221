"""What watched processes never freed, after they have ended."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.probe.watched import Watched
from ttmem.feeds.ended import never_freed
from ttmem.sources.probe.cleanup import remove_expired
from ttmem.sources.probe.watcher import ProbeWatcher

Watch = Callable[..., Watched]
HOUR_NS = 3_600_000_000_000
ENDED_AT = 48  # of a region: when its process ended in order


def ids(folder: Path) -> dict[str | None, list[int]]:
    ended = never_freed(str(folder), ["buffers"])
    found: dict[str | None, list[int]] = {}
    for row in (ended.snapshot.buffers or ()) if ended else ():
        found.setdefault(row.device, []).append(row.id)
    return {device: sorted(numbers) for device, numbers in found.items()}


def test_what_was_there_when_its_device_was_closed_was_never_freed(
    watch: Watch, tmp_path: Path
) -> None:
    watch(
        "mesh = lib.mesh_open(2); buffer(mesh, 1, 0, 4000); freed = buffer(mesh, 2, 0, 4000)\n"
        "lib.buffer_free(freed); buffer(mesh, 3, 1, 4000); lib.mesh_close(mesh)"
    ).end()

    assert ids(tmp_path) == {"1000": [1, 3], "1001": [1, 3]}


LEAKS_EARLY = (
    "from ttmem import phase\n"
    "mesh = lib.mesh_open(1)\n"
    "with phase('load'): buffer(mesh, 1, 0, 4000)\n"
    "lib.mesh_close(mesh)\n"
    "mesh = lib.mesh_open(1); lib.churn(mesh, 100, 1000); lib.mesh_close(mesh)"
)


def test_what_was_freed_with_its_device_is_reported_even_if_the_ring_lost_it(
    watch: Watch, tmp_path: Path
) -> None:
    watch(LEAKS_EARLY, TTMEM_EVENTS="64").end()

    ended = never_freed(str(tmp_path), ["buffers"])

    assert ended is not None
    (row,) = ended.snapshot.buffers or ()
    assert (row.id, row.requested, row.phase) == (1, 4000, "load")
    assert row.site is not None
    assert row.site.endswith(" buffer")


def test_what_a_killed_process_held_was_never_freed(watch: Watch, tmp_path: Path) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()")
    process.wait_for("made")
    process.close()

    assert ids(tmp_path) == {"1000": [1]}


HOLDS = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()"


def test_a_killed_process_ended_when_somebody_saw_it_die_not_at_its_last_event(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(HOLDS)
    process.wait_for("made")
    with closing(ProbeWatcher(str(tmp_path))) as watcher:
        watcher.read()
        idle = time.time_ns()
        process.close()
        watcher.read()

    ended = never_freed(str(tmp_path))

    assert ended is not None
    assert idle < (ended.ended_ns[process.process.pid] or 0) < time.time_ns()


def test_when_a_process_was_killed_is_unknown_if_nobody_looked(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(HOLDS)
    process.wait_for("made")
    process.close()

    ended = never_freed(str(tmp_path))

    assert ended is not None
    assert ended.ended_ns == {process.process.pid: None}


def test_only_a_killed_process_may_have_left_something_behind(watch: Watch, tmp_path: Path) -> None:
    killed = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()")
    killed.wait_for("made")
    killed.close()
    watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000)").end()

    with closing(ProbeWatcher(str(tmp_path))) as watcher:
        (found,) = watcher.read().killed

    words = found.last_words()
    assert words is not None
    assert (found.pid, words.counters[0].kinds[0].requested) == (killed.process.pid, 4000)


def test_a_process_that_freed_all_and_one_that_lives_are_not_named(
    watch: Watch, tmp_path: Path
) -> None:
    watch("mesh = lib.mesh_open(1); lib.buffer_free(buffer(mesh, 1, 0, 4000))").end()
    alive = watch("mesh = lib.mesh_open(1); buffer(mesh, 2, 0, 4000); say('made'); input()")
    alive.wait_for("made")

    assert ids(tmp_path) == {}


def test_a_region_is_removed_an_hour_after_its_process_ended(watch: Watch, tmp_path: Path) -> None:
    watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000)").end()
    (path,) = tmp_path.glob("ttmem_*")
    before = time.time_ns() - 2 * HOUR_NS
    os.utime(path, ns=(before, before))

    remove_expired(str(tmp_path))
    assert path.exists()  # made long ago, but it has only just ended

    with path.open("r+b") as region:
        region.seek(ENDED_AT)
        region.write(struct.pack("<Q", before))
    os.utime(path, ns=(before, before))
    remove_expired(str(tmp_path))
    assert not path.exists()


def test_a_live_region_is_never_removed(watch: Watch, tmp_path: Path) -> None:
    alive = watch("mesh = lib.mesh_open(1); say('made'); input()")
    alive.wait_for("made")
    (path,) = tmp_path.glob("ttmem_*")
    os.utime(path, ns=(0, 0))

    remove_expired(str(tmp_path))

    assert path.exists()
