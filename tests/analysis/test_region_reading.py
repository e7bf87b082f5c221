"""The picture of a process is made of what its region has kept of each moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.feeds.test_probe_feed import L1_SMALL_SIZE, forge_device
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from ttmem.analysis.peaks import Setting, peaks
from ttmem.analysis.region_reading import RegionReading
from ttmem.events.kinds import MemoryKind


def test_a_peak_keeps_its_size_when_the_device_is_opened_again_with_another(
    watch: Callable[..., Watched],
) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 3, 960, 960); say('done'); input()")
    process.wait_for("done")

    forge_device(Path(process.region().path), L1_SMALL_SIZE, 512)  # as the next opening does
    found = peaks(RegionReading(process.region()).picture().devices)

    (small,) = [one for one in found if one.high_water.kind is MemoryKind.L1_SMALL]
    assert small.size == 110 * 32_768
    assert small.setting == Setting("l1_small_size", 32_768, 960)
