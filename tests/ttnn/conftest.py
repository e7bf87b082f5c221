"""The bench is made once per run. Where it cannot be made, its tests are skipped, and one line says why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ttnn.bench.environment import Environment, add_ttmem, prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine

_WHY_SKIPPED = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tells the person who waits, past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(what: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\nttnn bench: {what}", flush=True)

    return line


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest, say: Callable[[str], None]) -> Environment:
    """Stock ttnn; children run ttmem from the source tree."""
    try:
        return prepare(find_interpreter(), say)
    except Unavailable as reason:
        request.config.stash[_WHY_SKIPPED] = str(reason)
        pytest.skip(f"ttnn bench: {reason}")


@pytest.fixture(scope="session")
def environment_with_ttmem(environment: Environment, say: Callable[[str], None]) -> Environment:
    """The same, with ttmem built and installed as a user would install it."""
    add_ttmem(environment, say)
    return environment


@pytest.fixture
def machine(environment: Environment) -> Iterator[Callable[[str], Machine]]:
    """Makes mocked machines, by name of the board, which end with the test."""
    with ExitStack() as machines:
        yield lambda board: machines.enter_context(Machine(environment, board))


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """On the file system of /dev/shm, so that a region can have a second name there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ttmem-test-") as folder:
        yield Path(folder)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reason = config.stash.get(_WHY_SKIPPED, None)
    if reason is not None:
        terminalreporter.write_line(f"tests/ttnn skipped: {reason}")
