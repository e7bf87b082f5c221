"""How long a test waits: until it is so, and no shorter than a busy machine may need."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0
T = TypeVar("T")


def wait_until(condition: Callable[[], T]) -> T:
    """The first true answer; the test fails with the last one if patience ends."""
    end = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        assert time.monotonic() < end, f"waited in vain; the last answer was {answer!r}"
        time.sleep(0.005)
    return answer


def examples(count: int) -> int:
    """Of a property: fewer under sanitizers, where each takes ten times as long."""
    return count // 10 if "ASAN_OPTIONS" in os.environ else count
