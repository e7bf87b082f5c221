"""The scripts themselves: what two hundred of them hold. Neither ttnn nor a network is needed."""

from __future__ import annotations

from tests.ttnn.bench.boards import BOARDS
from tests.ttnn.scripts.generator import script
from tests.ttnn.scripts.steps import Allocate, Launch, Operate, as_plain, from_plain

ALL = [script(board, seed) for board in BOARDS.values() for seed in range(40)]
STEPS = [step for each in ALL for step in each.steps]


def test_the_same_seed_gives_the_same_script() -> None:
    again = [script(board, seed) for board in BOARDS.values() for seed in range(40)]

    assert again == ALL


def test_no_two_scripts_are_equal() -> None:
    assert len({each.steps for each in ALL}) == 200


def test_steps_are_of_every_kind() -> None:
    kinds = {type(step).__name__ for step in STEPS}

    assert kinds == {"Allocate", "Free", "Operate", "Launch", "ClearCache"}


def test_tensors_are_in_every_memory_interleaved_and_sharded_in_every_way() -> None:
    tensors = [step.tensor for step in STEPS if isinstance(step, Allocate)]

    assert {(tensor.kind, tensor.strategy) for tensor in tensors} == {
        ("DRAM", "interleaved"),
        ("DRAM", "height"),
        ("DRAM", "width"),
        ("L1", "interleaved"),
        ("L1", "height"),
        ("L1", "width"),
        ("L1", "block"),
        ("L1_SMALL", "height"),
        ("L1_SMALL", "width"),
        ("L1_SMALL", "block"),
        ("TRACE", "interleaved"),
    }
    assert {tensor.tiled for tensor in tensors} == {True, False}


def test_programs_are_repeated_and_lie_in_tensors_too() -> None:
    launches = [step for step in STEPS if isinstance(step, Launch)]
    places = [place for step in launches for place in step.places]

    assert len(set(launches)) < len(launches)
    assert any(place.tensor for place in places)
    assert {len(place.ranges) for place in places} == {1, 2}
    assert len({step.op for step in STEPS if isinstance(step, Operate)}) == 9


def test_a_step_crosses_the_pipe_unharmed() -> None:
    for step in STEPS[:500]:
        assert as_plain(from_plain(as_plain(step))) == as_plain(step)
