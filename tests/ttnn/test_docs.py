"""The program of the README still fails as the README says."""

from __future__ import annotations

import re

from docs.make_pictures import FOLDER, explained

from tests.ttnn.bench.environment import Environment


def test_the_out_of_memory_error_of_the_readme_is_explained_as_there(
    environment: Environment,
) -> None:
    recorded = (FOLDER / "out-of-memory.txt").read_text("utf-8").rstrip("\n")
    assert _without_pid(explained(environment)) == _without_pid(recorded)


def _without_pid(text: str) -> str:
    return re.sub(r"pid \d+", "pid", text)
