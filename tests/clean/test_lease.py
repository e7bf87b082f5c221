"""No process loses a file between the last check and its removal."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.clean.conftest import Mapper
from tests.patience import PATIENCE_S
from ttmem.sources.owned_files import Changed, Use, leased, opened, remove


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    with opened(str(path)) as there, leased(there.descriptor) as lease:
        if lease.use is Use.UNKNOWN:
            pytest.skip("no leases on this file system")
    return path


def test_a_mapping_counts_as_use_though_its_descriptor_is_closed(
    file: Path, mapping: Mapper
) -> None:
    mapping(file)

    with opened(str(file)) as there, leased(there.descriptor) as lease:
        assert lease.use is Use.SOMEBODY


def test_who_opens_the_file_meanwhile_finds_it_where_it_was(file: Path) -> None:
    inode = file.stat().st_ino
    with opened(str(file)) as there, leased(there.descriptor) as lease:
        reader = subprocess.Popen(
            [sys.executable, "-c", f"print(open({str(file)!r}).read())"], stdout=subprocess.PIPE
        )
        deadline = time.monotonic() + PATIENCE_S
        while not lease.somebody_waits() and time.monotonic() < deadline:
            time.sleep(0.01)

        with pytest.raises(Changed, match="is being opened by another process"):
            remove(there, lease)

    assert reader.communicate()[0] == b"text\n"
    assert file.stat().st_ino == inode
    assert [path.name for path in file.parent.iterdir()] == ["file"]
