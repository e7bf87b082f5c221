"""Where watched processes make their regions."""

from __future__ import annotations

import os

from ttmem.sources.probe_region.names import DEFAULT_DIRECTORY

VARIABLE = "TTMEM_REGION_DIR"


def probe_folder(given: str | None = None) -> str:
    """The folder that was given for all shared memory, else that of the environment, else /dev/shm."""
    chosen = given or os.environ.get(VARIABLE) or os.environ.get("TTMEM_SHM")
    return chosen or DEFAULT_DIRECTORY
