"""Processes under the probe, and a feed that reads their regions."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from ttmem.feeds import LocalFeed


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[LocalFeed]:
    with closing(LocalFeed(str(tmp_path))) as feed:
        yield feed
