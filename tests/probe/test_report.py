"""The report of a process is made from what its region kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.feeds.test_probe_feed import L1_SMALL_SIZE, forge_device
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from ttmem.analysis.failures import explain
from ttmem.events import MemoryKind
from ttmem.probe.report import Setting, peaks
from ttmem.sources.probe.report import ReportReader, RingHistory
from ttmem.views.analysis.failures import render_failure


def test_a_peak_keeps_its_size_when_the_device_is_opened_again_with_another(
    watch: Callable[..., Watched],
) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 3, 960, 960); say('done'); input()")
    process.wait_for("done")

    forge_device(Path(process.region().path), L1_SMALL_SIZE, 512)  # as the next opening does
    found = peaks(ReportReader(process.region()).report().devices)

    (small,) = [peak for peak in found if peak.high_water.kind is MemoryKind.L1_SMALL]
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


def test_what_changes_while_a_report_is_read_does_not_change_who_held_what(
    watch: Callable[..., Watched],
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); one, two, three = [buffer(mesh, n, 0, 4000) for n in (1, 2, 3)]\n"
        "say('three'); input(); lib.buffer_free(one); lib.buffer_free(two); buffer(mesh, 4, 0, 4000)\n"
        "buffer(mesh, 9, 0, 2 << 40); lib.buffer_free(three); say('failed'); input()"
    )
    process.wait_for("three")
    region = process.region()
    before, live = region.latest_events(), region.live()
    process.go_on()
    process.wait_for("failed")

    history = RingHistory(before, live, region.new_events())

    (failure,) = region.failures()
    held = history.at_failure(failure.time_ns)
    assert held is not None
    assert len(live) == 3
    assert len(held[0]) == 2  # the third and the fourth
    assert len(history.now()) == 1
