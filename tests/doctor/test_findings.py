"""Each thing that can be wrong has a name, a level and a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.hosts import CARD, HOST, SURROUNDINGS, host, process, region
from ttmem.clean.planning import LeftAlone, Plan, RemoveRegion
from ttmem.doctor.examination import examine
from ttmem.doctor.finding import Finding, Level
from ttmem.events import Owner, Remark
from ttmem.sources.containers import ContainerFacts
from ttmem.sources.host import (
    FolderFacts,
    HiddenFacts,
    HostFacts,
    ProbeFacts,
)
from ttmem.sources.socket.listener import SocketFacts, SocketState

GHOST = Remark("ghost", "process 4711 (python) has died", 4711, 4096)
CLEAN = "ttmem clean --yes"
PATH = "/dev/shm/tt_device_7_memory"
PROBE = ProbeFacts("/dev/shm/ttmem_1_2", 1, 1 << 20, "ada", True, 1, True)
SOCKET = "/tmp/s"


def only(facts: HostFacts) -> Finding:
    (finding,) = examine(facts)
    return finding


def test_a_sound_host_has_no_finding() -> None:
    assert examine(HOST) == ()


@pytest.mark.parametrize(
    ("facts", "kind", "level", "command"),
    [
        (host(cards=(), driver=None), "no_card", Level.INFO, None),
        (
            host(cards=(replace(CARD, node=None, usable=None),)),
            "no_device_file",
            Level.WARNING,
            "docker run --device /dev/tenstorrent ...",
        ),
        (
            host(cards=(replace(CARD, usable=False),)),
            "closed_card",
            Level.WARNING,
            "sudo chmod a+rw /dev/tenstorrent/0",
        ),
        (
            host(folder=FolderFacts("/dev/shm", 64 << 20, 4096)),
            "shm_full",
            Level.ERROR,
            "sudo mount -o remount,size=128M /dev/shm",
        ),
        (
            host(folder=FolderFacts("/dev/shm", 1 << 30, 2 << 20)),
            "shm_nearly_full",
            Level.WARNING,
            "sudo mount -o remount,size=2048M /dev/shm",
        ),
        (
            host(surroundings=replace(SURROUNDINGS, host_pids=False)),
            "own_pid_namespace",
            Level.INFO,
            "docker run --ipc=host --pid=host --device /dev/tenstorrent ...",
        ),
        (
            host(surroundings=replace(SURROUNDINGS, host_ipc=False)),
            "private_shm",
            Level.INFO,
            "docker run --ipc=host --pid=host --device /dev/tenstorrent ...",
        ),
        (
            host(surroundings=replace(SURROUNDINGS, hidden_pids=True)),
            "hidepid",
            Level.WARNING,
            "sudo mount -o remount,hidepid=0 /proc",
        ),
        (
            host(surroundings=replace(SURROUNDINGS, tracking_disabled=True)),
            "tracking_disabled_here",
            Level.WARNING,
            "unset TT_METAL_SHM_TRACKING_DISABLED",
        ),
        (
            host(containers=(ContainerFacts("/proc/9/root/dev/shm", (9,), problem="links"),)),
            "region_elsewhere",
            Level.WARNING,
            None,
        ),
        (
            host(hidden=(HiddenFacts(9, "python", None), HiddenFacts(1, "init", False))),
            "hidden_containers",
            Level.WARNING,
            None,
        ),
        (
            host(hidden=(HiddenFacts(1, "init", False),)),
            "hidden_containers",
            Level.INFO,
            None,
        ),
        (host(regions=(region(mode=0o666),)), "open_to_all", Level.INFO, f"chmod go-w {PATH}"),
        (
            host(sockets=(SocketFacts(SOCKET, SocketState.STALE),)),
            "stale_socket",
            Level.WARNING,
            "ttmem clean --socket /tmp/s --yes",
        ),
        (
            host(sockets=(SocketFacts(SOCKET, SocketState.NO_SOCKET),)),
            "not_a_socket",
            Level.WARNING,
            "rm -i /tmp/s",
        ),
        (
            host(sockets=(SocketFacts(SOCKET, SocketState.CLOSED, "ada"),)),
            "closed_socket",
            Level.WARNING,
            "ttmem serve --group NAME",
        ),
        (
            host(sockets=(SocketFacts(SOCKET, SocketState.UNKNOWN),)),
            "unknown_socket",
            Level.WARNING,
            "ls -l /tmp/s",
        ),
        (
            host(probes=(replace(PROBE, alive=False),)),
            "dead_probe_region",
            Level.INFO,
            CLEAN,
        ),
        (
            host(probes=(replace(PROBE, problem="has version 9"),)),
            "bad_probe_region",
            Level.WARNING,
            None,
        ),
        (
            host(probes=(replace(PROBE, features=(("buffers", True), ("traces", False))),)),
            "missing_features",
            Level.WARNING,
            None,
        ),
    ],
)
def test_what_the_host_is_like(
    facts: HostFacts, kind: str, level: Level, command: str | None
) -> None:
    finding = only(facts)

    assert (finding.kind, finding.level, finding.command) == (kind, level, command)


@pytest.mark.parametrize(
    ("kind", "level", "command"),
    [
        ("other_user", Level.WARNING, f"sudo chmod a+r {PATH}"),
        ("unknown_layout", Level.WARNING, None),
        ("not_a_region", Level.WARNING, f"rm -i {PATH}"),
        ("unreadable", Level.WARNING, f"ls -ld {PATH}"),
        ("initialising", Level.INFO, None),
        ("too_many", Level.WARNING, CLEAN),
        ("more", Level.WARNING, None),
        ("tracking_disabled", Level.WARNING, "unset TT_METAL_SHM_TRACKING_DISABLED"),
        ("publishes_nothing", Level.INFO, None),
        ("a kind of tomorrow", Level.INFO, None),
    ],
)
def test_what_the_reader_remarked_of_the_host(kind: str, level: Level, command: str | None) -> None:
    finding = only(host(remarks=(Remark(kind, "words", 4711, None, PATH),)))

    assert (finding.kind, finding.level, finding.command) == (kind, level, command)
    assert finding.text == "words"


@pytest.mark.parametrize(
    ("kind", "level", "command"),
    [
        ("ghost", Level.WARNING, CLEAN),
        ("reused_pid", Level.WARNING, CLEAN),
        ("elsewhere", Level.INFO, None),
        ("totals_disagree", Level.INFO, None),
        ("chips_disagree", Level.INFO, None),
        ("table_full", Level.WARNING, None),
        ("impossible", Level.WARNING, None),
        ("twice", Level.INFO, None),
        ("replaced_region", Level.WARNING, None),
    ],
)
def test_what_the_reader_remarked_of_a_device(kind: str, level: Level, command: str | None) -> None:
    finding = only(host(regions=(region(Remark(kind, "words", 4711, 4096)),)))

    assert (finding.kind, finding.level, finding.command) == (kind, level, command)
    assert (finding.text, finding.path) == ("device 7: words", PATH)


def test_a_ghost_of_layout_4_in_use_needs_nothing() -> None:
    finding = only(host(regions=(region(GHOST, version=4, mapped_by=(5,)),)))

    assert (finding.level, finding.command) == (Level.INFO, None)
    assert finding.advice is not None
    assert "clears it" in finding.advice


def test_a_ghost_without_bytes_is_not_a_warning() -> None:
    finding = only(host(regions=(region(replace(GHOST, bytes=0)),)))

    assert finding.level is Level.INFO


def test_a_full_table_is_cleaned_if_some_of_it_are_dead() -> None:
    full = Remark("table_full", "all 64 are in use")
    finding = only(host(regions=(region(full, processes=(process(Owner.DEAD),)),)))

    assert finding.command == CLEAN


def test_in_a_container_an_unseen_process_makes_it_a_warning() -> None:
    facts = host(
        surroundings=replace(SURROUNDINGS, host_pids=False),
        regions=(region(processes=(process(Owner.DEAD),)),),
    )

    assert only(facts).level is Level.WARNING


def test_regions_of_dead_processes_are_one_finding_with_their_sum() -> None:
    dead = replace(PROBE, alive=False, size=21 << 20)

    finding = only(host(probes=(dead, dead, dead)))

    assert "3 processes under the probe have died; their regions take 63.0 MiB" in finding.text


def test_a_folder_that_dead_regions_have_filled_is_cleaned_before_it_is_made_larger() -> None:
    facts = host(
        folder=FolderFacts("/dev/shm", 64 << 20, 1 << 20),
        probes=(replace(PROBE, alive=False, size=62 << 20),),
    )

    (finding,) = [each for each in examine(facts) if each.kind == "shm_nearly_full"]

    assert finding.command == CLEAN
    assert "remount" in (finding.advice or "")


def test_the_worst_comes_first() -> None:
    facts = host(
        cards=(), folder=FolderFacts("/dev/shm", 1 << 30, 0), remarks=(Remark("more", "words"),)
    )

    assert [finding.level for finding in examine(facts)] == [Level.ERROR, Level.WARNING, Level.INFO]


def test_regions_elsewhere_are_cleaned_where_they_are() -> None:
    folder = FolderFacts("/tmp/my regions", 1 << 34, 1 << 33)

    finding = only(host(folder=folder, regions=(region(GHOST),)))

    assert finding.command == "ttmem clean --shm '/tmp/my regions' --yes"


def test_what_clean_would_refuse_has_another_remedy_and_what_it_would_do_keeps_it() -> None:
    facts = host(regions=(region(GHOST, processes=(process(Owner.DEAD),)),))
    others = LeftAlone(PATH, "tt_device_7_memory: belongs to user eve", "sudo ttmem clean")
    doubtful = LeftAlone(PATH, "tt_device_7_memory: a container uses it", "by force", by_force=True)
    step = RemoveRegion(PATH, (1, 2), b"", ())

    def remedy(plan: Plan) -> tuple[str | None, str | None]:
        (finding,) = examine(facts, plan)
        return finding.command, finding.advice

    assert remedy(Plan((step,), ())) == (CLEAN, None)
    assert remedy(Plan((), (others,))) == (
        "sudo ttmem clean",
        "`ttmem clean` leaves it alone: belongs to user eve",
    )
    assert remedy(Plan((), (doubtful,))) == (
        None,
        "`ttmem clean` leaves it alone: a container uses it",
    )
    assert remedy(Plan((), ())) == (None, None)


@pytest.mark.parametrize("remark", [GHOST, Remark("table_full", "all 64 are in use")])
def test_what_dead_processes_left_in_a_container_is_cleaned_there(remark: Remark) -> None:
    here = region(remark, processes=(process(Owner.DEAD),))
    there = replace(
        here, sample=replace(here.sample, path="/proc/9/root/dev/shm/tt_device_7_memory")
    )

    finding = only(host(regions=(there,)))

    assert finding.level is Level.WARNING
    assert finding.command is None
    assert "run it in that container" in (finding.advice or "")
