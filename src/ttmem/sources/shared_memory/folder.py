"""Where stock ttnn publishes its counters."""

from __future__ import annotations

import os

DEFAULT_FOLDER = "/dev/shm"
FOLDER_VARIABLE = "TTMEM_SHM"


def shm_folder(given: str | None = None) -> str:
    """The folder that was given, else that of the environment, else where the runtime writes."""
    return given or os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER
