"""The probe and the runtime agree, to the byte, at every step."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from tests.ttnn.probed import (
    Machines,
    addresses,
    by_probe,
    by_runtime,
    live_addresses,
    per_core,
    region_of,
    start,
)
from ttmem.events import MemoryKind
from ttmem.probe.layout import LiveType

MAKE = """
def make(rows, columns, config):
    shape = ttnn.Shape([1, 1, rows, columns])
    config = getattr(ttnn, config)
    return ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config)
held = {}
"""


@pytest.mark.parametrize("board", ["n150", "p150", "p150x4", "t3k"])
def test_buffers_equal_the_memory_view_at_every_step(machine: Machines, board: str) -> None:
    there = machine(board)
    session = start(there)
    session.run(MAKE)
    region = region_of(there, session)
    draw = random.Random(board)
    held: list[int] = []

    for step in range(60):
        thread = "in_thread(lambda: {})" if draw.random() < 0.3 else "{}"
        if held and draw.random() < 0.4:
            number = held.pop(draw.randrange(len(held)))
            session.run(thread.format(f"ttnn.deallocate(held.pop({number}))") + "\nNone")
        else:
            config = draw.choice(["DRAM_MEMORY_CONFIG", "L1_MEMORY_CONFIG"])
            size = f"{32 * draw.randrange(1, 20)}, {32 * draw.randrange(1, 20)}"
            work = f"held.__setitem__({step}, make({size}, {config!r}))"
            session.run(thread.format(work) + "\nNone")
            held.append(step)
        seen = session.views()
        assert by_probe(region) == [by_runtime(seen)] * there.board.chips
        assert live_addresses(region) == addresses(seen)

    assert region.new_events().lost == 0
    assert region.losses().unpaired_frees == 0


@pytest.mark.parametrize("board", ["p150", "p150x4"])
def test_devices_are_declared_as_the_runtime_has_them(machine: Machines, board: str) -> None:
    there = machine(board)
    session = start(there)
    region = region_of(there, session)
    seen = session.views()["kinds"]

    declared = [device for device in region.devices() if device is not None]

    names = {device.logical_id: device.unique_id for device in declared}
    assert names == {chip: str(unique_id) for chip, unique_id in enumerate(there.unique_ids)}
    assert {(device.l1_banks, device.l1_bank_size) for device in declared} == {
        (seen["l1"]["num_banks"], seen["l1"]["total_bytes_per_bank"])
    }
    assert {(device.dram_banks, device.dram_bank_size) for device in declared} == {
        (seen["dram"]["num_banks"], seen["dram"]["total_bytes_per_bank"])
    }


@pytest.mark.parametrize(
    "work", ["ttnn.add(a, b)", "ttnn.matmul(a, b)", "ttnn.softmax(a, dim=-1)", "ttnn.relu(a)"]
)
def test_circular_and_dataflow_buffers_equal_a_capture(machine: Machines, work: str) -> None:
    there = machine("p150")
    session = start(there)
    session.run(
        MAKE + "a = make(256, 256, 'DRAM_MEMORY_CONFIG')\nb = make(256, 256, 'DRAM_MEMORY_CONFIG')"
    )
    wanted = session.core_buffers(work)
    region = region_of(there, session)
    session.run(f"c = {work}\nNone")

    expected: Counter[tuple[int, int]] = Counter()
    for buffer in wanted:
        if not buffer["borrowed"]:
            numbers = [int(text) for text in re.findall(r"\d+", buffer["cores"])]
            for at in range(0, len(numbers), 4):
                x0, y0, x1, y1 = numbers[at : at + 4]
                for x in range(x0, x1 + 1):
                    for y in range(y0, y1 + 1):
                        expected[x, y] += buffer["size"]
    assert expected
    assert per_core(region, region.new_cores()) == expected


def test_an_operation_and_the_line_that_called_it_are_known(machine: Machines) -> None:
    there = machine("p150")
    session = start(there)
    session.run(MAKE + "a = make(256, 256, 'DRAM_MEMORY_CONFIG')\nNone")
    session.run("exec(compile('\\n\\nc = ttnn.matmul(a, a)', 'model.py', 'exec'))\nNone")
    region = region_of(there, session)
    texts = region.new_strings()

    made = {
        (thing.type, texts.get(thing.name), texts.get(thing.site))
        for thing in region.live()
        if texts.get(thing.site, "").startswith("model.py")
    }
    call = "model.py:3 <module>"
    assert (LiveType.BUFFER, "ttnn.matmul", call) in made
    assert (LiveType.PROGRAM, "ttnn.matmul", call) in made
    assert (LiveType.CIRCULAR_BUFFER, "ttnn.matmul", call) in made
    assert {site for _, _, site in made} == {call}


def test_a_refused_allocation_is_known_with_its_line(machine: Machines) -> None:
    there = machine("p150")
    session = start(there)
    session.run(MAKE)
    session.run(
        "source = 'make(32768, 32768, \"L1_MEMORY_CONFIG\")'\n"
        "try:\n    eval(compile(source, 'model.py', 'eval'))\n"
        "except RuntimeError:\n    pass\n"
        "None"
    )
    region = region_of(there, session)
    (failure,) = region.failures()

    assert (failure.what, failure.kind, failure.requested) == ("buffer", MemoryKind.L1, 2 << 30)
    assert "Out of Memory: Not enough space to allocate 2147483648 B L1 buffer" in failure.message


def test_nothing_is_left_when_the_session_ends(machine: Machines) -> None:
    there = machine("p150x4")
    session = start(there)
    session.run(MAKE + "a = make(256, 256, 'L1_MEMORY_CONFIG')\nb = ttnn.add(a, a)\nNone")
    region = region_of(there, session)
    assert {row[MemoryKind.DRAM].count + row[MemoryKind.L1].count for row in region.counters()} == {
        2
    }

    session.close()

    assert {counter.count for row in region.counters() for counter in row} == {0}


BOTH = "models.transformer_layer(); models.convolution_block()"


@pytest.mark.parametrize("board", ["p150", "p150x4", "t3k"])
def test_a_thousand_operations_of_two_models_leave_no_difference(
    machine: Machines, board: str
) -> None:
    there = machine(board)
    session = start(there, worker_dispatch=board == "t3k")
    session.run("from tests.ttnn.probed import Models\nmodels = Models(ttnn, device)\nNone")
    region = region_of(there, session)
    seen_events = 0

    for round in range(10):
        operations = session.run(
            f"while models.operations < {(round + 1) * 100}: {BOTH}\nmodels.operations"
        )
        seen = session.views()
        assert by_probe(region) == [by_runtime(seen)] * there.board.chips
        assert live_addresses(region) == addresses(seen)
        batch = region.new_events()
        seen_events += len(batch.events)
        assert batch.lost == 0

    assert operations >= 1000
    assert seen_events
    assert sum(activity.dispatches for activity in region.activity()) > 0


WORKER = """
import threading, time
kept = []
def work():
    global device
    device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
    for number in range(100):
        if number == 50:
            time.sleep(1)  # on a busy machine, the thread that lists the operations needs a moment to begin
        kept.append(ttnn.relu(ttnn.empty((1, 1, 32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)))
worker = threading.Thread(target=work); worker.start(); worker.join()
"""


def test_operations_of_a_worker_are_named_while_the_main_thread_waits(machine: Machines) -> None:
    there = machine("p150")
    session = start(there, opened=False)

    session.run(WORKER)

    region = region_of(there, session)
    texts = region.new_strings()
    made = sorted(
        (entry.id, texts.get(entry.name))
        for entry in region.live()
        if entry.type is LiveType.BUFFER
    )
    assert len(made) == 100
    assert [name for _, name in made][-50:] == ["ttnn.relu"] * 50
