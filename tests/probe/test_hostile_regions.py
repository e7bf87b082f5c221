"""Whatever a region claims, reading it costs in proportion to its size, and no other figures change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.doctor.hosts import write_probe_region
from tests.other_user import OTHER, give_away, needs_root
from tests.probe.watched import Watched
from ttmem.events import Remark
from ttmem.feeds import LocalFeed
from ttmem.ledger import Books
from ttmem.probe import layout
from ttmem.probe.layout import Section
from ttmem.sources.listing import NAMES_PER_STEP
from ttmem.sources.probe.ended import ended_processes, final_news
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import (
    MOST_PER_USER,
    RegionScan,
    TooMuch,
    find_regions,
)
from ttmem.sources.probe.watcher import ProbeWatcher

Watch = Callable[..., Watched]
HOLDS = "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4000)"
BLOCK = 512 * 8
MESH_FULL = "mesh = lib.mesh_open(64)\nfor n in range(65000): buffer(mesh, n, 0, 4000)"


def region_of(process: Watched) -> Path:
    pid = process.process.pid
    (path,) = [name.path for name in find_regions(str(process.folder)) if name.pid == pid]
    return Path(path)


def waiting(watch: Watch, script: str) -> Watched:
    """It is through with the script, and lives."""
    process = watch(script + "\nsay('made'); input()")
    process.wait_for("made")
    return process


def killed(process: Watched) -> Path:
    process.process.send_signal(signal.SIGKILL)
    process.process.wait()
    return region_of(process)


def place_of(data: bytes | bytearray, section: Section) -> tuple[int, int, int]:
    place: tuple[int, int, int] = layout.SECTION.unpack_from(
        data, layout.SECTIONS_AT + section * layout.SECTION.size
    )
    return place


def with_empty_ring(path: Path) -> None:
    """Every event has its number, and none was ever written."""
    data = bytearray(path.read_bytes())
    offset, count, stride = place_of(data, Section.RING)
    data[offset : offset + count * stride] = bytes(count * stride)
    data[layout.TICKETS_AT : layout.TICKETS_AT + 8] = count.to_bytes(8, "little")
    path.write_bytes(data)


def grown(path: Path, section: Section, count: int) -> None:
    """The section lies at the end of the file now, has `count` records, and takes no space."""
    with path.open("r+b") as file:
        data = file.read(layout.HEADER_SIZE)
        at = (os.fstat(file.fileno()).st_size + 4095) // 4096 * 4096
        _, _, stride = place_of(data, section)
        file.seek(layout.SECTIONS_AT + section * layout.SECTION.size)
        file.write(layout.SECTION.pack(at, count, stride))
        file.seek(16)
        file.write((at + count * stride).to_bytes(8, "little"))
        file.truncate(at + count * stride)


@contextmanager
def reading_at_most(limit: int) -> Iterator[None]:
    before = bytes_read()
    yield
    assert bytes_read() - before < limit


def bytes_read() -> int:
    """By this process, from the beginning."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("rchar:") + 1])


