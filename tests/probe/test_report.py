"""The picture of a process is made of what its region has kept of each moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.feeds.test_probe_feed import L1_SMALL_SIZE, forge_device
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from ttmem.analysis.failures import explain
from ttmem.analysis.peaks import Setting, peaks
from ttmem.events import MemoryKind
from ttmem.sources.probe.report import ReportReader
from ttmem.views.failures import render_failure


def test_a_peak_keeps_its_size_when_the_device_is_opened_again_with_another(
    watch: Callable[..., Watched],
) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 3, 960, 960); say('done'); input()")
    process.wait_for("done")

    forge_device(Path(process.region().path), L1_SMALL_SIZE, 512)  # as the next opening does
    found = peaks(ReportReader(process.region()).report().devices)

    (small,) = [one for one in found if one.high_water.kind is MemoryKind.L1_SMALL]
    assert small.size == 110 * 32_768
    assert small.setting == Setting("l1_small_size", 32_768, 960)


def test_who_held_what_when_an_allocation_failed_is_not_told_of_another_moment(
    watch: Callable[..., Watched],
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 2 << 40); buffer(mesh, 2, 0, 4000)\n"
        "say('known'); input(); lib.churn(mesh, 100, 200); say('lost'); input()",
        TTMEM_EVENTS="64",
    )

    told = []
    for word in ("known", "lost"):
        process.wait_for(word)
        reading = ReportReader(process.region())
        (failure,) = reading.failures(0)
        told.append(render_failure(1, explain(failure), width=120, color=False))
        process.go_on()

    assert "held by    nothing that the probe has seen" in told[0]
    assert "free       4.0 GiB" in told[0]
    assert "held now   4.0 KiB" in told[1]
    assert "free       N/A" in told[1]
