"""What every test may rely on, wherever it runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a test suite times nothing
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> None:
    """A shell that starts a job in the background lets it ignore SIGINT, and all its children too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_regions_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test looks at the shared memory of this machine, unless it says so."""
    folder = tmp_path_factory.mktemp("shm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_SHM", str(folder))
        yield folder
