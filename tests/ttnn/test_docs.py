"""The programs of the docs still do what the docs say."""

from __future__ import annotations

import re

from docs.make_pictures import FOLDER, explained, sample_summary, summary

from tests.ttnn.bench.environment import Environment


def test_the_out_of_memory_error_of_the_readme_is_explained_as_there(
    environment: Environment,
) -> None:
    recorded = (FOLDER / "out-of-memory.txt").read_text("utf-8").rstrip("\n")
    assert _without_pid(explained(environment)) == _without_pid(recorded)


def test_the_summary_in_the_docs_is_that_of_a_real_run(environment: Environment) -> None:
    assert _without_pid(summary(environment)) == _without_pid(f"ttmem: pid {sample_summary()}")


def _without_pid(text: str) -> str:
    return re.sub(r"pid \d+", "pid", text)
