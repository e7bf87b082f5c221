"""The environment of the bench: what is in it, and what happens where it cannot be made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ttnn.bench.environment import OVERRIDE as CACHE
from tests.ttnn.bench.environment import REPOSITORY, Environment, prepare
from tests.ttnn.bench.interpreter import OVERRIDE as PYTHON
from tests.ttnn.bench.interpreter import Unavailable, find_interpreter


def said_by(environment: Environment, *arguments: str) -> str:
    done = subprocess.run(
        [environment.python, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment.variables(),
    )
    return done.stdout.strip()


def test_ttmem_and_ttnn_have_no_quarrel_over_versions(
    environment_with_ttmem: Environment,
) -> None:
    answer = said_by(environment_with_ttmem, "-I", "-m", "pip", "check")

    assert answer == "No broken requirements found."


def test_ttmem_was_built_for_that_interpreter_and_runs_there(
    environment_with_ttmem: Environment,
) -> None:
    where = "import ttmem._native as native; print('site-packages' in native.__file__)"

    assert said_by(environment_with_ttmem, "-I", "-c", where) == "True"


def test_children_use_the_python_code_of_the_source_tree(environment: Environment) -> None:
    where = said_by(environment, "-c", "import ttmem; print(ttmem.__file__)")

    assert where == str(REPOSITORY / "src" / "ttmem" / "__init__.py")


def test_without_a_network_the_reason_is_one_line(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    told: list[str] = []

    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            prepare(find_interpreter(), told.append)
        assert str(caught.value).startswith("ttnn 0.81.1 cannot be installed: ERROR: ")
        assert "\n" not in str(caught.value)

    assert [what.split()[0] for what in told] == ["making", "installing"] * 2


def test_without_an_interpreter_the_tests_are_skipped_with_one_line() -> None:
    tests = Path(__file__).with_name("test_boards.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tests],
        cwd=REPOSITORY,
        env=os.environ | {PYTHON: "/bin/false"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("tests/ttnn skipped:")]
    assert told == [
        "tests/ttnn skipped: TTMEM_TTNN_PYTHON=/bin/false is no CPython 3.12 or 3.10 with venv"
    ]
