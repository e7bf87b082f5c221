"""Tables without room: sums stay right, and what is missing is counted."""

from __future__ import annotations

from collections.abc import Callable

from tests.probe.watched import Watched
from ttmem.events import MemoryKind
from ttmem.probe.layout import Counted, LiveType

Watch = Callable[..., Watched]
OPEN = "mesh = lib.mesh_open(1)\n"


def test_circular_buffers_that_do_not_fit_leave_no_demand_behind(done: Watch) -> None:
    process = done(
        OPEN + "kept = [buffer(mesh, n, 0, 64) for n in range(80)]\n"
        "for n in range(100): lib.program_destroy(lib.program_make(n, mesh, 2048, 3))",
        TTMEM_LIVE="64",
    )

    (row,) = process.region().counters()
    assert row[Counted.CB_DEMAND].requested == 0
    assert process.region().losses().live_not_listed > 0


def test_an_unseen_buffer_is_not_mistaken_for_one_that_did_not_fit(done: Watch) -> None:
    process = done(
        OPEN
        + "probe.ttmem_probe_track(0); big = [buffer(mesh, 1000 + n, 0, 1 << 30, 1 << 27) for n in range(10)]\n"
        "probe.ttmem_probe_track(1); kept = [buffer(mesh, n, 0, 64) for n in range(100)]\n"
        "for one in big: lib.buffer_free(one)",
        TTMEM_LIVE="64",
    )

    (row,) = process.region().counters()
    assert row[MemoryKind.DRAM].requested == 100 * 64
    assert process.region().losses().unpaired_frees == 10


def test_a_closed_device_holds_nothing_including_what_did_not_fit(done: Watch) -> None:
    process = done(
        OPEN + "kept = [buffer(mesh, n, 0, 64) for n in range(100)]\n"
        "lib.mesh_close(mesh); again = lib.mesh_open(1); one = buffer(again, 500, 0, 4096)",
        TTMEM_LIVE="64",
    )

    (row,) = process.region().counters()
    assert (row[MemoryKind.DRAM].requested, row[MemoryKind.DRAM].count) == (4096, 1)
    losses = process.region().losses()
    assert losses.live_uncounted == 0
    assert losses.forgotten == 36 + 1  # had no space; gave its room to the new one


def test_buffers_that_went_with_their_device_are_remembered_as_such(done: Watch) -> None:
    process = done(
        OPEN + "kept = [buffer(mesh, n, 0, 4096) for n in range(5)]; lib.buffer_free(kept.pop())\n"
        "lib.mesh_close(mesh); again = lib.mesh_open(1)\n"
        "lib.churn(again, 1000, 5000)  # more events than the ring has",
        TTMEM_EVENTS="64",
    )

    region = process.region()
    left = region.gone_with_device()
    assert [entry for entry in region.live() if entry.type is LiveType.BUFFER] == []
    assert sorted(entry.id for entry in left) == [0, 1, 2, 3]
    assert {(entry.type, entry.requested) for entry in left} == {(LiveType.BUFFER, 4096)}


def test_they_give_their_place_to_what_is_alive_and_that_is_counted(done: Watch) -> None:
    process = done(
        OPEN + "kept = [buffer(mesh, n, 0, 64) for n in range(64)]; lib.mesh_close(mesh)\n"
        "again = lib.mesh_open(1); alive = [buffer(again, 100 + n, 0, 64) for n in range(64)]",
        TTMEM_LIVE="64",
    )

    region = process.region()
    losses = region.losses()
    assert len(region.live()) == 64
    assert losses.live_not_listed == 0
    assert losses.forgotten == 64


def test_a_program_that_is_laid_out_again_and_again_keeps_few_numbers(done: Watch) -> None:
    process = done(
        OPEN + "lib.program_lay_out.argtypes = [address, address]\n"
        "program = lib.program_make(6, mesh, 2048, 4)\n"
        "for _ in range(1000): lib.program_lay_out(program, mesh)",
    )

    circular = [
        entry for entry in process.region().live() if entry.type is LiveType.CIRCULAR_BUFFER
    ]
    assert sorted(entry.id & 0xFFFF for entry in circular) == [0, 1, 2, 3]


def test_a_peak_knows_what_could_be_allocated_then(done: Watch) -> None:
    process = done(OPEN + "kept = buffer(mesh, 1, 0, 4096)")

    (row,) = process.region().counters()
    assert row[MemoryKind.DRAM].peak_capacity == 8 * 4_277_010_304
