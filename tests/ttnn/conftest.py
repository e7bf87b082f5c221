"""The bench is made once per run. Where it cannot be made, its tests are skipped, and one line says why."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ttnn.bench.environment import Environment, add_ttmem, prepare
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter
from tests.ttnn.bench.machine import Machine

SKIPPED = "ttnn bench: "


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tells the person who waits, past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(what: str) -> None:
        with capture.global_and_fixture_disabled():
            # A worker of xdist has the terminal's standard error, but not its standard output.
            print(f"\nttnn bench: {what}", file=sys.stderr, flush=True)

    return line


@pytest.fixture(scope="session")
def environment(say: Callable[[str], None]) -> Environment:
    """Stock ttnn; children run ttmem from the source tree."""
    try:
        return prepare(find_interpreter(), say)
    except Unavailable as reason:
        pytest.skip(f"{SKIPPED}{reason}")


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The reports also come from workers of xdist, whose own summaries nobody sees."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    reasons = (reason[2] for reason in skipped if isinstance(reason, tuple))
    for reason in sorted({text.partition(SKIPPED)[2] for text in reasons if SKIPPED in text}):
        terminalreporter.write_line(f"tests/ttnn skipped: {reason}")
