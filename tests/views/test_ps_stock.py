"""`ttmem ps` on hosts with stock ttnn and no server, as a user starts it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.other_user import sleepers
from tests.own_process import finish, printed
from tests.sources.region_writer import Slot, Written

CHIP = 4476187513037
GIB = 1 << 30


def test_the_table_shows_who_holds_what_and_what_cannot_be_seen(tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        Written(CHIP, slots=[Slot(owner.pid, (3 * GIB, 0, 0, 0, 0))]).write(tmp_path)
        done = finish("ps", "--shm", tmp_path)

    assert done.returncode == 0
    assert f" {owner.pid} " in done.stdout
    assert "3.0 GiB" in done.stdout
    assert "sleep 600" in done.stdout
    assert "which miss: buffers of other threads, dataflow buffers" in " ".join(done.stdout.split())


def test_json_has_bytes_and_null_for_what_counters_do_not_tell(tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        Written(CHIP, slots=[Slot(owner.pid, (5000, 0, 0, 0, 0))]).write(tmp_path)
        document = printed("ps", "--shm", tmp_path)

    (device,) = document["devices"]
    assert device["memory"]["dram"]["requested"] == 5000
    assert device["memory"]["dram"]["reserved"] is None
    assert device["kernels"]["loads"] is None
    assert document["processes"][0]["sources"] == ["shared memory v3"]


def test_dump_groups_what_counters_tell(tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        Written(CHIP, slots=[Slot(owner.pid, (5000, 0, 0, 0, 64))]).write(tmp_path)
        done = finish("dump", "--shm", tmp_path, "--json", "--exit-code", "--strict")

    (device,) = json.loads(done.stdout)["devices"]
    assert done.returncode == 1
    assert [(g["kind"], g["requested"], g["held"], g["count"]) for g in device["memory"]] == [
        ("DRAM", 5000, 5000, None),  # the counters are of requested bytes
        ("CB", None, 64, None),
    ]


def test_dump_says_that_counters_are_of_requested_bytes(tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        Written(CHIP, slots=[Slot(owner.pid, (5000, 0, 0, 0, 64))]).write(tmp_path)
        done = finish("dump", "--shm", tmp_path)

    assert "device 0: requested bytes, from the counters of stock ttnn" in done.stdout


def test_a_named_socket_is_asked_and_nothing_else(tmp_path: Path) -> None:
    Written(CHIP).write(tmp_path)
    path = tmp_path / "none.sock"
    done = finish("ps", "--socket", str(path), TTMEM_SHM=str(tmp_path))

    assert done.returncode == 3
    assert f"start one with `ttmem serve --socket {path}`" in done.stderr
    assert done.stdout == ""


def test_a_device_that_is_not_there_does_not_make_the_others_vanish(tmp_path: Path) -> None:
    Written(CHIP).write(tmp_path)
    done = finish("top", "--shm", tmp_path, "--devices", "55", "--once")

    assert "not there (yet): device 55" in done.stdout
    assert "no region of stock ttnn" not in done.stdout


def test_contradicting_options_are_refused(tmp_path: Path) -> None:
    both = finish("ps", "--socket", "/nowhere", "--shm", tmp_path)
    missing = finish("ps", "--shm", str(tmp_path / "missing"))

    assert (both.returncode, missing.returncode) == (2, 2)
    assert "give one of them" in both.stderr
    assert "is not a directory" in missing.stderr


def test_in_a_pipe_a_long_command_has_the_room_that_columns_says(tmp_path: Path) -> None:
    long = ["sleep", "600", *["0" * 40] * 5]
    with subprocess.Popen(long) as owner:
        try:
            Written(CHIP, slots=[Slot(owner.pid, (GIB, 0, 0, 0, 0))]).write(tmp_path)
            cut = finish("ps", "--shm", tmp_path, COLUMNS="")
            whole = finish("ps", "--shm", tmp_path, COLUMNS="400")
        finally:
            owner.kill()

    assert " ".join(long) not in cut.stdout
    assert " ".join(long) in whole.stdout
