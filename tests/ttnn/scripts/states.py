"""What both sides answer after a step, in the same words: equal, or the model is wrong."""

from __future__ import annotations

import re
from typing import TypedDict

from tests.ttnn.bench.answers import CoreBuffer, KindView

KINDS = ("dram", "l1", "l1_small", "trace")

_FAULT = re.compile(r"Out of Memory: .*? B\)|Statically allocated \w+ buffers .*\d( B)?$", re.M)
_PROGRAM = re.compile(r" in program \d+ ")


class State(TypedDict):
    """`circular` are the addresses of the circular buffers that were placed in this step; None if they are unknown."""

    address: int | None
    error: str | None
    circular: list[int] | None
    program_cache_entries: int
    kinds: dict[str, KindView]


class Answer(TypedDict):
    """Of the runtime; `wanted` is what the model's program is made of.

    `cb_is_fresh` says whether the runtime has published its circular buffers since the last change. It does so at
    most ten times a second, never when a program is destroyed in a burst, and never twice.
    """

    state: State
    wanted: list[CoreBuffer]
    cb_is_fresh: bool


def fault_text(error: Exception) -> str | None:
    """The sentence with the figures; the number of a program is its process's own affair. None: another error."""
    found = _FAULT.search(str(error))
    return None if found is None else _PROGRAM.sub(" in a program ", found[0])
