"""The monitor's memory stays flat; `make soak` takes an hour, this some seconds."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.soak import MOST, growth

from tests.views.servers import reporting, serving
from ttmem.wire.historical import Head, Message


def test_hundreds_of_pictures_do_not_make_it_grow(tmp_path: Path) -> None:
    weights = Head(Message.ALLOC, 0, 64 << 20, 0, os.getpid(), 0x1000)
    with serving(tmp_path / "s", "--board", "n300"), reporting(tmp_path / "s", weights):
        assert growth(str(tmp_path / "s"), 12.0) < MOST
