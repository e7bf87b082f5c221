"""No test looks at the shared memory of the machine that it runs on, unless it says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_regions_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("shm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_SHM", str(folder))
        yield folder
