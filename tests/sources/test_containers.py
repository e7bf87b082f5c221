"""Regions in containers that have a /dev/shm of their own: read from outside, as if an enemy had made them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.container import OWN_SHM, PUBLISHER, container, in_container, needs_namespaces
from tests.other_user import needs_root
from tests.patience import wait_until
from tests.sources.region_writer import OWN_CHIP, Slot, Written
from ttmem.events import DeviceSample, Owner
from ttmem.sources import containers as containers_module
from ttmem.sources.containers import Containers
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import CounterSource
from ttmem.sources.probe.region_file import find_regions

CHIP = OWN_CHIP + 1
WAIT = "print('ready', flush=True); input()"


def source(containers: Containers, folder: str = "/nowhere") -> CounterSource:
    return CounterSource(folder, scanner=ProcScanner(hurried=True), containers=containers)


def samples(containers: Containers, chip: int = CHIP) -> list[DeviceSample]:
    found = source(containers).read().devices
    return [device for device in found if device.unique_id == str(chip)]


def open_files() -> list[str]:
    """Without the handles of processes, which the reader of counters keeps."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(link for link in links if "pidfd" not in link)


def reached(pid: int, containers: Containers) -> bool:
    return any(pid in container.pids for container in containers.look())


@pytest.mark.parametrize("scanned", [False, True])
def test_counters_in_a_container_are_those_of_the_process_as_this_host_knows_it(
    scanned: bool,
) -> None:
    with container(PUBLISHER, CHIP, 7777) as pid:
        containers = Containers()
        scanner = ProcScanner(hurried=not scanned)
        reading = CounterSource("/nowhere", scanner=scanner, containers=containers).read()
        (inside,) = [container for container in containers.look() if pid in container.pids]

    (sample,) = [device for device in reading.devices if device.unique_id == str(CHIP)]
    (process,) = sample.processes
    assert (process.pid, process.container_pid, process.owner) == (pid, 1, Owner.LIVE)
    assert sample.in_use.dram == 7777
    assert sample.path == f"{inside.path}/tt_device_{CHIP}_memory"
    assert sample.remarks == ()


def test_containers_that_share_a_shm_are_read_once() -> None:
    # given: a container in a container, as those of a pod, with its own pids and mounts
    nested = f"""
import subprocess, sys
inner = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
    sys.executable, "-c", {PUBLISHER!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
inner.stdout.readline()
print("ready", flush=True)
input()
"""
    with container(nested, CHIP, 5000, 0) as pid:
        containers = Containers()
        (sample,) = samples(containers)
        shared = [container for container in containers.look() if pid in container.pids]

    assert len(shared) == 1
    assert len(shared[0].pids) == 4  # two of them are `unshare`
    (process,) = sample.processes
    assert process.pid not in (pid, 1)
    assert (process.owner, process.counters.dram) == (Owner.LIVE, 5000)


def test_a_container_with_the_shm_of_this_host_is_none() -> None:
    with container(WAIT, shm="true") as pid:
        containers = Containers()

        assert not reached(pid, containers)
        assert not any(pid in container.pids for container in containers.unread())


def test_a_process_of_this_host_that_a_container_names_is_not_counted() -> None:
    # given: a file of root's in a container, which names a live process of root's outside
    with container(PUBLISHER, CHIP, 1 << 40, os.getpid()):
        (sample,) = samples(Containers())

    (process,) = sample.processes
    assert process.owner is Owner.DEAD
    assert sample.in_use.dram == 0


def test_the_same_chip_here_and_in_a_container_adds_up(tmp_path: Path) -> None:
    from ttmem.ledger import Books

    Written(CHIP, slots=[Slot(os.getpid(), (100, 0, 0, 0, 0))]).write(tmp_path)
    with container(PUBLISHER, CHIP, 11) as pid:
        reading = source(Containers(), str(tmp_path)).read()
        books = Books(watchful=False)
        books.sample([device for device in reading.devices if device.unique_id == str(CHIP)], (), 1)
        snapshot = books.snapshot(1, {})

    (device,) = snapshot.devices
    assert device.memory.dram.requested == 111
    held = {process.pid: process.devices[str(CHIP)].dram for process in snapshot.processes}
    assert held == {os.getpid(): 100, pid: 11}


def test_a_container_that_ends_is_let_go() -> None:
    containers = Containers()
    before = open_files()
    with container(PUBLISHER, CHIP, 1) as pid:
        assert reached(pid, containers)
        reader = source(containers)
        assert reader.read().devices
        (inside,) = [container for container in containers.look() if pid in container.pids]

    # then: reading what is gone fails as a file that is gone, and the next look closes the directory
    assert [device for device in reader.read().devices if device.in_use.dram] == []
    with patch.object(containers_module, "LOOK_S", 0.0):
        wait_until(lambda: not reached(pid, containers))  # it may still be ending
    with pytest.raises(FileNotFoundError):
        inside.open(f"tt_device_{CHIP}_memory")
    containers.close()
    assert not Counter(open_files()) - Counter(
        before
    )  # other tests may have left some that are gone now


