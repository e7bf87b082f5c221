"""Where watched processes make their regions, and how these are called: ttmem_PID_STARTTICKS."""

from __future__ import annotations

import os
import re

VARIABLE = "TTMEM_REGION_DIR"
DEFAULT_DIRECTORY = "/dev/shm"
REGION_NAME = re.compile(r"ttmem_([0-9]{1,10})_([0-9]{1,20})\Z")


def probe_folder(given: str | None = None) -> str:
    """The folder that was given for all shared memory, else that of the environment, else /dev/shm."""
    chosen = given or os.environ.get(VARIABLE) or os.environ.get("TTMEM_SHM")
    return chosen or DEFAULT_DIRECTORY


def has_regions(folder: str) -> bool:
    """Is there a file that may be one? Who asks this first need not load what reads them."""
    try:
        return any(REGION_NAME.match(name) for name in os.listdir(folder))
    except OSError:
        return False
