"""The model is held to the truth, and so is ttmem: the same scripts on the model and on stock ttnn.

`TTMEM_TTNN_SCRIPTS=200 make test-ttnn` runs as many scripts, all boards together.
"""

from __future__ import annotations

import pytest

from tests.ttnn.bench.boards import BOARDS
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import Machine
from tests.ttnn.scripts.generator import script, scripts_per_board
from tests.ttnn.scripts.running import Seen, run_scripts


@pytest.fixture(scope="module", params=BOARDS)
def seen(environment: Environment, request: pytest.FixtureRequest) -> list[Seen]:
    """Every step of every script on one board, run once for all tests here."""
    with Machine(environment, request.param) as machine:
        scripts = (script(machine.board, seed) for seed in range(scripts_per_board()))
        return list(run_scripts(machine, scripts))


def test_addresses_figures_free_lists_and_faults_of_the_model_are_those_of_the_runtime(
    seen: list[Seen],
) -> None:
    for state in seen:
        assert state.model == state.runtime, state.where


def test_ttmem_shows_what_was_asked_for_on_every_device(seen: list[Seen]) -> None:
    for state in seen:
        assert state.shown == dict.fromkeys(state.shown, state.asked), state.where


def test_the_circular_buffers_that_the_runtime_publishes_are_those_of_the_model(
    seen: list[Seen],
) -> None:
    published = [state for state in seen if state.asked.get("cb")]

    assert published
    for state in published:
        assert {figures["cb"] for figures in state.shown.values()} == {state.asked["cb"]}, (
            state.where
        )
