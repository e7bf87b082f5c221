"""Probe regions in containers with a /dev/shm of their own, and ttmem in a container that has the host's pids."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.container import container, in_container
from tests.other_user import needs_root
from tests.own_process import ran
from tests.patience import PATIENCE_S, wait_until
from tests.probe.watched import PRELUDE
from ttmem.probe import environment
from ttmem.sources.containers import Container, Containers
from ttmem.sources.probe.region_file import find_regions
from ttmem.sources.probe.watcher import ProbeWatcher

HOLDER = PRELUDE + (
    "mesh = lib.mesh_open_from(1, int(sys.argv[2]))\n"
    "kept = [buffer(mesh, i, 0, 4096) for i in range(int(sys.argv[3]))]\n"
    "say('ready'); input()"
)
CHIP = 2_000_000 + os.getpid()
OWN_DIRECTORY = ("TTMEM_SHM", "TTMEM_REGION_DIR")


def plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OWN_DIRECTORY}


def holder(runtime: Path, buffers: int, **options: Any) -> AbstractContextManager[int]:
    """A watched process in a container; it says when it holds so many buffers."""
    variables = environment({**plain_environment(), "TTMEM_REGION_DIR": "/dev/shm"})
    return container(HOLDER, runtime, CHIP, buffers, variables=variables, **options)


def ps(*arguments: str, prefix: Sequence[str] = ()) -> Any:
    command = [*prefix, sys.executable, "-m", "ttmem", "ps", "--json", *arguments]
    done = ran(command, env=plain_environment())
    return json.loads(done.stdout) if done.stdout else {"processes": [], "devices": []}


def held(document: Any) -> dict[int, tuple[int | None, int]]:
    """(pid inside, DRAM of the holders' chips) by pid."""
    return {
        process["pid"]: (
            process.get("container_pid"),
            sum(at["dram"] for at in process["devices"].values()),
        )
        for process in document["processes"]
        if process["sources"] == ["probe"]
    }


def inside_of(pid: int, containers: Containers) -> Container:
    (found,) = [container for container in containers.look() if pid in container.pids]
    return found


def test_ps_counts_watched_processes_in_containers_to_the_byte(runtime: Path) -> None:
    with holder(runtime, 3) as one, holder(runtime, 5) as other:
        document = ps()

    found = held(document)
    assert (found[one], found[other]) == ((1, 3 * 4096), (1, 5 * 4096))


def test_the_server_counts_them_and_lets_go_of_those_that_end(
    runtime: Path, tmp_path: Path
) -> None:
    socket = str(tmp_path / "s")
    server = subprocess.Popen(
        [sys.executable, "-m", "ttmem", "serve", "--socket", socket], env=plain_environment()
    )
    try:
        with holder(runtime, 4) as early:
            wait_until(lambda: held(ps("--socket", socket)).get(early) == (1, 4 * 4096))
            with holder(runtime, 2) as late:
                wait_until(lambda: held(ps("--socket", socket)).get(late) == (1, 2 * 4096))
        wait_until(lambda: not {early, late} & held(ps("--socket", socket)).keys())
    finally:
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


def test_a_region_in_a_container_says_nothing_about_processes_outside(
    runtime: Path, tmp_path: Path
) -> None:
    # given: a copy of a region that names a live, watched process of this host, put into a container
    from tests.probe.watched import Watched

    script = "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4096); say('done'); input()"
    copy = "import shutil, sys; shutil.copy(sys.argv[1], '/dev/shm'); print('ready', flush=True); input()"
    with closing(Watched(runtime, tmp_path, script)) as watched:
        watched.wait_for("done")
        (region,) = find_regions(str(tmp_path))
        with container(copy, region.path) as pid:
            containers = Containers()
            assert inside_of(pid, containers).regions == 1
            nowhere = tmp_path / "nowhere"
            with closing(ProbeWatcher(str(nowhere), containers=containers)) as watcher:
                reading = watcher.read()

    mine = [update for update in reading.news if update.facts.pid in (pid, watched.process.pid)]
    assert mine == []


def test_a_region_that_a_process_of_another_user_is_to_have_written_is_refused(
    runtime: Path,
) -> None:
    with holder(runtime, 1) as pid:
        containers = Containers()
        inside = inside_of(pid, containers)
        (entry,) = find_regions(inside)
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(f"{inside.path}/{os.path.basename(entry.path)}", 65534, -1)

        with closing(ProbeWatcher("/nowhere", containers=containers)) as watcher:
            reading = watcher.read()

    refused = [remark for remark in reading.remarks if remark.path == entry.path]
    assert [remark.kind for remark in refused] == ["foreign_probe_region"]
    assert not any(update.path == entry.path for update in reading.news)


@needs_root
def test_ttmem_in_a_container_with_the_hosts_pids_sees_all_the_others(runtime: Path) -> None:
    # given: one process on the host, so to speak, and one in a container; ttmem is in a container of its own
    with holder(runtime, 6) as inside, holder(runtime, 7, shm="true", namespaces=()) as outside:
        assert held(ps())[outside][1] == 7 * 4096
        document = ps(prefix=in_container(namespaces=("--mount",)))
    for region in Path("/dev/shm").glob(f"ttmem_{outside}_*"):
        region.unlink()

    found = held(document)
    assert (found[inside], found[outside]) == ((1, 6 * 4096), (None, 7 * 4096))


def _cgroups() -> list[Path]:
    """Writable hierarchies of this host."""
    places = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids")]
    return [place for place in places if os.access(place / "cgroup.procs", os.W_OK)]


@needs_root
@pytest.mark.parametrize("own_cgroups", [False, True])
def test_ttmem_in_a_container_knows_the_pod_of_a_process(runtime: Path, own_cgroups: bool) -> None:
    if not _cgroups():
        pytest.skip("no control group can be made here")
    pod, identity = f"{os.getpid():08x}-1111-2222-3333-444444444444", f"{os.getpid():064x}"
    slice_ = _cgroups()[0] / f"kubepods-besteffort-pod{pod.replace('-', '_')}.slice"
    scope = slice_ / f"cri-containerd-{identity}.scope"
    scope.mkdir(parents=True)
    namespaces = ("--mount", *(["--cgroup"] if own_cgroups else []))
    try:
        with holder(runtime, 1) as pid:
            (scope / "cgroup.procs").write_text(str(pid))
            document = ps(prefix=in_container(namespaces=namespaces))
        (found,) = [process for process in document["processes"] if process["pid"] == pid]
    finally:
        wait_until(lambda: not (scope / "cgroup.procs").read_text())
        scope.rmdir()
        slice_.rmdir()

    assert (found["workload"]["container"], found["workload"]["pod_uid"]) == (identity, pod)
