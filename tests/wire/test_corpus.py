"""A sample of `make fuzz-guided`: what the fuzzers start from, and a little of what they make of it."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
from fuzz import decoders
from fuzz.streams import mutated

ROOT = Path(decoders.__file__).parents[1]
TARGETS = {**decoders.ALL, **decoders.NATIVE}


def inputs(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "fuzz" / "corpus" / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_the_corpus_breaks_its_parser(name: str) -> None:
    for data in inputs(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_nor_does_one_that_was_changed(name: str) -> None:
    rng = random.Random(name)
    for data in inputs(name):
        for _ in range(20):
            TARGETS[name](mutated(rng, data))


@pytest.mark.parametrize("name", TARGETS)
def test_a_corpus_stays_small(name: str) -> None:
    assert 0 < sum(map(len, inputs(name))) < 16 << 10


@pytest.mark.parametrize("name", ["records", "frames"])
def test_a_guided_run_ends_with_a_row_of_its_table(name: str) -> None:
    if name == "records" and shutil.which("clang++") is None:
        pytest.skip("clang++ is not installed")
    if name == "frames" and util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (the extra `fuzz`)")

    command = [sys.executable, "-m", "fuzz.guided", "200", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    header, row = done.stdout.splitlines()
    assert header.split() == ["parser", "inputs", "inputs/s", "edges", "crashes"]
    assert row.split()[:2] == [name, "200"]
    assert row.split()[-1] == "0"
    assert done.returncode == 0
