"""Where the stock counters are blind: ttmem says so, and the error has a size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.running import RecordingTracker
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import SHARED_MEMORY, Machine
from tests.ttnn.scripts.on_model import op_program
from tests.ttnn.scripts.running import printed, shown
from ttmem.feeds import LocalFeed
from ttmem.model import open_device

TENSOR = "ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)"
TENSOR_BYTES = 2 * 1024 * 1024


@pytest.fixture(scope="module")
def there(environment: Environment) -> Iterator[Machine]:
    """One process for all tests here: they compare what is before with what is after."""
    with Machine(environment, "p150") as machine:
        machine.session()
        yield machine


def held(there: Machine) -> int:
    """The bytes of DRAM that the runtime has given out; these tensors fill their banks evenly."""
    view = there.sessions[0].views()["kinds"]["dram"]
    return view["num_banks"] * view["total_bytes_allocated_per_bank"]


def counted(there: Machine, kind: str) -> int:
    """What ttmem shows for the process."""
    feed = LocalFeed(str(SHARED_MEMORY))
    [figures] = shown(feed, there, there.sessions[0].pid).values()
    found = figures[kind]
    assert found is not None
    return found


def blind_spots(there: Machine, kind: str) -> str:
    """What ttmem says is missing from a figure."""
    [unique_id] = map(str, there.unique_ids)
    [device] = [device for device in printed()["devices"] if device["unique_id"] == unique_id]
    return str(device["provenance"][kind]["misses"])


def change_of_both(there: Machine, snippet: str) -> tuple[int, int]:
    """By how much the snippet changes what is held, and what is counted."""
    before = held(there), counted(there, "dram")
    there.sessions[0].run(snippet)
    return held(there) - before[0], counted(there, "dram") - before[1]


def test_what_another_thread_allocates_is_not_counted(there: Machine) -> None:
    assert change_of_both(there, f"a = {TENSOR}") == (TENSOR_BYTES, TENSOR_BYTES)

    assert change_of_both(there, f"b = in_thread(lambda: {TENSOR})") == (TENSOR_BYTES, 0)


def test_what_another_thread_frees_is_counted_for_ever(there: Machine) -> None:
    there.sessions[0].run(f"c = {TENSOR}")

    change = change_of_both(there, "in_thread(lambda: ttnn.deallocate(c))")

    assert change == (-TENSOR_BYTES, 0)


def test_a_buffer_that_was_never_counted_takes_the_bytes_of_another_when_the_opener_frees_it(
    there: Machine,
) -> None:
    there.sessions[0].run(f"d = {TENSOR}")

    change = change_of_both(there, f"e = in_thread(lambda: {TENSOR})\nttnn.deallocate(e)")

    assert change == (0, -TENSOR_BYTES)


def test_dataflow_buffers_are_missing_to_their_last_byte(there: Machine) -> None:
    session = there.sessions[0]
    session.run(f"f = {TENSOR}")
    program = op_program(
        open_device(mock=True, tracker=RecordingTracker()),
        session.core_buffers("ttnn.matmul(f, f)"),
    )
    program.allocate_circular_buffers()
    before = counted(there, "cb")

    session.run("kept = ttnn.matmul(f, f)")

    assert counted(there, "cb") == before
    assert program.l1 is not None
    assert program.l1.union_bytes == sum(
        buffer.size * cores.num_cores for buffer in program.buffers for cores in buffer.cores
    )
    assert program.l1.union_bytes > 4 << 20


def test_the_output_says_what_it_does_not_see(there: Machine) -> None:
    there.sessions[0].run(f"g = {TENSOR}")

    assert "other threads" in blind_spots(there, "dram")
    assert "dataflow buffers" in blind_spots(there, "cb")
