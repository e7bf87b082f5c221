"""Regions of dead processes are compacted and do not fill the folder; a process that finds no space is named."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.doctor.hosts import write_probe_region
from tests.other_user import give_away, needs_root
from tests.own_process import printed
from tests.probe.watched import Launcher, Watched
from ttmem.probe.layout import COMPACT_VERSION, HEADER, VERSION
from ttmem.sources.probe.cleanup import MOST_DEAD, compact, names_taken, remove_expired
from ttmem.sources.probe.ended import ended_processes
from ttmem.sources.probe.reader import RegionReader
from ttmem.sources.probe.region import ProbeRegion
from ttmem.views.summary import Unwatched, render_summary

NO_PROCESS = 1 << 22  # above every pid
LEAKS = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.mesh_close(mesh)"
NO_ROOM = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    "lib.mesh_open(1); print(os.getpid())"
)


def dead_regions(folder: Path, count: int) -> list[Path]:
    """The oldest first; none ended more than an hour ago, after which any reader removes them."""
    return [
        write_probe_region(folder, NO_PROCESS - 1 - n, idle_s=10.0 * (count - n), ticks=n + 1)
        for n in range(count)
    ]


def launched_by(path: Path, launcher: int) -> None:
    with path.open("r+b") as file:
        file.seek(HEADER.size - 4)
        file.write(launcher.to_bytes(4, "little"))


def test_a_run_leaves_its_region_for_a_dump(launcher: Launcher) -> None:
    launcher.run(*launcher.program("lib.mesh_open(1)"))

    assert len(list(launcher.folder.glob("ttmem_*"))) == 1


def versions(folder: Path) -> list[int]:
    found = []
    for path in sorted(folder.glob("ttmem_*")):
        with closing(ProbeRegion(str(path))) as region:
            found.append(region.header().version)
    return found


def dumped_pids(folder: Path) -> set[int]:
    devices = printed("dump", "--shm", folder)["never_freed"]
    return {group["pid"] for device in devices for group in device["memory"]}


def test_fifty_leaking_runs_in_a_row_are_all_named_by_a_dump(launcher: Launcher) -> None:
    runs = [launcher.run(*launcher.program(f"{LEAKS}; print(os.getpid())")) for _ in range(50)]

    assert dumped_pids(launcher.folder) == {int(run.stdout) for run in runs}
    assert "removed to make space" not in "".join(run.stderr for run in runs)
    sizes = sorted(path.stat().st_size for path in launcher.folder.glob("ttmem_*"))
    assert sizes[-2] < 200 << 10  # the last run has not been compacted yet


def test_a_compact_region_has_the_same_contents_as_the_whole_one(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    leaky = watch(
        "mesh = lib.mesh_open(2)\n"
        "for number in range(1, 100): buffer(mesh, number, number % 2, 4000)\n"
        f"buffer(mesh, 200, 1, {2 << 40})\n"
        "lib.mesh_close(mesh)\n"
    )
    leaky.end()
    (path,) = tmp_path.glob("ttmem_*")
    os.chmod(path, 0o640)
    before, (whole,) = path.stat(), ended_processes(str(tmp_path))

    assert compact(str(path))

    after, (small,) = path.stat(), ended_processes(str(tmp_path))
    assert small == whole
    assert len(whole.news.live or b"") > 99 * 64
    assert after.st_size < 200 << 10
    assert (after.st_mtime_ns, stat.S_IMODE(after.st_mode)) == (before.st_mtime_ns, 0o640)
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == [path.name]


def test_a_reader_of_the_whole_region_goes_on_reading_it(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    leaky = watch(LEAKS)
    leaky.end()
    (path,) = tmp_path.glob("ttmem_*")

    with closing(RegionReader(str(path))) as reader:
        assert compact(str(path))
        assert reader.read(ended=True).events


def test_only_what_is_dead_and_ours_and_complete_is_compacted(
    watch: Callable[..., Watched], done: Callable[..., Watched], tmp_path: Path
) -> None:
    full = watch(
        "mesh = lib.mesh_open(1)\nfor n in range(1, 99): buffer(mesh, n, 0, 4)", TTMEM_LIVE="64"
    )
    full.end()
    alive = done(f"{LEAKS}; say('done'); input()")

    compacted = [compact(str(path)) for path in tmp_path.glob("ttmem_*")]

    assert compacted == [False, False]
    assert versions(tmp_path) == [VERSION, VERSION]
    assert alive.process.poll() is None


def test_a_link_is_not_compacted(watch: Callable[..., Watched], tmp_path: Path) -> None:
    watch(LEAKS).end()
    (path,) = tmp_path.glob("ttmem_*")
    other = tmp_path / "other"
    path.rename(other)
    path.symlink_to(other)

    assert not compact(str(path))
    assert path.is_symlink()


def test_a_watcher_compacts_what_has_been_dead_for_a_minute(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    watch(LEAKS).end()
    remove_expired(str(tmp_path))
    assert versions(tmp_path) == [VERSION]
    (path,) = tmp_path.glob("ttmem_*")
    made = path.stat().st_mtime_ns - 70_000_000_000
    os.utime(path, ns=(made, made))

    remove_expired(str(tmp_path))

    assert versions(tmp_path) == [COMPACT_VERSION]


def test_a_new_run_removes_the_oldest_dead_regions_beyond_the_limit(launcher: Launcher) -> None:
    dead = dead_regions(launcher.folder, MOST_DEAD + 3)

    launcher.run("true")

    assert sorted(launcher.folder.glob("ttmem_*")) == sorted(dead[3:])


def test_a_leak_outlives_any_number_of_clean_runs(launcher: Launcher) -> None:
    launcher.run(*launcher.program(LEAKS))
    (leaky,) = launcher.folder.glob("ttmem_*")
    os.utime(leaky, ns=(0, 0))
    dead_regions(launcher.folder, MOST_DEAD)

    done = launcher.run("true")

    assert leaky.exists()
    assert len(list(launcher.folder.glob("ttmem_*"))) == MOST_DEAD
    assert "removed to make space" not in done.stderr


def test_a_leak_that_had_to_go_is_named(
    launcher: Launcher, watch: Callable[..., Watched], tmp_path: Path
) -> None:
    pids = []
    for _ in range(
        7
    ):  # with a full table a region is not compacted: each takes a fifth of what is kept
        leaky = watch(
            "mesh = lib.mesh_open(1)\nfor n in range(1, 99): buffer(mesh, n, 0, 4)", TTMEM_LIVE="64"
        )
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
    dead = dead_regions(tmp_path, MOST_DEAD + 3)
    launched_by(dead[0], os.getpid())

    launcher.run("true")

    assert dead[0].exists()
    assert not dead[1].exists()


def test_a_process_that_found_no_space_is_named_and_leaves_nothing(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(NO_ROOM))

    said = " ".join(done.stderr.split())
    pid = done.stdout.strip()
    assert f"ttmem: pid {pid} could not be watched: no space for a region in" in said
    assert f"`ttmem clean --shm {launcher.folder} --yes`" in said
    assert "nothing to report" not in said
    assert list(launcher.folder.glob("ttmem_*")) == []


@needs_root
def test_a_file_of_another_user_with_the_name_of_a_region_is_named(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ttmem_17_400", "ttmem_17_", "ttmem_18_400", "other_17")]
    for file in files:
        file.touch()
    give_away(*files)
    (tmp_path / "ttmem_17_500").touch()

    taken = names_taken(str(tmp_path), [17])

    assert taken == [str(tmp_path / name) for name in ("ttmem_17_", "ttmem_17_400")]
    unwatched = Unwatched((17,), str(tmp_path), True, None, "ttmem clean", taken)
    said = " ".join(render_summary([], unwatched, width=200, color=False).split())
    assert f"pid 17 could not be watched: {taken[0]} belongs to another user" in said


def test_quiet_leaves_no_trace_of_a_process_without_space(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(NO_ROOM), options=("--quiet",))

    assert done.stderr == ""
    assert list(launcher.folder.glob("ttmem_*")) == []


def test_one_failure_is_one_allocation(launcher: Launcher) -> None:
    said = launcher.summary(f"mesh = lib.mesh_open(1); buffer(mesh, 1, 0, {2 << 40})")

    assert "device 0 opened, 1 allocation failed" in said
