"""How the code that allocated is named: operation, file and line, function and phase, shortened to a width."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ttmem.sizes import several
from ttmem.text import ELLIPSIS, clean, clip, columns

if TYPE_CHECKING:
    from ttmem.probe.report import Origin

UNKNOWN_OP = "outside any op"
UNKNOWN_SITE = "no line of Python"
SITES_OFF = "call sites are off"
CALLERS = 8  # frames to show; the rest are counted


def made_by(origin: Origin, width: int, unknown_op: str = UNKNOWN_OP, form: int = 0) -> str:
    """'ttnn.matmul  model.py:42 forward  in decode'. If space is short, file and line are kept longest.

    `form`: how much to leave out in any case, as `form_of` says for the other rows of a table.
    """
    if not origin.sought:
        return clip(f"unknown: {SITES_OFF}{in_phase(origin)}", width)
    place, forms = _forms(origin, unknown_op)
    for head, end in forms[form:]:
        for shown in _with_fewer_folders(place):
            text = f"{head}  {shown}{end}".lstrip()
            if columns(text) <= width:
                return text
    bare_op, left = forms[-1][0], width - columns(shown) - 2
    return f"{clip(bare_op, left)}  {shown}" if left > 2 else clip(shown, width)


def form_of(origin: Origin, width: int) -> int:
    """How much has to be left out: nothing (0), the function, 'ttnn.' as well, or the phase as well.

    Of a text that fits in no form, others need not leave out their phases.
    """
    place, forms = _forms(origin, "")
    *_, shown = _with_fewer_folders(place)
    texts = (f"{head}  {shown}{end}".lstrip() for head, end in forms)
    return next((at for at, text in enumerate(texts) if columns(text) <= width), BARE)


BARE = 2  # without the function and 'ttnn.'


def _forms(origin: Origin, unknown_op: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """File and line, and what may stand before and behind them, the longest first."""
    innermost = (origin.site or UNKNOWN_SITE).split("\n", 1)[0]
    place, function = _parts(innermost)
    phase = in_phase(origin)
    has_line = place.rpartition(":")[2].isdecimal()  # a simulated program has none, but labels
    op = clean(origin.op or (unknown_op if origin.site is None or has_line else ""))
    # 'matmul' for 'ttnn.matmul'; a name such as 'layers.0.wq' needs all its parts
    bare_op = op.rpartition(".")[2] if op.startswith("ttnn.") else op
    return place, ((op, function + phase), (op, phase), (bare_op, phase), (bare_op, ""))


def callers(origin: Origin, width: int) -> list[str]:
    """The rest of a whole stack, innermost first: 'called by model.py:42 forward'; nothing if only a line is known."""
    frames = (origin.site or "").split("\n")[1:]
    lines = [
        f"called by {short_site(frame, width - columns('called by '))}"
        for frame in frames[:CALLERS]
    ]
    if len(frames) > CALLERS:
        lines.append(f"and {several(len(frames) - CALLERS, 'more caller')}")
    return lines


def short_site(frame: str, width: int) -> str:
    """'…/model.py:42 forward': without the working directory, and with fewer folders if space is short."""
    place, function = _parts(frame)
    for shown in _with_fewer_folders(place):
        if columns(text := f"{shown}{function}") <= width:
            return text
    if columns(shown) > width:  # the number of the line is at its end
        return clip(shown[::-1], width)[::-1]
    return clip(text, width)


def in_phase(origin: Origin) -> str:
    return f"  in {clean(origin.phase)}" if origin.phase else ""


def _parts(site: str) -> tuple[str, str]:
    """'model.py:42 forward' -> 'model.py:42' and ' forward'; without the working directory."""
    site = clean(site.removeprefix(os.getcwd() + os.sep))
    place, space, function = site.rpartition(" ")
    return (place, space + function) if ":" in place else (site, "")


def _with_fewer_folders(place: str) -> Iterator[str]:
    yield place
    while os.sep in place:
        place = place.split(os.sep, 1)[1]
        yield f"{ELLIPSIS}{os.sep}{place}" if os.sep in place else place
