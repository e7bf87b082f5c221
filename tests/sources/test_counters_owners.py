"""A slot counts if its process is alive, and older than what it wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.conftest import Spawn
from tests.sources.region_writer import Slot, Written
from ttmem.events import Amounts, Owner
from ttmem.procfs import start_time_error_ns, start_time_ns
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import CounterSource

HELD = (4096, 2048, 0, 0, 512)
SECOND_NS = 1_000_000_000


MAPS_AND_EXECS = """
import mmap, os, sys
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
input()
os.execv("/bin/sh", ["sh", "-c", "echo another program; exec sleep 600"])
"""


@pytest.fixture
def shm() -> Iterator[Path]:
    """A folder in the file system where runtimes make their regions."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def _started_ns(pid: int) -> int:
    return (start_time_ns(pid) or 0) + start_time_error_ns()


def test_after_a_kill_the_others_are_exact_and_the_ghost_is_shown(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    children = [spawn() for _ in range(3)]
    Written(slots=[Slot(child.pid, HELD) for child in children]).write(tmp_path)
    (before,) = source.read().devices

    children[1].kill()
    # Not reaped: for its parent it is still there, for its memory it is not.
    os.waitid(os.P_PID, children[1].pid, os.WEXITED | os.WNOWAIT)
    (after,) = source.read().devices

    assert before.in_use == Amounts(*(3 * size for size in HELD))
    assert after.in_use == Amounts(*(2 * size for size in HELD))
    assert after.stored == before.in_use
    ghosts = [remark for remark in after.remarks if remark.kind == "ghost"]
    assert [(ghost.pid, ghost.bytes) for ghost in ghosts] == [(children[1].pid, sum(HELD))]
    (disagreement,) = [r for r in after.remarks if r.kind == "totals_disagree"]
    assert disagreement.bytes == sum(HELD[:-1])  # the stored CB is that of the last writer anyway


def test_a_dead_process_that_held_nothing_left_an_empty_slot(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    child = spawn()
    child.kill()
    child.wait()
    Written(slots=[Slot(child.pid, (0, 0, 0, 0, 0))]).write(tmp_path)

    (ghost,) = [remark for remark in source.read().devices[0].remarks if remark.kind == "ghost"]

    assert "has died and left an empty slot behind" in ghost.text


def test_a_kill_is_seen_without_pidfds_too(
    source: CounterSource, tmp_path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = spawn()
    Written(slots=[Slot(child.pid, HELD)]).write(tmp_path)
    before = source.read().devices[0].in_use

    child.kill()
    child.wait()

    assert (before, source.read().devices[0].in_use) == (Amounts(*HELD), Amounts())


def test_descriptors_are_given_back(tmp_path: Path, spawn: Spawn) -> None:
    def open_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    Written(slots=[Slot(spawn().pid, HELD) for _ in range(3)]).write(tmp_path)
    before = open_descriptors()
    source = CounterSource(str(tmp_path))
    source.read()
    during = open_descriptors()

    del source

    assert (during, open_descriptors()) == (before + 3, before)


def test_a_younger_process_with_the_same_pid_does_not_inherit(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    pid = spawn().pid
    Written(slots=[Slot(pid, HELD, updated_ns=_started_ns(pid) - SECOND_NS)]).write(tmp_path)

    (device,) = source.read().devices

    assert [process.owner for process in device.processes] == [Owner.REUSED]
    assert device.in_use == Amounts()
    assert device.remarks[0].kind == "reused_pid"


@pytest.mark.parametrize("updated_ns", [1, SECOND_NS, 1 << 60, (1 << 63) + 5, (1 << 64) - 5])
@pytest.mark.parametrize("tell", ["mapping", "name"])
def test_no_process_is_dead_because_of_a_timestamp(
    tmp_path: Path, updated_ns: int, tell: str
) -> None:
    region = Written().write(tmp_path)
    argument = region if tell == "mapping" else Written(1).write(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", MAPS_AND_EXECS, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        name = Path(f"/proc/{child.pid}/comm").read_bytes().strip() if tell == "name" else b"else"
        Written(slots=[Slot(child.pid, HELD, updated_ns=updated_ns, name=name)]).write(tmp_path)
        source = CounterSource(str(tmp_path), scanner=ProcScanner(period_s=0))
        devices = [device for device in source.read().devices if device.in_use.all]
        child.kill()

    assert [p.owner for device in devices for p in device.processes] == [Owner.LIVE]
    assert devices[0].in_use == Amounts(*HELD)


@pytest.mark.parametrize("known", [True, False])
def test_a_program_that_follows_by_exec_does_not_inherit(shm: Path, known: bool) -> None:
    chip = os.getpid() << 20  # others who test here at the same time have other ones
    region = Written(chip).write(shm)
    with subprocess.Popen(
        [sys.executable, "-c", MAPS_AND_EXECS, region],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        Written(chip, slots=[Slot(child.pid, HELD)]).write(shm)
        source = CounterSource(str(shm), scanner=ProcScanner(period_s=0, hurried=True))
        before = source.read().devices[0].in_use
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "another program\n"
        if not known:
            source = CounterSource(str(shm), scanner=ProcScanner(hurried=True))

        (after,) = source.read().devices

        assert before == Amounts(*HELD)
        assert after.in_use == Amounts()
        assert [process.owner for process in after.processes] == [Owner.REPLACED]
        assert after.remarks[0].kind == "replaced_program"
        child.kill()


def test_a_process_that_wrote_as_soon_as_it_could_is_the_owner(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    pid = spawn().pid
    Written(slots=[Slot(pid, HELD, updated_ns=_started_ns(pid) + 1)]).write(tmp_path)

    (device,) = source.read().devices

    assert device.in_use == Amounts(*HELD)


def test_a_process_that_stops_is_alive(source: CounterSource, tmp_path: Path, spawn: Spawn) -> None:
    child = spawn()
    Written(slots=[Slot(child.pid, HELD)]).write(tmp_path)

    child.send_signal(signal.SIGSTOP)

    assert source.read().devices[0].in_use == Amounts(*HELD)


@pytest.mark.parametrize(("all_in_sight", "owner"), [(False, Owner.ELSEWHERE), (True, Owner.DEAD)])
def test_a_ghost_whose_slot_is_written_to_lives_only_where_processes_can_be_out_of_sight(
    tmp_path: Path, all_in_sight: bool, owner: Owner
) -> None:
    source = CounterSource(str(tmp_path), all_in_sight=all_in_sight)
    gone = subprocess.Popen(["true"])
    gone.wait()
    Written(slots=[Slot(gone.pid, HELD)]).write(tmp_path)
    (before,) = source.read().devices

    Written(slots=[Slot(gone.pid, HELD, updated_ns=time.time_ns() + SECOND_NS)]).write(tmp_path)
    (after,) = source.read().devices

    assert before.processes[0].owner is Owner.DEAD
    assert after.processes[0].owner is owner
    assert after.in_use == (Amounts(*HELD) if owner.counts else Amounts())
    assert (after.remarks[0].kind == "elsewhere") is owner.counts


def test_two_slots_of_one_process_are_added(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    pid = spawn().pid
    Written(slots=[Slot(pid, HELD), Slot(pid, HELD)]).write(tmp_path)

    (device,) = source.read().devices

    assert [process.counters for process in device.processes] == [
        Amounts(*(2 * size for size in HELD))
    ]
    assert [remark.kind for remark in device.remarks] == ["twice"]


def test_a_full_table_says_that_it_is_full(source: CounterSource, tmp_path: Path) -> None:
    Written(slots=[Slot(os.getpid(), HELD)] * 64).write(tmp_path)

    (device,) = source.read().devices

    assert "table_full" in [remark.kind for remark in device.remarks]


def test_chip_counters_that_disagree_are_shown(source: CounterSource, tmp_path: Path) -> None:
    Written(slots=[Slot(os.getpid(), HELD)], totals=HELD, chips=[(0, (1024, *HELD[1:]))]).write(
        tmp_path
    )

    (device,) = source.read().devices

    (remark,) = device.remarks
    assert (remark.kind, remark.bytes) == ("chips_disagree", 1024 - 4096)
    assert "1.0 KiB instead of 4.0 KiB" in remark.text
    assert device.in_use == Amounts(*HELD)


def test_chip_counters_are_cleared_when_the_last_one_goes(
    source: CounterSource, tmp_path: Path
) -> None:
    Written(chips=[(0, (4096, 0, 0, 0, 0))], references=0).write(tmp_path)

    (device,) = source.read().devices

    assert [remark.kind for remark in device.remarks] == ["chips_disagree"]


def test_chip_counters_may_keep_what_one_had_who_closed_before_others(
    source: CounterSource, tmp_path: Path
) -> None:
    more = (65_159_168, *HELD[1:])
    Written(slots=[Slot(os.getpid(), HELD)], totals=HELD, chips=[(0, more)]).write(tmp_path)

    (device,) = source.read().devices

    assert device.remarks == ()


@pytest.mark.parametrize(("version", "kinds"), [(3, []), (4, ["totals_disagree"])])
def test_the_stored_cb_of_the_last_writer_alone_is_no_news_before_layout_4(
    source: CounterSource, tmp_path: Path, version: int, kinds: list[str]
) -> None:
    totals = (*HELD[:-1], 3)
    Written(version=version, slots=[Slot(os.getpid(), HELD)], totals=totals, chips=[]).write(
        tmp_path
    )

    (device,) = source.read().devices

    assert [remark.kind for remark in device.remarks] == kinds


def test_a_small_disagreement_is_told_in_bytes(source: CounterSource, tmp_path: Path) -> None:
    ten = 10 << 20
    Written(totals=(0, ten, 0, 0, 0), chips=[(0, (0, ten - 32, 0, 0, 0))]).write(tmp_path)

    (device,) = source.read().devices

    told = next(remark.text for remark in device.remarks if remark.kind == "chips_disagree")
    assert told.endswith("L1 10,485,728 B instead of 10,485,760 B")


def test_counters_near_the_end_of_their_range_are_in_no_sum(
    source: CounterSource, tmp_path: Path, spawn: Spawn
) -> None:
    wrapped = (2**64 - 4096, 0, 0, 0, 0)
    Written(
        slots=[Slot(os.getpid(), HELD), Slot(spawn().pid, wrapped)], totals=HELD, chips=[(0, HELD)]
    ).write(tmp_path)

    (device,) = source.read().devices

    assert device.in_use == Amounts(*HELD)
    assert [remark.kind for remark in device.remarks] == ["impossible"]
