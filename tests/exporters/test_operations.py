"""What counts as one operation: events do not say where an op begins and ends."""

from __future__ import annotations

from tests.exporters.history import MS, NOW, SITES, alloc, free
from ttmem.events import Event, MemoryKind, Notice, Op
from ttmem.exporters import events as exported
from ttmem.recording import Batch, RecordedProcess

NAMES = {1: "ttnn.matmul", 2: "ttnn.add", 5: "reader/ncrisc", **SITES}


def found(*batches: tuple[int, list[Event]]) -> list[tuple[str, int]]:
    """(title, number of own events) for events of processes, each 1 ms after the one before."""
    position, made = 0, []
    for serial, events in batches:
        process = RecordedProcess(serial, serial, None, None, None, NAMES, {0: "1001", 1: "1002"})
        timed = [
            event._replace(time=event.time or NOW + (position + n) * MS).pack()
            for n, event in enumerate(events)
        ]
        data = memoryview(b"".join(timed))
        made.append(Batch(position, process, NOW + 1000 * MS, data, position))
        position += len(events)
    return [(one.title, len(one.own)) for one in exported.operations(made) if one.own]


def call(number: int, name: int, site: int, device: int = 0) -> list[Event]:
    return [
        alloc(number, MemoryKind.L1, 2048, 4096, name=name, site=site, device=device),
        Event(Op.PROGRAM_DISPATCH, id=7, name=name, site=site, device=device),
    ]


def test_ten_calls_of_one_line_are_ten_operations() -> None:
    events = [event for number in range(10) for event in call(number, 1, 11)]

    assert found((1, events)) == [("ttnn.matmul", 2)] * 10


def test_frees_kernels_and_phases_are_no_calls() -> None:
    kernel = Event(Op.KERNEL_LOAD, id=3, size=64, name=5, site=11)
    phase = Event(Notice.PHASE_ENTERED, name=5)
    freed = free(1, MemoryKind.L1, name=1, site=11)

    events = [phase, *call(1, 1, 11), kernel, *call(2, 2, 13), freed, kernel._replace(op=11)]

    assert found((1, events)) == [("ttnn.matmul", 2), ("ttnn.add", 2)]


def test_a_program_on_all_devices_of_a_mesh_is_one_operation() -> None:
    outputs = [alloc(1, MemoryKind.L1, 64, 64, name=1, device=n, time=NOW) for n in range(2)]
    programs = [Event(Op.PROGRAM_DISPATCH, id=7, name=1, device=n) for n in range(2)]

    assert found((1, [*outputs, *programs, *outputs, *programs])) == [("ttnn.matmul", 4)] * 2
    assert found((1, [*outputs, *outputs])) == [("ttnn.matmul", 2)] * 2


def test_a_source_that_does_not_know_ops_has_an_operation_per_program() -> None:
    events = [event for number in range(3) for event in call(number, 0, 12)]
    programs = [event._replace(site=0) if event.op != Op.ALLOC else event for event in events]

    assert found((1, programs)) == [("/src/weights.py:7 load", 2)] * 3


def test_processes_do_not_divide_each_others_operations() -> None:
    (output, program), other = call(1, 1, 11), call(1, 2, 13)

    operations = found((1, [output]), (2, other), (1, [program]))

    assert sorted(operations) == [("ttnn.add", 2), ("ttnn.matmul", 2)]
