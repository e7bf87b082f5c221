"""Facts come from real files, sockets and processes."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import pytest

from tests.doctor.hosts import SIZE, write_probe_region
from ttmem.procfs import start_time_ns
from ttmem.sources.host import card_facts, driver_version, probe_facts, proc_hides, runtimes_in_use
from ttmem.sources.socket.listener import SocketState, knock


def _mapped(path: Path) -> mmap.mmap:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(4096))
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)


def test_the_version_of_a_loaded_ttnn_is_that_beside_its_module(tmp_path: Path) -> None:
    packages = tmp_path / "site packages"
    (packages / "ttnn-0.81.1.dist-info").mkdir(parents=True)

    with _mapped(packages / "ttnn" / "_ttnn.cpython-312-x86_64-linux-gnu.so"):
        found = [use for use in runtimes_in_use() if os.getpid() in use.pids]

    assert [(use.version, use.path) for use in found] == [("0.81.1", str(packages))]


def test_a_runtime_without_a_wheel_has_no_version(tmp_path: Path) -> None:
    with _mapped(tmp_path / "build" / "libtt_metal.so"):
        found = [use for use in runtimes_in_use() if os.getpid() in use.pids]

    assert [(use.version, use.path) for use in found] == [(None, str(tmp_path / "build"))]


def test_what_is_at_a_socket_shows_by_knocking(tmp_path: Path) -> None:
    served, stale, plain = tmp_path / "served", tmp_path / "stale", tmp_path / "plain"
    plain.write_text("mine")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(stale))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(served))
        listening.listen()
        facts = knock(str(served))

    assert (facts.state, facts.server_pid) == (SocketState.SERVED, os.getpid())
    assert knock(str(stale)).state is SocketState.STALE
    assert knock(str(plain)).state is SocketState.NO_SOCKET
    assert knock(str(tmp_path / "absent")).state is SocketState.ABSENT
    assert knock(str(tmp_path / ("x" * 300))).state is SocketState.UNKNOWN


def test_cards_of_the_driver_meet_their_device_files(tmp_path: Path) -> None:
    sysfs, nodes = tmp_path / "sysfs", tmp_path / "nodes"
    for number in (0, 1, 10, 2):
        (sysfs / f"tenstorrent!{number}").mkdir(parents=True)
        (sysfs / f"tenstorrent!{number}" / "tt_card_type").write_text("p150a\n")
    nodes.mkdir()
    (nodes / "0").touch()
    (nodes / "by-id").mkdir()

    found = card_facts(str(sysfs), str(nodes))

    assert [card.name for card in found] == ["0", "1", "2", "10"]
    assert [card.node for card in found] == [str(nodes / "0"), None, None, None]
    assert [card.usable for card in found] == [True, None, None, None]


def test_without_a_driver_there_is_no_version(tmp_path: Path) -> None:
    assert driver_version(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ("rw", False),
        ("rw,hidepid=0", False),
        ("rw,hidepid=2", True),
        ("rw,hidepid=invisible", True),
    ],
)
def test_hidepid_is_read_from_the_mounts(options: str, hides: bool) -> None:
    mounts = f"tmpfs /dev tmpfs rw 0 0\nproc /proc proc {options} 0 0\nbroken\n"

    assert proc_hides(mounts.encode()) is hides


def test_a_probe_region_describes_its_process_and_garbage_is_explained(tmp_path: Path) -> None:
    write_probe_region(tmp_path, os.getpid())
    (tmp_path / "ttmem_1_1").write_bytes(b"nonsense")

    garbage, sound = sorted(probe_facts(str(tmp_path)), key=lambda facts: facts.size)

    assert start_time_ns(os.getpid()) is not None
    assert (sound.pid, sound.size, sound.alive, sound.problem) == (os.getpid(), SIZE, False, None)
    assert garbage.problem is not None
