"""Which feed is opened, and the error if there is nothing to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.doctor.hosts import write_probe_region
from tests.server.harness import OldClient, RunningServer
from tests.sources.region_writer import Slot, Written
from ttmem import api
from ttmem.errors import BadInput, ClosedToYou, NoServer, TtmemError
from ttmem.feeds import HostFeed, LocalFeed, ServerFeed, open_feed
from ttmem.snapshots import Question
from ttmem.wire import socket_path

CHIP = 4476187513037


@pytest.fixture
def usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a server usually listens; no real one of this machine is asked."""
    place = tmp_path / "allocation.sock"
    monkeypatch.delenv("TTMEM_SOCKET", raising=False)
    monkeypatch.setattr(socket_path, "DEFAULT_SOCKET", str(place))
    return place


@pytest.fixture
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's shared memory, for the test."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setenv("TTMEM_SHM", str(folder))
    return folder


def test_a_named_socket_is_that_server_and_a_named_folder_is_read(
    tmp_path: Path, usual_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(open_feed(socket="/nowhere"), ServerFeed)
    assert isinstance(open_feed(shm=str(tmp_path)), LocalFeed)
    assert isinstance(open_feed(), HostFeed)
    with pytest.raises(BadInput, match="give one of them"):
        open_feed("/nowhere", str(tmp_path))
    with pytest.raises(BadInput, match="is not a directory"):
        open_feed(shm=str(tmp_path / "missing"))

    monkeypatch.setenv("TTMEM_SOCKET", "/nowhere")
    assert isinstance(open_feed(), ServerFeed)


@pytest.mark.parametrize("variable", ["TTMEM_SHM", "TTMEM_REGION_DIR"])
def test_a_variable_that_names_no_folder_is_as_wrong_as_the_option(
    usual_place: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "/nowhere")

    with pytest.raises(BadInput, match=f"{variable}=/nowhere is not a directory"):
        open_feed()


def test_a_folder_with_nothing_to_read_is_the_same_by_option_and_by_variable(
    usual_place: Path, shm: Path
) -> None:
    for feed in (open_feed(), open_feed(shm=str(shm))):
        with pytest.raises(NoServer, match=f"tt_device_.*_memory in {shm}") as caught:
            feed.read()
        assert caught.value.exit_code == 3


def test_where_all_watched_processes_have_ended_the_dump_is_named(
    usual_place: Path, shm: Path
) -> None:
    write_probe_region(shm, (1 << 22) - 1)  # no process has that pid

    for feed in (open_feed(), open_feed(shm=str(shm))):
        with pytest.raises(NoServer, match="have ended; `ttmem dump` has what they never freed"):
            feed.read()


def test_an_empty_name_is_not_taken_for_none() -> None:
    with pytest.raises(BadInput, match="names no socket"):
        open_feed(socket="")
    with pytest.raises(BadInput, match="is not a directory"):
        open_feed(shm="")


def test_nothing_to_read_says_what_is_missing_and_what_to_do(usual_place: Path, shm: Path) -> None:
    with pytest.raises(NoServer) as caught:
        open_feed().read()

    assert "try `ttmem run -- python model.py`" in str(caught.value)
    assert f"tt_device_*_memory in {shm}" in str(caught.value)


def test_shared_memory_serves_until_a_server_comes_and_after_it_has_gone(
    tmp_path: Path, usual_place: Path, shm: Path
) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(shm)
    feed = open_feed()
    assert feed.read().devices[0].memory.dram.held == 5000
    assert feed.name == f"shared memory {shm}"

    server = RunningServer(tmp_path).wait_ready()
    try:
        assert "server" in feed.read().host
        assert feed.name == f"server {usual_place}"
    finally:
        server.stop()
    with pytest.raises(TtmemError, match="closed the connection"):
        feed.read()  # a watcher says so, and tries anew
    assert feed.read().devices[0].memory.dram.held == 5000
    feed.close()


def test_the_server_has_both_as_one_picture(tmp_path: Path, usual_place: Path, shm: Path) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(shm)
    server = RunningServer(tmp_path).wait_ready()
    try:
        with OldClient(server.path) as client:
            client.alloc(4096, id=1, kind=0)
            picture = server.sees(lambda p: any(process.cross_check for process in p.processes))
    finally:
        server.stop()

    (device,) = picture.devices
    assert (device.unique_id, device.memory.dram.held) == (str(CHIP), 4096)


def test_a_server_that_is_closed_to_you_is_said_beside_what_can_be_read(
    usual_place: Path, shm: Path
) -> None:
    problem = ClosedToYou("the socket belongs to somebody else")

    class Closed(ServerFeed):
        def answer(self, question: Question) -> NoReturn:
            raise problem

    feed = HostFeed(Closed())
    with pytest.raises(ClosedToYou, match="no process has opened a device"):
        feed.read()
    Written(CHIP).write(shm)
    assert [remark.text for remark in feed.read().remarks] == [str(problem)]


def test_a_number_that_several_devices_have_is_no_name(usual_place: Path, shm: Path) -> None:
    for chip in (CHIP, CHIP + 1):
        Written(chip, slots=[Slot(os.getppid(), (5000, 0, 0, 0, 0))]).write(shm)

    with pytest.raises(BadInput, match=f"2 devices have the logical id 0.*: {CHIP}, {CHIP + 1}"):
        api.memory_allocated(0, process="all")

    assert api.memory_allocated(str(CHIP), process="all") == 5000


def test_a_number_that_several_devices_have_is_the_one_that_this_process_uses(
    usual_place: Path, shm: Path
) -> None:
    Written(CHIP, slots=[Slot(os.getppid(), (5000, 0, 0, 0, 0))]).write(shm)
    Written(CHIP + 1, slots=[Slot(os.getpid(), (7000, 0, 0, 0, 0))]).write(shm)

    assert api.memory_allocated(0, process="all") == 7000


def test_python_programs_need_no_server_either(usual_place: Path, shm: Path) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(shm)

    assert api.snapshot().devices[0].unique_id == str(CHIP)
    assert api.memory_allocated(str(CHIP), process="all") == 5000
    with pytest.raises(NoServer):  # one look is no peak
        api.max_memory_allocated(str(CHIP), process="all")


class _Mesh:
    """What ttmem asks a mesh of ttnn."""

    def __init__(self, *ids: int) -> None:
        self._ids = ids

    def get_device_ids(self) -> list[int]:
        return list(self._ids)


def test_a_device_of_ttnn_is_known_by_its_id(usual_place: Path, shm: Path) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(shm)

    assert api.memory_allocated(_Mesh(0), "DRAM", process="all") == 5000
    with pytest.raises(BadInput, match="the mesh has 2 devices; ask for one of them: 0, 1"):
        api.memory_allocated(_Mesh(0, 1))


@pytest.mark.parametrize("device", [3.5, None, True, object()])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(BadInput, match="device is a device of ttnn, a logical id"):
        api.memory_allocated(device)
