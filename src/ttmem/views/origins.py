"""Who did it, in a few words: operation, line, phase."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ttmem.analysis.process_picture import Origin
from ttmem.sizes import several
from ttmem.views.text import ELLIPSIS, clean, clip, columns

UNKNOWN_OP = "outside of any op"
UNKNOWN_SITE = "no line of Python"
SITES_OFF = "call sites are off"
CALLERS = 8  # of a stack; the rest is counted


def made_by(origin: Origin, room: int) -> str:
    """'ttnn.matmul  model.py:42 forward  in decode'. In little room, the file and its line stay to the last."""
    if not origin.sought:
        return clip(f"{SITES_OFF}{_in_phase(origin)}", room)
    innermost = (origin.site or UNKNOWN_SITE).split("\n", 1)[0]
    place, function = _parts(clean(innermost.removeprefix(os.getcwd() + os.sep)))
    phase = _in_phase(origin)
    op = clean(origin.op or UNKNOWN_OP)
    bare_op = op.rpartition(".")[2]
    for head, end in ((op, function + phase), (op, phase), (bare_op, phase), (bare_op, "")):
        for shown in _with_fewer_folders(place):
            text = f"{head}  {shown}{end}"
            if columns(text) <= room:
                return text
    left = room - columns(shown) - 2
    return f"{clip(bare_op, left)}  {shown}" if left > 2 else clip(shown, room)


def callers(origin: Origin, room: int) -> list[str]:
    """The rest of a whole stack, innermost first: 'called by model.py:42 forward'; nothing if only a line is known."""
    frames = (origin.site or "").split("\n")[1:]
    lines = [
        f"called by {_short(frame, room - columns('called by '))}" for frame in frames[:CALLERS]
    ]
    if len(frames) > CALLERS:
        lines.append(f"and {several(len(frames) - CALLERS, 'more caller')}")
    return lines


def _short(frame: str, room: int) -> str:
    place, function = _parts(clean(frame.removeprefix(os.getcwd() + os.sep)))
    texts = [f"{shown}{function}" for shown in _with_fewer_folders(place)]
    return next((text for text in texts if columns(text) <= room), clip(texts[-1], room))


def _in_phase(origin: Origin) -> str:
    return f"  in {clean(origin.phase)}" if origin.phase else ""


def _parts(site: str) -> tuple[str, str]:
    """'/src/model.py:42 forward' -> '/src/model.py:42' and ' forward'."""
    place, space, function = site.rpartition(" ")
    return (place, space + function) if ":" in place else (site, "")


def _with_fewer_folders(place: str) -> Iterator[str]:
    yield place
    while os.sep in place:
        place = place.split(os.sep, 1)[1]
        yield f"{ELLIPSIS}{os.sep}{place}"
    yield place
