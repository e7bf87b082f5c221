"""In a shared directory, only the file that was checked is removed, and only if no process uses it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from tests.other_user import give_away, needs_root
from ttmem.sources.owned_files import Key, Use, leased, opened, remove_own


def key_of(path: Path) -> Key:
    status = path.stat()
    return status.st_dev, status.st_ino


@pytest.fixture
def region(tmp_path: Path) -> Path:
    path = tmp_path / "ttmem_7_7"
    path.write_bytes(b"region")
    return path


def test_the_file_that_was_judged_is_removed(region: Path) -> None:
    assert remove_own(str(region), key_of(region))
    assert list(region.parent.iterdir()) == []


def test_a_file_that_took_its_place_stays(region: Path) -> None:
    judged = key_of(region)
    other = region.with_name("other")
    other.write_bytes(b"other")
    os.replace(other, region)

    assert not remove_own(str(region), judged)
    assert region.read_bytes() == b"other"


def test_what_a_link_leads_to_stays(region: Path) -> None:
    judged, kept = key_of(region), region.with_name("kept")
    region.rename(kept)
    region.symlink_to(kept)

    assert not remove_own(str(region), judged)
    assert kept.read_bytes() == b"region"


def test_a_file_that_somebody_maps_stays_whatever_container_that_is(region: Path) -> None:
    with opened(str(region)) as file, leased(file.descriptor) as lease:
        if lease.use is Use.UNKNOWN:
            pytest.skip("no leases on this file system")
    with region.open("r+b") as open_file:
        mapped = mmap.mmap(open_file.fileno(), 0)

    assert not remove_own(str(region), key_of(region))
    mapped.close()
    assert remove_own(str(region), key_of(region))


@needs_root
def test_the_file_of_another_user_stays_though_root_could_remove_it(region: Path) -> None:
    give_away(region)

    assert not remove_own(str(region), key_of(region))
    assert region.exists()
