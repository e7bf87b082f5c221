"""The prototypes' kernel counters, from the region to every view: apart from all sums."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sources.region_writer import Slot, Written
from ttmem.feeds import LocalFeed

HELD = (5 << 30, 2 << 20, 0, 22 << 20, 29 << 20)
KERNELS = 53 << 20
NUMBER = 469504


@pytest.fixture(autouse=True)
def _region(tmp_path: Path) -> None:
    slots = [Slot(os.getpid(), HELD, kernels=KERNELS)]
    Written(number=NUMBER, version=1, kernel_size=9280, slots=slots).write(tmp_path)


def said(folder: Path, *command: str, width: int = 120) -> str:
    words: Sequence[str] = (sys.executable, "-m", "ttmem", *command, "--shm", str(folder))
    environment = {**os.environ, "COLUMNS": str(width)}
    return subprocess.run(words, capture_output=True, text=True, env=environment).stdout


def test_they_are_in_no_sum(tmp_path: Path) -> None:
    picture = LocalFeed(str(tmp_path)).read()

    (device,) = picture.devices
    (process,) = picture.processes
    assert device.l1_used == HELD[1] + HELD[4]
    assert process.devices[str(NUMBER)].l1_used == device.l1_used
    assert device.kernels.counted == KERNELS
    assert process.kernels_counted == {str(NUMBER): KERNELS}
    assert device.kernels.footprint.total is None
    assert "not part of L1" in device.provenance["kernels"].method
    assert device.anomalies == ()


def test_circular_buffers_are_counted_by_a_method_that_nobody_knows(tmp_path: Path) -> None:
    (device,) = LocalFeed(str(tmp_path)).read().devices

    cb = device.memory.cb
    assert (cb.used, cb.cached, cb.resident, cb.demand) == (HELD[4], None, None, None)
    assert "CB 29.0 MiB mixed" in said(tmp_path, "ps")


def test_ps_and_its_json_show_them(tmp_path: Path) -> None:
    (device,) = json.loads(said(tmp_path, "ps", "--json"))["devices"]

    assert (device["kernels"]["counted"], device["l1_used"]) == (KERNELS, HELD[1] + HELD[4])
    assert "COUNTED" in said(tmp_path, "ps")
    assert "counted 53.0 MiB" in said(tmp_path, "ps", width=60)


def test_top_shows_them_on_the_page_of_the_device(tmp_path: Path) -> None:

    assert "counted 53.0 MiB" in said(tmp_path, "top", "--once", "--page", "device")


def test_doctor_names_the_layout(tmp_path: Path) -> None:
    (region,) = json.loads(said(tmp_path, "doctor", "--json"))["regions"]

    assert (region["version"], region["kernel_counters"], region["size"]) == (1, True, 9280)
    assert "layout 1 with kernel counters" in said(tmp_path, "doctor")
