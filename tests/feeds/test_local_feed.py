"""Snapshots without a server: the regions of a directory, read again each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.other_user import sleepers
from tests.sources.region_writer import Slot, Written
from ttmem.errors import BadInput
from ttmem.feeds import LocalFeed
from ttmem.snapshots import from_json, to_json

CHIP = 4476187513037


def test_a_stock_process_is_seen_with_what_it_asked_for(tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        Written(CHIP, slots=[Slot(owner.pid, (5000, 300, 20, 7, 64))]).write(tmp_path)
        picture = LocalFeed(str(tmp_path)).read()

    (device,), (process,) = picture.devices, picture.processes
    assert device.unique_id == str(CHIP)
    assert (device.memory.dram.requested, device.memory.dram.reserved) == (5000, None)
    assert device.l1_used == 300 + 20 + 64
    assert (process.pid, process.command) == (owner.pid, "sleep 600")
    assert process.sources == ("shared memory v3",)
    assert picture.host["shared_memory"] == str(tmp_path)
    assert from_json(to_json(picture)) == picture


def test_a_killed_process_is_gone_at_the_next_look_and_the_others_are_exact(tmp_path: Path) -> None:
    with sleepers(3) as owners:
        slots = [Slot(o.pid, (1000 * (n + 1), 0, 0, 0, 0)) for n, o in enumerate(owners)]
        Written(CHIP, slots=slots).write(tmp_path)
        feed = LocalFeed(str(tmp_path))
        assert feed.read().devices[0].memory.dram.held == 6000

        owners[1].kill()
        owners[1].wait()
        picture = feed.read()

    assert picture.devices[0].memory.dram.held == 4000
    assert {p.pid for p in picture.processes} == {owners[0].pid, owners[2].pid}
    (ghost,) = picture.left_behind
    assert (ghost.pid, ghost.ghost, ghost.died_ns) == (owners[1].pid, True, picture.time_ns)
    assert ghost.command == "sleep 600"  # as while it lived: its slot only has a name


def test_it_keeps_a_history_but_knows_no_peak_of_counters(tmp_path: Path) -> None:
    feed = LocalFeed(str(tmp_path))
    with sleepers(1) as (owner,):
        for dram in (900, 50):
            Written(CHIP, slots=[Slot(owner.pid, (dram, 0, 0, 0, 0))]).write(tmp_path)
            picture = feed.read(["history"])

    history = (picture.history or {})[str(CHIP)]
    assert history.dram[0] == 900
    assert len(history.dram) == len(history.time_ns)
    (device,) = picture.devices
    use = device.memory.dram
    assert (use.held, use.peak, use.peak_time_ns, device.l1_peak) == (50, None, None, None)


def test_counters_have_no_other_details(tmp_path: Path) -> None:
    Written(CHIP).write(tmp_path)
    feed = LocalFeed(str(tmp_path))

    snapshot = feed.read(["buffers", "programs", "cores", "events"])
    assert snapshot == snapshot.without_details()
    with pytest.raises(BadInput, match="no detail 'bufers'"):
        feed.read(["bufers"])


def test_a_folder_without_regions_is_an_empty_picture(tmp_path: Path) -> None:
    picture = LocalFeed(str(tmp_path)).read()

    assert (picture.devices, picture.processes, picture.remarks) == ((), (), ())


def test_what_cannot_be_read_is_a_remark(tmp_path: Path) -> None:
    (tmp_path / f"tt_device_{CHIP}_memory").write_bytes(b"\x09" * 8576)
    picture = LocalFeed(str(tmp_path)).read()

    assert picture.devices == ()
    assert [str(CHIP) in remark.text for remark in picture.remarks] == [True]
