"""What a reader of watched processes has not seen is unknown, never 0, and reported as missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.probe.watched import DISPATCHING, Watched
from ttmem.feeds import LocalFeed
from ttmem.snapshots import Program, Snapshot
from ttmem.views.names import DeviceNames
from ttmem.views.notes import anomaly_notes, late_notes, loss_notes

Watch = Callable[..., Watched]
BLOCK = 512 * 8  # of every buffer that these scripts make in DRAM
FEW = "64"  # events or live things: the fewest that a region has room for
CHURN = "\nlib.churn(mesh, 1000, 200)"
EVENTS_OF_CHURN = 400
DISPATCH = (
    DISPATCHING
    + """
mesh = lib.mesh_open(1)
program = lib.program_make(6, mesh, 2048, 2)
lib.program_add_kernel(program, b"reader", 3000)
workload = lib.workload_make(mesh, program, None)
for time in range(3): lib.workload_enqueue(workload)
"""
)


def started(watch: Watch, *steps: str, **variables: str) -> Watched:
    """Waits after each step until it is told to go on."""
    script = "\n".join(f"{step}\nsay('done'); input()" for step in steps)
    process = watch(script, **variables)
    process.wait_for("done")
    return process


def go_on(process: Watched) -> None:
    process.go_on()
    process.wait_for("done")


def program(picture: Snapshot) -> Program:
    (row,) = picture.programs or ()
    return row


def said(picture: Snapshot) -> str:
    return "\n".join(
        note.text
        for note in (*anomaly_notes(picture, DeviceNames(picture.devices)), *loss_notes(picture))
    )


def test_a_late_reader_knows_the_peaks_that_the_probe_has_counted(
    watch: Watch, feed: LocalFeed
) -> None:
    big = "lib.buffer_free(buffer(mesh, 1, 1, 4000, 4096))"
    started(watch, f"mesh = lib.mesh_open(1); {big}{CHURN}", TTMEM_EVENTS=FEW)

    (device,) = feed.read().devices

    assert (device.memory.l1.held, device.memory.l1.peak) == (0, 110 * 4096)
    assert device.memory.l1.peak_time_ns is not None
    assert device.l1_peak == 110 * 4096  # nothing else was ever in L1


def test_a_late_reader_does_not_know_the_peak_of_parts_that_were_there_at_different_times(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, DISPATCH + CHURN, TTMEM_EVENTS=FEW)

    (device,) = feed.read().devices

    assert (device.l1_peak, device.l1_peak_time_ns) == (None, None)
    assert "overwritten" in (device.provenance["cb"].misses or "")


def test_what_an_older_process_did_before_anybody_looked_is_unknown_and_not_lost(
    watch: Watch, tmp_path: Path
) -> None:
    started(watch, f"mesh = lib.mesh_open(2){CHURN}", TTMEM_EVENTS=FEW)
    with closing(LocalFeed(str(tmp_path))) as late:
        picture = late.read()

    assert (picture.losses.dropped_events, picture.losses.gaps, said(picture)) == (0, 0, "")
    assert [(p.dropped_events, p.earlier_unknown) for p in picture.processes] == [(0, True)]
    assert "before ttmem began to read is unknown" in late_notes(picture)[0].text
    for device in picture.devices:
        assert "overwritten" in (device.provenance["cb"].misses or "")


def test_what_was_overwritten_while_ttmem_waited_is_lost_and_the_provenance_says_so(
    watch: Watch, feed: LocalFeed
) -> None:
    process = started(watch, f"mesh = lib.mesh_open(2){CHURN}", CHURN[1:], TTMEM_EVENTS=FEW)
    first = feed.read()
    go_on(process)
    second = feed.read()

    lost = 1 + EVENTS_OF_CHURN - int(FEW)  # one tells that the mesh was opened
    assert (first.losses.dropped_events, first.losses.gaps) == (lost, 1)
    assert [process.dropped_events for process in first.processes] == [lost]
    lost += EVENTS_OF_CHURN - int(FEW)
    assert (second.losses.dropped_events, second.losses.gaps) == (lost, 2)
    for device in second.devices:
        assert "overwritten" in (device.provenance["cb"].misses or "")
        assert "overwritten" in (device.provenance["kernels"].misses or "")
    assert f"lost: {lost:,} events were overwritten before being read" in said(second)


def test_nothing_is_lost_where_the_ring_has_it_all_and_no_provenance_says_so(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, f"mesh = lib.mesh_open(2){CHURN}")

    picture = feed.read()

    assert (picture.losses.dropped_events, picture.losses.gaps, said(picture)) == (0, 0, "")
    told = [
        provenance.misses or ""
        for device in picture.devices
        for provenance in device.provenance.values()
    ]
    assert not [text for text in told if "overwritten" in text]


def test_how_often_a_program_ran_is_unknown_to_a_late_reader_but_not_how_often_all_ran(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, DISPATCH + CHURN, TTMEM_EVENTS=FEW)

    picture = feed.read(["programs"])

    row = program(picture)
    keys = ("dispatches", "cache_hits", "cache_misses", "resident", "resident_cores")
    assert [getattr(row, key) for key in keys] == [None] * 5
    assert {kernel.dispatches for kernel in (picture.kernels or ())} == {None}
    (device,) = picture.devices
    assert device.memory.cb.resident is None
    assert device.memory.cb.cached == 4 * 4096
    assert device.kernels.dispatches == 3


def test_a_reader_from_the_start_knows_how_often_a_program_ran(
    watch: Watch, feed: LocalFeed
) -> None:
    started(watch, DISPATCH)

    picture = feed.read(["programs"])

    assert program(picture).dispatches == 3
    assert picture.devices[0].memory.cb.resident == picture.devices[0].memory.cb.cached
    assert "overwritten" not in (picture.devices[0].provenance["cb"].misses or "")


def test_what_is_resident_is_known_again_when_a_program_has_run_on_all_cores(
    watch: Watch, feed: LocalFeed
) -> None:
    again = "lib.workload_enqueue(workload)"
    started(watch, DISPATCH + CHURN + f"\n{again}", TTMEM_EVENTS=FEW)

    picture = feed.read(["programs"])

    (device,) = picture.devices
    assert device.memory.cb.resident == device.memory.cb.cached == 4 * 4096
    assert (program(picture).resident, program(picture).dispatches) == (4 * 4096, None)


def test_what_went_and_came_unseen_makes_no_peak_together(watch: Watch, feed: LocalFeed) -> None:
    process = started(
        watch,
        "mesh = lib.mesh_open(1); old = [buffer(mesh, n, 0, 4000) for n in range(10)]",
        f"for one in old: lib.buffer_free(one)\nnew = [buffer(mesh, 100 + n, 0, 4000) for n in range(10)]{CHURN}",
        TTMEM_EVENTS=FEW,
    )
    feed.read()

    go_on(process)

    assert feed.read().devices[0].memory.dram.peak == 11 * BLOCK


def test_buffers_beyond_the_table_are_said_to_be_in_the_sums(watch: Watch, feed: LocalFeed) -> None:
    many = "[buffer(mesh, n, 0, 4000) for n in range(200)]"
    started(watch, f"mesh = lib.mesh_open(1); {many}", TTMEM_EVENTS=FEW, TTMEM_LIVE=FEW)

    picture = feed.read()

    assert picture.devices[0].memory.dram.held == 200 * BLOCK
    assert "live buffers are in all totals, but shown as a single entry in lists" in said(picture)
    assert "at least" not in said(picture)
    assert "resend" not in said(picture)
    assert picture.losses.dropped_events == 1 + 200 - int(FEW)


def test_circular_buffers_beyond_the_table_make_their_figures_a_lower_bound(
    watch: Watch, feed: LocalFeed
) -> None:
    many = "programs = [lib.program_make(n, mesh, 2048, 4) for n in range(100)]"
    started(watch, f"mesh = lib.mesh_open(1); {many}", TTMEM_EVENTS=FEW, TTMEM_LIVE=FEW)

    pictures = [feed.read() for _ in range(8)]

    assert "CB, L1 used and kernel code are at least what is shown" in said(pictures[0])
    assert "did not fit" in (pictures[0].devices[0].provenance["cb"].misses or "")
    assert {a.kind for a in pictures[-1].devices[0].anomalies} == {"probe_table"}


def test_a_reader_that_has_seen_every_event_misses_nothing_beside_a_full_table(
    watch: Watch, feed: LocalFeed
) -> None:
    process = started(
        watch,
        "mesh = lib.mesh_open(1)",
        "made = [buffer(mesh, n, 0, 4000) for n in range(200)]",
        TTMEM_LIVE=FEW,
    )
    feed.read()

    go_on(process)
    picture = feed.read(["buffers"])

    assert len(picture.buffers or ()) == 200
    assert (said(picture), picture.processes[0].overflow) == ("", 0)


def test_what_was_allocated_while_tracking_was_off_is_missed_when_it_is_on_again(
    watch: Watch, feed: LocalFeed
) -> None:
    process = started(
        watch,
        "mesh = lib.mesh_open(1); probe.ttmem_probe_track(0)",
        "buffer(mesh, 1, 0, 4000); probe.ttmem_probe_track(1)",
    )
    off = said(feed.read())

    go_on(process)
    picture = feed.read()

    assert "tracking is switched off: what it allocates now is not counted" in off
    assert "1 buffer was allocated while tracking was off" in said(picture)
    assert "switched off" in (picture.devices[0].provenance["dram"].misses or "")
    l1 = picture.devices[0].memory.l1
    assert (l1.free, l1.largest_free) == (None, None)  # what nobody has seen takes some of it


def test_buffers_beyond_the_table_are_in_the_count(watch: Watch, feed: LocalFeed) -> None:
    started(
        watch,
        "mesh = lib.mesh_open(1)\nfor n in range(300): buffer(mesh, n, 0, 4000)",
        TTMEM_LIVE=FEW,
        TTMEM_EVENTS=FEW,
    )

    (device,) = feed.read().devices

    assert (device.memory.dram.held, device.memory.dram.count) == (300 * BLOCK, 300)
