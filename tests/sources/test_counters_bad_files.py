"""Anything may lie under the name of a region: one line, no crash, no wait, no wrong sum."""

from __future__ import annotations

import os
import pwd
import random
from pathlib import Path

import pytest

from tests.sources.region_writer import Slot, Written
from ttmem.events import Amounts
from ttmem.sources.counters.files import MOST_PER_USER
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import MAX_REMARKS, CounterSource

HELD = (4096, 0, 0, 0, 0)


def _kinds(source: CounterSource) -> list[str]:
    return [remark.kind for remark in source.read().remarks]


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    reading = CounterSource(str(tmp_path / "nowhere")).read()

    assert (reading.devices, [r.kind for r in reading.remarks]) == ((), ["unreadable"])


def test_other_files_are_none_of_our_business(source: CounterSource, tmp_path: Path) -> None:
    (tmp_path / "sem.python").write_bytes(b"x")
    (tmp_path / "tt_device_").write_bytes(b"x")

    assert source.read().remarks == ()


@pytest.mark.parametrize(
    "number", ["", "-1", "007", "1e3", "١٢", "9" * 20, "9" * 200, "0x10", "1\x1b[31m2"]
)
def test_a_name_without_a_chip_id_is_skipped(
    source: CounterSource, tmp_path: Path, number: str
) -> None:
    (tmp_path / f"tt_device_{number}_memory").write_bytes(Written().bytes())

    (remark,) = source.read().remarks

    assert remark.kind == "not_a_region"
    assert remark.text.isprintable()
    assert len(remark.text) < 120


def test_the_largest_chip_id_is_read(source: CounterSource, tmp_path: Path) -> None:
    Written(number=2**64 - 1).write(tmp_path)

    assert [device.unique_id for device in source.read().devices] == [str(2**64 - 1)]


def test_links_pipes_folders_and_giants_are_skipped(source: CounterSource, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(Written(number=1001).bytes())
    (tmp_path / "tt_device_1001_memory").symlink_to(target)
    os.mkfifo(tmp_path / "tt_device_1002_memory")
    (tmp_path / "tt_device_1003_memory").mkdir()
    with (tmp_path / "tt_device_1004_memory").open("wb") as giant:
        giant.truncate(1 << 40)
    (tmp_path / "tt_device_1005_memory").write_bytes(b"")
    (tmp_path / "tt_device_1006_memory").write_bytes(random.Random(1).randbytes(8576))

    reading = source.read()

    assert reading.devices == ()
    assert {remark.text.split(":")[0][10:14]: remark.kind for remark in reading.remarks} == {
        "1001": "not_a_region",
        "1002": "not_a_region",
        "1003": "not_a_region",
        "1004": "unknown_layout",
        "1005": "initialising",
        "1006": "unknown_layout",
    }


def test_ten_thousand_bad_files_do_not_flood_and_hide_no_good_one(
    source: CounterSource, tmp_path: Path
) -> None:
    for number in range(10_000):
        (tmp_path / f"tt_device_{number}_memory").write_bytes(b"garbage")
    Written(number=20_000, slots=[Slot(os.getpid(), HELD)]).write(tmp_path)

    reading = source.read()

    assert [device.in_use for device in reading.devices] == [Amounts(*HELD)]
    assert len(reading.remarks) == MAX_REMARKS
    left_out = 10_000 - MOST_PER_USER
    assert f"{left_out:,} more files tt_device_*_memory of user" in reading.remarks[0].text
    more = MOST_PER_USER + 1 - MAX_REMARKS + 1
    assert reading.remarks[-1].text == f"and {more} more files were skipped"


def test_a_region_that_shrinks_or_vanishes_between_readings_is_survived(
    source: CounterSource, tmp_path: Path
) -> None:
    path = Written(slots=[Slot(os.getpid(), HELD)]).write(tmp_path)
    assert len(source.read().devices) == 1

    os.truncate(path, 100)
    assert _kinds(source) == ["unknown_layout"]
    path.unlink()
    assert (source.read().devices, source.read().remarks) == ((), ())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_region_is_named_with_its_owner(tmp_path: Path) -> None:
    region = Written(number=1001).write(tmp_path)
    region.chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(0o755)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        source = CounterSource(str(tmp_path), scanner=ProcScanner(period_s=float("inf")))
        words = [f"{remark.kind} {remark.text}" for remark in source.read().remarks]
        os.write(writer, "\n".join(words).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)

    assert text.startswith("other_user tt_device_1001_memory: belongs to user root")
