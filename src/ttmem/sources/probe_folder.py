"""Where watched processes make their regions, and how these are called: ttmem_PID_STARTTICKS.

With `_before` at its end it is of the same process before its last `exec`.
"""

from __future__ import annotations

import os
import re

from ttmem.errors import BadInput

VARIABLE = "TTMEM_REGION_DIR"
SHM_VARIABLE = "TTMEM_SHM"  # of all shared memory
DEFAULT_DIRECTORY = "/dev/shm"
REGION_NAME = re.compile(r"ttmem_([0-9]{1,10})_([0-9]{1,20})(?:_before)?\Z")


def probe_folder(given: str | None = None) -> str:
    """The folder that was given for all shared memory, else that of the environment, else /dev/shm."""
    chosen = given or os.environ.get(VARIABLE) or os.environ.get(SHM_VARIABLE)
    return chosen or DEFAULT_DIRECTORY


def check_folders(given: str | None = None) -> None:
    """BadInput unless what was named is a folder: by --shm, else by the variables that stand for it."""
    if given is not None:
        named = {"--shm ": given}
    else:
        names = (SHM_VARIABLE, VARIABLE)
        named = {f"{name}=": folder for name in names if (folder := os.environ.get(name))}
    for how, folder in named.items():
        if not os.path.isdir(folder):
            shown = folder or "''"
            raise BadInput(f"{how}{shown} is no folder; regions usually lie in {DEFAULT_DIRECTORY}")


def has_regions(folder: str) -> bool:
    """Is there a file that may be one? Who asks this first need not load what reads them."""
    try:
        return any(REGION_NAME.match(name) for name in os.listdir(folder))
    except OSError:
        return False
