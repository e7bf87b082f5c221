"""What the probe sees of a process, and that it sees it right."""

from __future__ import annotations

from collections.abc import Callable

from tests.probe.watched import Watched
from ttmem.events import MemoryKind, Op
from ttmem.events.record import EVENT_SIZE, Event
from ttmem.probe.layout import Counted, LiveType
from ttmem.probe.phases import phase
from ttmem.sources.probe.ring import RingBatch

Watch = Callable[..., Watched]


def events_of(batch: RingBatch) -> list[Event]:
    return [
        Event.unpack(batch.events, offset) for offset in range(0, len(batch.events), EVENT_SIZE)
    ]


def test_a_buffer_of_a_mesh_counts_on_each_chip_once(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(4); buffer(mesh, 7, 0, 5000, 640); say('made')")
    process.wait_for("made")

    rows = process.region().counters()

    dram = [row[MemoryKind.DRAM] for row in rows]
    assert [(counter.requested, counter.reserved, counter.count) for counter in dram] == [
        (5000, 640 * 8, 1)
    ] * 4


def test_reserved_bytes_are_the_block_of_a_bank_times_all_banks(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 1, 100, 100); say('made')")
    process.wait_for("made")

    (row,) = process.region().counters()

    assert row[MemoryKind.L1].reserved == 128 * 110  # 100 bytes are two blocks of 64


def test_a_freed_buffer_leaves_its_peak(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        "a = buffer(mesh, 0, 0, 4096); b = buffer(mesh, 1, 0, 4096)  # the first id is 0\n"
        "lib.buffer_free(a); lib.buffer_free(b); say('done')"
    )
    process.wait_for("done")

    (row,) = process.region().counters()

    dram = row[MemoryKind.DRAM]
    assert (dram.count, dram.reserved, dram.peak) == (0, 0, 2 * 4096)
    assert (dram.allocations, dram.frees) == (2, 2)


def test_events_carry_size_place_and_chip(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(2); buffer(mesh, 9, 3, 300, 320); say('made')")
    process.wait_for("made")

    made = [event for event in events_of(process.region().new_events()) if event.op == Op.ALLOC]

    facts = [
        (event.device, event.kind, event.id, event.size, event.extra, event.address)
        for event in made
    ]
    assert facts == [(chip, 3, 9, 300, 320 * 110, 0x100000 + 9 * 64) for chip in (0, 1)]


def test_devices_come_with_the_capacities_of_the_runtime(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(2); say('open')")
    process.wait_for("open")

    first, second = process.region().devices()

    assert first is not None
    assert second is not None
    assert (first.logical_id, first.unique_id, first.arch) == (0, "1000", "blackhole")
    assert (first.grid, first.l1_banks, first.dram_banks) == ((11, 10), 110, 8)
    assert (first.l1_bank_size, first.cb_base) == (1_428_352, 111_744)
    assert second.unique_id == "1001"


def test_what_is_left_when_a_device_closes_is_gone(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(2); buffer(mesh, 1, 0, 4096); lib.program_make(3, mesh, 512, 2)\n"
        "lib.mesh_close(mesh); say('closed')"
    )
    process.wait_for("closed")
    region = process.region()

    assert {counter.count for row in region.counters() for counter in row} == {0}
    assert [thing.type for thing in region.live()] == [LiveType.PROGRAM]


def test_circular_buffers_belong_to_their_program_and_end_with_it(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(4); one = lib.program_make(0, mesh, 2048, 3); say('made')\n"
        "input(); lib.program_destroy(one); say('gone')"
    )
    process.wait_for("made")
    region = process.region()
    buffers = [thing for thing in region.live() if thing.type is LiveType.CIRCULAR_BUFFER]
    cores = region.new_cores()

    assert {(thing.requested, thing.program, thing.chips) for thing in buffers} == {
        (2048 * 4, 1, (0, 1, 2, 3))
    }
    assert {thing.address for thing in buffers} == {111_744, 113_792, 115_840}
    assert {tuple(cores[thing.cores]) for thing in buffers} == {((0, 0, 1, 1),)}
    assert [row[Counted.CB_DEMAND].requested for row in region.counters()] == [3 * 8192] * 4

    process.go_on()
    process.wait_for("gone")
    assert [row[Counted.CB_DEMAND].requested for row in region.counters()] == [0] * 4
    assert region.live() == []


def test_dataflow_buffers_are_seen_by_the_addresses_that_are_marked(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(2); one = lib.program_make(5, mesh, 0, 0)\n"
        "lib.program_lay_out_dataflow(address(one), address(mesh)); say('made')"
    )
    process.wait_for("made")
    region = process.region()
    (found,) = [thing for thing in region.live() if thing.type is LiveType.CIRCULAR_BUFFER]

    assert (found.address, found.requested, found.chips) == (200_000, 4096 * 8, (0, 1))
    assert [row[Counted.DATAFLOW_DEMAND].requested for row in region.counters()] == [4096 * 8] * 2


def test_a_refused_allocation_is_kept_with_the_words_of_the_runtime(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 1, 1 << 41); say('refused')")
    process.wait_for("refused")
    region = process.region()
    (failure,) = region.failures()

    assert (failure.what, failure.kind, failure.requested) == ("buffer", MemoryKind.L1, 1 << 41)
    assert failure.message == "Out of Memory: not enough space"
    assert {counter.count for row in region.counters() for counter in row} == {0}


def test_an_allocation_knows_the_line_of_python_that_made_it(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        "def load_weights():\n"
        "    return lib.buffer_make(mesh, 1, 0, 64, 64)\n"
        "exec(compile('lib.buffer_allocate(load_weights())', 'model.py', 'exec'))\n"
        "say('made')"
    )
    process.wait_for("made")
    region = process.region()
    (thing,) = region.live()

    assert region.new_strings()[thing.site] == "model.py:1 <module>"


def test_stacks_hold_every_frame(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        "source = 'def outer():\\n  inner()\\ndef inner():\\n  buffer(mesh, 1, 0, 64)\\nouter()'\n"
        "exec(compile(source, 'model.py', 'exec')); say('made')",
        TTMEM_STACKS="1",
    )
    process.wait_for("made")
    region = process.region()
    (thing,) = region.live()

    frames = region.new_strings()[thing.site].splitlines()
    assert [frame for frame in frames if frame.startswith("model.py")] == [
        "model.py:4 inner",
        "model.py:2 outer",
        "model.py:5 <module>",
    ]


def test_a_phase_tags_what_happens_inside(watch: Watch) -> None:
    process = watch(
        "from ttmem.probe.phases import phase\n"
        "mesh = lib.mesh_open(1)\n"
        "with phase('prefill'):\n"
        "    with phase('attention'): buffer(mesh, 1, 0, 64)\n"
        "    buffer(mesh, 2, 0, 64)\n"
        "buffer(mesh, 3, 0, 64); say('made')"
    )
    process.wait_for("made")
    region = process.region()
    texts = region.new_strings()

    tags = {thing.id: texts.get(thing.phase) for thing in region.live()}
    assert tags == {1: "prefill/attention", 2: "prefill", 3: None}


def test_a_phase_without_the_probe_does_nothing() -> None:
    with phase("prefill"):
        pass


def test_a_stack_that_is_too_deep_says_so(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        "def deeper(left): return deeper(left - 1) if left else buffer(mesh, 1, 0, 64)\n"
        "kept = deeper(400); say('made')",
        TTMEM_STACKS="1",
    )
    process.wait_for("made")
    region = process.region()
    texts = region.new_strings()

    (made,) = region.live()

    assert texts[made.site].endswith("\n(callers beyond these are not recorded)")
