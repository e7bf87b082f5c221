"""The wall clock, wherever it stands: Python raises OverflowError for times after April 2262, also in its own log."""

from __future__ import annotations

import time
from collections.abc import Callable

LATEST_NS = (1 << 63) - 1  # the last instant that Python tells


def now_ns() -> int:
    """Nanoseconds since 1970; before it, they are negative; after 2262, the latest there is."""
    try:
        return time.time_ns()
    except OverflowError:
        return LATEST_NS


def log_line(write: Callable[..., None], words: str, *values: object) -> None:
    """A method of a logger, called so that no clock makes it raise; a line that Python cannot date is left out."""
    try:
        write(words, *values)
    except OverflowError:
        pass
