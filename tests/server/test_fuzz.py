"""A sample of `make fuzz`."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest
from fuzz.streams import stream
from fuzz.target import target


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(4))
def test_random_and_mutated_streams_break_no_law(seed: int) -> None:
    with target() as fed:
        for number in range(500):
            rng = random.Random(seed * 10_000 + number)
            fed.feed(rng, stream(rng))
        fed.check()