def peak_of(*arguments: str) -> tuple[int, str]:
    """(the most memory that a `ttmem` command took, what it printed)."""
    child = subprocess.Popen(
        [sys.executable, "-m", "ttmem", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout:
        said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_maxrss * 1024, said


def test_an_empty_ring_of_a_dead_process_is_read_once(done: Watch) -> None:
    path = killed(done(HOLDS))
    with_empty_ring(path)

    with closing(ProbeRegion(str(path))) as region, reading_at_most(3 * path.stat().st_size):
        batch = region.new_events()

    assert (batch.events, batch.lost, batch.more) == (b"", 1 << 17, False)


def test_an_empty_ring_hides_nothing_of_what_a_dead_process_held(
    done: Watch, tmp_path: Path
) -> None:
    path = killed(done(HOLDS))
    with_empty_ring(path)

    with reading_at_most(8 * path.stat().st_size):
        (ended,) = ended_processes(str(tmp_path))
        words = final_news(str(path))

    assert words is not None
    assert [len(update.live or b"") for update in (ended.news, words)] == [64, 64]


def test_holes_in_a_file_are_not_read(done: Watch, tmp_path: Path) -> None:
    path = killed(done(HOLDS))
    size = path.stat().st_size
    grown(path, Section.RING, 1 << 24)
    grown(path, Section.LIVE_KEYS, 1 << 24)
    grown(path, Section.LIVE, 1 << 24)
    with path.open("r+b") as file:
        file.seek(layout.TICKETS_AT)
        file.write((1 << 40).to_bytes(8, "little"))

    with reading_at_most(3 * size), closing(ProbeRegion(str(path))) as region:
        lost, more = 0, True
        while more:
            batch = region.new_events()
            lost, more = lost + batch.lost, batch.more
        live = region.live()

    assert path.stat().st_size > 3 << 30
    assert (lost, live) == (1 << 40, [])


def test_a_live_process_with_a_ring_of_another_is_read_on_in_pieces(
    done: Watch, tmp_path: Path
) -> None:
    path = killed(done("mesh = lib.mesh_open(64); lib.churn(mesh, 1, 20_000)"))

    pieces, more = [], True
    with closing(ProbeRegion(str(path))) as region:
        while more:
            batch = region.new_events()
            pieces.append(len(batch.events))
            more = batch.more

    assert (
        sum(pieces) == 64 * (40_000 * 64) + 64 * 64
    )  # one event for each chip, and of its opening
    assert max(pieces) < (8 << 20) + 64 * 64


def test_texts_that_share_their_bytes_are_not_reported_a_thousand_times(done: Watch) -> None:
    path = killed(
        done(
            "from ttmem import phase; mesh = lib.mesh_open(1)\n"
            "with phase('x' * 200): buffer(mesh, 1, 0, 4000)"
        )
    )
    data = bytearray(path.read_bytes())
    offset, count, stride = place_of(data, Section.STRINGS)
    _, room, _ = place_of(data, Section.TEXT)
    known = [data[offset + i * stride : offset + (i + 1) * stride] for i in range(1, 32)]
    longest = max(known, key=lambda record: int(layout.STRING.unpack(record)[2]))
    assert layout.STRING.unpack(longest)[2] * count > room
    data[offset : offset + count * stride] = longest * count
    data[layout.STRINGS_AT : layout.STRINGS_AT + 4] = count.to_bytes(4, "little")
    path.write_bytes(data)

    with closing(ProbeRegion(str(path))) as region:
        texts = region.new_strings()

    assert 0 < sum(map(len, texts.values())) <= room


def test_a_region_that_claims_more_than_its_size_allows_costs_little_and_is_not_counted(
    watch: Watch, tmp_path: Path
) -> None:
    waiting(watch, HOLDS)
    usual, _ = peak_of("ps", "--json", "--shm", str(tmp_path))
    full = region_of(waiting(watch, MESH_FULL))

    peak, said = peak_of("ps", "--json", "--shm", str(tmp_path))

    picture = json.loads(said)
    assert sum(device["memory"]["dram"]["reserved"] for device in picture["devices"]) == BLOCK
    assert len(picture["processes"]) == 1
    assert picture["left_behind"] == []
    assert [str(full) in remark["text"] for remark in picture["remarks"]] == [True]
    assert peak - usual < 5 * full.stat().st_size
    with closing(ProbeRegion(str(full))) as region, pytest.raises(TooMuch, match="of user "):
        region.live()


def test_all_regions_of_one_user_leave_space_for_those_of_others(
    watch: Watch, tmp_path: Path
) -> None:
    books = Books(max_live=2000)
    first = waiting(watch, "mesh = lib.mesh_open(8)\nfor n in range(100): buffer(mesh, n, 0, 4000)")
    waiting(watch, "mesh = lib.mesh_open(8)\nfor n in range(100): buffer(mesh, n, 0, 4000)")

    with closing(ProbeWatcher(str(tmp_path))) as watcher:
        books.probed.take(watcher.read().news, 1)
        books.probed.take(watcher.read().news, 1)
        faulty = books.probed.take_faulty()

    assert len(faulty) == 1
    assert books.native.live() == 800
    (told,) = [anomaly.text for anomaly in books.omissions.anomalies()]
    assert "the limit per user is 1,000" in told
    assert str(first.folder) in told


def test_only_so_many_regions_of_one_user_are_looked_at_and_remarked_on(
    watch: Watch, tmp_path: Path
) -> None:
    for pid in range(1, MOST_PER_USER + 100):
        (tmp_path / f"ttmem_{pid}_1").write_bytes(b"none" * 2000)

    with closing(LocalFeed(str(tmp_path))) as feed:
        remarks = [anomaly.text for anomaly in feed.read().remarks]

    assert len(remarks) == 10
    assert f"{MOST_PER_USER - 8} more regions of user" in remarks[8]
    assert "99 more files ttmem_* of user" in remarks[9]
    assert len(list(find_regions(str(tmp_path)))) == MOST_PER_USER


@needs_root
def test_files_of_one_user_hide_no_region_of_another(watch: Watch, tmp_path: Path) -> None:
    for pid in range(1, 2 * MOST_PER_USER):
        path = tmp_path / f"ttmem_{pid}_1"
        path.write_bytes(b"none" * 2000)
        give_away(path)
    process = waiting(watch, HOLDS)

    with closing(LocalFeed(str(tmp_path))) as feed:
        picture = feed.read()

    assert [device.memory.dram.held for device in picture.devices] == [BLOCK]
    assert [process.pid for process in picture.processes] == [process.process.pid]
    assert all(OTHER in remark.text or "ttmem_" in remark.text for remark in picture.remarks)
    assert len(picture.remarks) <= 10


def test_a_large_folder_is_walked_through_step_by_step(tmp_path: Path) -> None:
    scan = RegionScan(str(tmp_path))
    assert scan.look().found == {}
    for number in range(NAMES_PER_STEP + 10):
        (tmp_path / f"other_{number}").touch()
    path = write_probe_region(tmp_path, 5)

    looks = [scan.look().found for _ in range(2)]
    path.unlink()
    later = [scan.look().found for _ in range(4)]

    assert str(path) in looks[1]
    assert later[-1] == {}


@needs_root
@pytest.mark.parametrize("owner", [None, OTHER])
def test_of_another_user_only_some_regions_of_ended_processes_are_read(
    done: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str | None
) -> None:
    monkeypatch.setattr("ttmem.sources.probe.ended.MOST_SECONDS_OF_OTHERS", 1e-9)
    for _ in range(3):
        path = killed(done(HOLDS))
        if owner is not None:
            give_away(path)

    remarks: list[Remark] = []
    found = list(ended_processes(str(tmp_path), remarks))

    read = 3 if owner is None else 1
    assert (len(found), len(remarks)) == (read, 3 - read)
    assert all("is not read" in remark.text for remark in remarks)
