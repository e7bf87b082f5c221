"""What mocked devices leave out: binaries in DRAM, their status, dispatch, traces, programs of the runtime itself."""

from __future__ import annotations

from collections.abc import Callable

from tests.probe.test_captured import events_of
from tests.probe.watched import DISPATCHING, Watched
from ttmem.events import MemoryKind, Op
from ttmem.events.record import Event, Flag
from ttmem.probe.layout import HOLDS_BINARIES, Counted, LiveType, Notice
from ttmem.sources.probe.region import ProbeRegion

Watch = Callable[..., Watched]
CONTROLS = """
lib.trace_capture.argtypes = lib.trace_release.argtypes = [address, ctypes.c_uint32, address]
lib.trace_replay.argtypes = [address, ctypes.c_uint32]
"""
DISPATCHED = (
    DISPATCHING
    + """
mesh = lib.mesh_open(2)
program = lib.program_make(6, mesh, 0, 0)
lib.program_add_kernel(program, b"reader", 3000)
lib.program_add_kernel(program, b"writer", 1392)
binaries = lib.buffer_make(mesh, 40, 0, 6144, 2048)
workload = lib.workload_make(mesh, program, binaries)
for time in range(3): lib.workload_enqueue(workload)
say('dispatched'); input()
lib.workload_destroy(workload); lib.buffer_free(binaries); lib.program_destroy(program)
say('gone')
"""
)
PROGRAM = 7  # its id in the runtime, and one: 0 means none


def of_op(region: ProbeRegion, *ops: int) -> list[Event]:
    return [event for event in events_of(region.new_events()) if event.op in ops]


def test_the_buffer_of_kernel_binaries_is_known_as_such_until_it_is_freed(watch: Watch) -> None:
    process = watch(DISPATCHED)
    process.wait_for("dispatched")
    region = process.region()
    row, other = region.counters()
    (held,) = [thing for thing in region.live() if thing.type is LiveType.BUFFER]

    assert row[Counted.KERNEL_BINARIES].requested == row[MemoryKind.DRAM].requested == 6144
    assert other == row
    assert held.flags & HOLDS_BINARIES
    assert region.new_strings()[held.name] == "kernel binaries"

    process.go_on()
    process.wait_for("gone")
    assert [row[Counted.KERNEL_BINARIES].count for row in region.counters()] == [0, 0]
    assert region.live() == []


def test_kernels_come_with_file_size_and_cores(watch: Watch) -> None:
    process = watch(DISPATCHED)
    process.wait_for("dispatched")
    region = process.region()
    texts, cores = region.new_strings(), region.new_cores()
    kernels = [thing for thing in region.live() if thing.type is LiveType.KERNEL]

    assert {(texts[entry.name], entry.requested, texts[entry.path]) for entry in kernels} == {
        ("reader/brisc", 3000, "/cache/kernels/reader/1234/brisc/brisc.elf"),
        ("writer/brisc", 1392, "/cache/kernels/writer/1234/brisc/brisc.elf"),
    }
    assert {(entry.program, entry.number, entry.chips) for entry in kernels} == {
        (PROGRAM, 8, (0, 1))
    }
    assert {tuple(cores[entry.cores]) for entry in kernels} == {((0, 0, 3, 1),)}
    assert {
        (activity.kernels_loaded, activity.programs_compiled) for activity in region.activity()
    } == {(2, 1)}


def test_the_status_of_binaries_is_reported_once_after_the_first_dispatch(
    watch: Watch,
) -> None:
    process = watch(DISPATCHED)
    process.wait_for("dispatched")

    told = of_op(process.region(), Op.BINARY_STATUS)

    on_first = [(event.id, event.kind) for event in told if event.device == 0]
    assert on_first == [(PROGRAM, 2)]


def test_the_first_dispatch_is_a_miss_and_those_after_it_are_hits(watch: Watch) -> None:
    process = watch(DISPATCHED)
    process.wait_for("dispatched")
    region = process.region()

    told = [event for event in of_op(region, Op.PROGRAM_DISPATCH) if event.device == 1]
    texts = region.new_strings()

    flags = [event.flags & ~Flag.SAME_SLOT for event in told]
    assert flags == [Flag.CACHE_MISS] + 2 * [Flag.CACHE_HIT]
    assert {texts[event.name] for event in told} == {"Matmul"}
    assert {
        (activity.dispatches, activity.hits, activity.misses) for activity in region.activity()
    } == {(3, 2, 1)}


def test_fabric_and_dispatch_programs_are_distinguished_from_applications(watch: Watch) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); lib.device_start(0)\n"
        "program = lib.program_make(6, mesh, 0, 0); say('made')"
    )
    process.wait_for("made")

    programs = [entry for entry in process.region().live() if entry.type is LiveType.PROGRAM]

    assert {entry.id: entry.kind for entry in programs} == {901: 1, 902: 2, PROGRAM: 0}


def test_a_trace_is_reported_from_capture_to_release_and_its_buffer_counted(watch: Watch) -> None:
    process = watch(
        CONTROLS
        + "mesh = lib.mesh_open(2); kept = lib.buffer_make(mesh, 50, 4, 8192, 1024)\n"
        + "lib.trace_capture(mesh, 7, kept); lib.trace_replay(mesh, 7); say('captured'); input()\n"
        + "lib.trace_release(mesh, 7, kept); say('released')"
    )
    process.wait_for("captured")
    region = process.region()
    assert [row[MemoryKind.TRACE].requested for row in region.counters()] == [8192] * 2
    assert {
        (activity.traces_captured, activity.traces_replayed) for activity in region.activity()
    } == {(1, 1)}

    process.go_on()
    process.wait_for("released")
    told = of_op(region, *range(Notice.TRACE_BEGUN, Notice.TRACE_RELEASED + 1))
    assert [(event.op, event.id) for event in told if event.device == 0] == [
        (Notice.TRACE_BEGUN, 7),
        (Notice.TRACE_CAPTURED, 7),
        (Notice.TRACE_REPLAYED, 7),
        (Notice.TRACE_RELEASED, 7),
    ]
    assert [row[MemoryKind.TRACE].count for row in region.counters()] == [0, 0]