@pytest.mark.parametrize(
    "shm",
    [
        pytest.param(
            f"{OWN_SHM}; mkdir /dev/shm/d; mount --move /dev/shm /mnt; mount -t tmpfs x /dev;"
            " ln -s /mnt /dev/shm",
            id="a link instead of /dev/shm",
        ),
        pytest.param(
            "mount -t tmpfs x /dev; mkdir /dev/shm; mount -t ramfs y /dev/shm", id="ramfs"
        ),
    ],
)
def test_what_is_no_plain_tmpfs_is_not_read(shm: str) -> None:
    with container(PUBLISHER, CHIP, 1 << 30, shm=shm) as pid:
        containers = Containers()

        assert samples(containers) == []
        assert not reached(pid, containers)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        ("os.mkfifo(path)", "not_a_region"),
        ("os.symlink('/etc/passwd', path)", "not_a_region"),
        ("os.mkdir(path)", "not_a_region"),
        ("open(path, 'wb').truncate(1 << 42)", "unknown_layout"),
        ("open(path, 'wb').close(); os.link(path, path + '2')", "not_a_region"),
    ],
)
def test_whatever_has_the_name_of_a_region_keeps_nobody_waiting(make: str, kind: str) -> None:
    path = f"/dev/shm/tt_device_{CHIP}_memory"
    with container(f"import os; path = {path!r}; {make}; {WAIT}") as pid:
        containers = Containers()
        reading = source(containers).read()
        (place,) = [container.path for container in containers.look() if pid in container.pids]

    inside = [remark for remark in reading.remarks if (remark.path or "").startswith(f"{place}/")]
    assert [remark.kind for remark in inside] == [kind]


def test_a_file_mounted_over_a_region_is_neither_read_nor_asked_for_its_status(
    tmp_path: Path,
) -> None:
    # given: a file of this host, mounted over a file in a container
    file = Written(CHIP, slots=[Slot(1, (1 << 30, 0, 0, 0, 0))]).write(tmp_path)
    places = [f"/dev/shm/{name}" for name in (f"tt_device_{CHIP}_memory", "ttmem_1_2")]
    mounts = "; ".join(f"touch {place}; mount --bind {file} {place}" for place in places)
    with container(WAIT, shm=f"{OWN_SHM}; {mounts}") as pid:
        containers = Containers()
        (inside,) = [container for container in containers.look() if pid in container.pids]
        reading = source(containers).read()
        regions = [entry.path for entry in find_regions(inside)]
        with pytest.raises(OSError, match="mounted"):
            inside.status(Path(places[0]).name)

    assert [device.path for device in reading.devices if inside.path in device.path] == []
    told = [remark for remark in reading.remarks if (remark.path or "").startswith(inside.path)]
    assert [remark.kind for remark in told] == ["not_a_region"]
    assert regions == []


def test_a_crowd_of_files_is_reported_and_not_read_to_its_end() -> None:
    script = (
        f"for i in range({containers_module.MOST_NAMES + 50}): open(f'/dev/shm/{{i}}', 'w').close()"
    )
    with container(f"{script}\n{WAIT}") as pid:
        containers = Containers()
        containers.look()

        (told,) = [container for container in containers.unread() if pid in container.pids]
    assert "4,096" in (told.problem or "")


def test_a_container_that_mounts_its_shm_late_is_found() -> None:
    # given: a process that is seen before it has a /dev/shm of its own
    late = f"""
import subprocess
print("ready", flush=True)
input()
subprocess.run(["mount", "-t", "tmpfs", "shm", "/dev/shm"], check=True)
{PUBLISHER.replace("print", "open('/dev/shm/there', 'w').close(); print")}
"""
    needs_namespaces()
    command = in_container(sys.executable, "-c", late, str(CHIP), "42", "0", shm="true")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        containers = Containers()
        assert samples(containers) == []

        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        late_by = time.monotonic() + containers_module.SETTLED_S
        with patch.object(time, "monotonic", lambda: late_by):
            (sample,) = samples(containers)
        assert sample.in_use.dram == 42
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("last", "problem"), [("true", None), ("mount -t ramfs x /dev/shm", "ramfs")]
)
def test_a_container_with_many_mounts_is_examined_to_the_last(
    last: str, problem: str | None
) -> None:
    many = "; ".join(f"mkdir /mnt/{n}; mount -t tmpfs x /mnt/{n}" for n in range(80))
    shm = f"mount -t tmpfs x /mnt; {many}; {OWN_SHM}; {last}"
    with container(PUBLISHER, CHIP, 4242, shm=shm) as pid:
        assert len(Path(f"/proc/{pid}/mountinfo").read_bytes()) > 4096
        containers = Containers()
        found = [sample.in_use.dram for sample in samples(containers)]
        unread = [place.problem for place in containers.unread() if pid in place.pids]

    assert found == ([] if problem else [4242])
    assert [problem in (text or "") for text in unread if problem] == ([True] if problem else [])


