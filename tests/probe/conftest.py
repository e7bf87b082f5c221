"""Processes under the probe, and the small runtime that they load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.probe.watched import Launcher, Watched, build_runtime


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="session")
def half_runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runtime(tmp_path_factory.mktemp("half_runtime"), "HALF")


@pytest.fixture
def watch(runtime: Path, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Starts watched processes, which end with the test."""
    with ExitStack() as processes:

        def start(script: str, library: Path = runtime, **variables: str) -> Watched:
            return processes.enter_context(closing(Watched(library, tmp_path, script, **variables)))

        yield start


@pytest.fixture
def done(watch: Callable[..., Watched]) -> Callable[..., Watched]:
    """Starts a watched process and waits until its script is through; the process stays
    until its standard input ends (`end`), or a signal does it."""

    def run(script: str, **variables: str) -> Watched:
        process = watch(script + "\nsay('done'); sys.stdin.read()", **variables)
        process.wait_for("done")
        return process

    return run


@pytest.fixture
def launcher(runtime: Path, tmp_path: Path) -> Launcher:
    """Starts `ttmem run`."""
    return Launcher(runtime, tmp_path)
