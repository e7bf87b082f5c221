"""How many connections the system lets a server have."""

from __future__ import annotations

import resource
from contextlib import suppress

SPARE_FILES = 64


def raise_file_limit() -> int:
    """As many files as the system allows; each peer may need two (its socket and its process's pidfd)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(8, (soft - SPARE_FILES) // 2)