@contextmanager
def crowd_of_another_user() -> Iterator[list[int]]:
    """Containers of one user, also one within another: a process in each."""
    needs_namespaces()
    make = f"{OWN_SHM}; : > /dev/shm/tt_device_{CHIP}_memory; echo ready; exec sleep 600"
    become = ["setpriv", "--reuid=65534", "--clear-groups"]
    once = ["unshare", "--user", "--map-root-user", "--mount"]
    with ExitStack() as stack:
        crowd = []
        for unshare in (once, [*once, *once], once, once):
            command = [*become, *unshare, "sh", "-ec", make]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/")
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            crowd.append(process.pid)
        yield crowd


@needs_root
def test_containers_of_one_user_take_no_place_of_those_of_another() -> None:
    with (
        crowd_of_another_user() as crowd,
        container(PUBLISHER, CHIP, 1) as mine,
        patch.object(containers_module, "MOST_OPEN_OF_A_USER", 2),
    ):
        containers = Containers()
        seen = [pid for pid in crowd if reached(pid, containers)]
        refused = {pid: place.problem for place in containers.unread() for pid in place.pids}
        assert reached(mine, containers)

    assert len(seen) == 2
    assert {pid in refused for pid in set(crowd) - {*seen}} == {True}
    assert {"2 is the limit" in (refused[pid] or "") for pid in set(crowd) - {*seen}} == {True}


@needs_root
def test_new_containers_of_one_user_take_no_time_of_those_of_another() -> None:
    with (
        crowd_of_another_user() as crowd,
        container(PUBLISHER, CHIP, 1) as mine,
        patch.object(containers_module, "MOST_NEW_OF_A_USER", 1),
    ):
        first = {pid for found in Containers().look() for pid in found.pids}

    assert len(first & set(crowd)) == 1
    assert mine in first


# -- the commands, which look at this host's own /dev/shm


def ttmem(*arguments: str, prefix: Sequence[str] = ()) -> Any:
    """The document that a command prints."""
    names = ("TTMEM_SHM", "TTMEM_REGION_DIR")
    env = {name: value for name, value in os.environ.items() if name not in names}
    command = [*prefix, sys.executable, "-m", "ttmem", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_ps_counts_what_processes_in_containers_hold() -> None:
    with container(PUBLISHER, CHIP, 4096) as one, container(PUBLISHER, CHIP, 8192) as other:
        document = ttmem("ps")

    (device,) = [device for device in document["devices"] if device["unique_id"] == str(CHIP)]
    assert device["memory"]["dram"]["requested"] == 4096 + 8192
    held = {each["pid"]: each["devices"].get(str(CHIP)) for each in document["processes"]}
    assert (held[one]["dram"], held[other]["dram"]) == (4096, 8192)


def test_doctor_names_containers_and_clean_leaves_them_alone() -> None:
    dead = 4_000_000
    with container(PUBLISHER, CHIP, 4096, dead) as pid:
        document = ttmem("doctor")
        plan = ttmem("clean", "--force")

    (inside,) = [container for container in document["containers"] if pid in container["pids"]]
    assert (inside["counters"], inside["problem"]) == (1, None)
    there = [
        finding
        for finding in document["findings"]
        if (finding["path"] or "").startswith(inside["path"])
    ]
    assert {finding["kind"] for finding in there} >= {"ghost"}
    assert {finding["command"] for finding in there} == {None}
    assert inside["path"] not in json.dumps(plan)


@needs_root
def test_who_may_not_look_inside_is_told_so() -> None:
    # given: root without the right to inspect the processes of others, and a container of root's
    powerless = ("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace")
    namespaces = ("--mount", "--pid", "--fork", "--mount-proc")
    with container(PUBLISHER, CHIP, 4096, namespaces=namespaces) as pid:
        document = ttmem("doctor", prefix=powerless)

    assert not any(pid in container["pids"] for container in document["containers"])
    (finding,) = [
        finding for finding in document["findings"] if finding["kind"] == "hidden_containers"
    ]
    cards = Path("/dev/tenstorrent").exists()
    assert finding["level"] == ("warning" if cards else "info")
    assert finding["advice"].startswith("ttmem needs CAP_SYS_PTRACE")
