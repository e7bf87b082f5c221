"""How many scripts run: a sample, or as many as asked for by hand."""

from __future__ import annotations

import os

from tests.ttnn.bench.boards import BOARDS

VARIABLE = "TTMEM_TTNN_SCRIPTS"
SAMPLE = 5


def scripts_per_board() -> int:
    """Each board gets the same share."""
    return -(-int(os.environ.get(VARIABLE, SAMPLE)) // len(BOARDS))


def boards_with_three_processes() -> list[str]:
    """Three processes on each board take half a minute; a sample has one card and one mesh."""
    return list(BOARDS) if VARIABLE in os.environ else ["p150", "t3k"]
