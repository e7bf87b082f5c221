"""Who did it, in a few words: operation, line, phase."""

from __future__ import annotations

import os

from ttmem.analysis.process_picture import Origin

UNKNOWN_OP = "outside of any op"
UNKNOWN_SITE = "no line of Python"


def operation(origin: Origin) -> str:
    """'ttnn.matmul'."""
    return origin.op or UNKNOWN_OP


def place(origin: Origin) -> str:
    """'model.py:42 forward  in decode/attention', from here on where the file is below here."""
    site = (origin.site or UNKNOWN_SITE).split("\n", 1)[0].removeprefix(os.getcwd() + os.sep)
    return f"{site}  in {origin.phase}" if origin.phase else site
