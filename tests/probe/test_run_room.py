"""Regions of dead processes do not fill the folder, and a process that finds no room is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.doctor.probe_writer import SIZE, write_probe_region
from tests.probe.launched import Launcher
from tests.probe.watched import Watched
from ttmem.probe.layout import HEADER
from ttmem.sources.probe import ended

NO_PROCESS = 1 << 22  # above every pid
LEAKS = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.mesh_close(mesh)"
NO_ROOM = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    "lib.mesh_open(1); print(os.getpid())"
)


def dead_regions(folder: Path, count: int) -> list[Path]:
    """The oldest first."""
    return [
        write_probe_region(folder, NO_PROCESS - 1 - n, idle_s=60.0 * (count - n), ticks=n + 1)
        for n in range(count)
    ]


def launched_by(path: Path, launcher: int) -> None:
    with path.open("r+b") as file:
        file.seek(HEADER.size - 4)
        file.write(launcher.to_bytes(4, "little"))


def test_a_run_leaves_its_region_for_a_dump(launcher: Launcher) -> None:
    launcher.run(*launcher.program("lib.mesh_open(1)"))

    assert len(list(launcher.folder.glob("ttmem_*"))) == 1


def test_a_new_run_removes_the_oldest_dead_regions_beyond_64_mib(launcher: Launcher) -> None:
    most = ended.MOST_KEPT // SIZE
    dead = dead_regions(launcher.folder, most + 3)

    launcher.run("true")

    left = sorted(launcher.folder.glob("ttmem_*"))
    assert left == sorted(dead[3:])


def test_a_leak_outlives_any_number_of_clean_runs(launcher: Launcher) -> None:
    launcher.run(*launcher.program(LEAKS))
    (leaky,) = launcher.folder.glob("ttmem_*")
    os.utime(leaky, ns=(0, 0))
    dead_regions(launcher.folder, ended.MOST_KEPT // SIZE)

    done = launcher.run("true")

    assert leaky.exists()
    assert len(list(launcher.folder.glob("ttmem_*"))) < ended.MOST_KEPT // SIZE
    assert "to make room" not in done.stderr


def test_a_leak_that_had_to_go_is_named(
    launcher: Launcher, watch: Callable[..., Watched], tmp_path: Path
) -> None:
    pids = []
    for _ in range(5):  # each takes a third of what is kept
        leaky = watch(LEAKS)
        leaky.end()
        pids.append(leaky.process.pid)
    left = sorted(tmp_path.glob("ttmem_*"), key=lambda path: path.stat().st_mtime_ns)

    done = launcher.run("true")

    gone = [int(path.name.split("_")[1]) for path in left if not path.exists()]
    assert gone == pids[: len(gone)]
    assert len(gone) >= 2
    named = ", ".join(map(str, sorted(gone)))
    assert (
        f"ttmem: pids {named} ended without freeing everything; their regions were" in done.stderr
    )


def test_regions_of_live_processes_and_of_runs_that_go_on_stay(
    tmp_path: Path, launcher: Launcher
) -> None:
    dead = dead_regions(tmp_path, ended.MOST_KEPT // SIZE + 3)
    launched_by(dead[0], os.getpid())

    launcher.run("true")

    assert dead[0].exists()
    assert not dead[1].exists()


def test_a_process_that_found_no_room_is_named_and_leaves_nothing(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(NO_ROOM))

    said = " ".join(done.stderr.split())
    pid = done.stdout.strip()
    assert f"ttmem: pid {pid} could not be watched: no space for a region in" in said
    assert f"`ttmem clean --shm {launcher.folder} --yes`" in said
    assert "nothing to report" not in said
    assert list(launcher.folder.glob("ttmem_*")) == []


def test_quiet_leaves_no_trace_of_a_process_without_room(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(NO_ROOM), options=("--quiet",))

    assert done.stderr == ""
    assert list(launcher.folder.glob("ttmem_*")) == []


def test_one_failure_is_one_allocation(launcher: Launcher) -> None:
    said = launcher.summary(f"mesh = lib.mesh_open(1); buffer(mesh, 1, 0, {2 << 40})")

    assert "device 0 opened, 1 allocation failed" in said
