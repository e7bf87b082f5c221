"""Colours of the monitor: tt-smi's palette, dark and light, for terminals with many, few or no colours.

The background is painted too: a palette reads well only on the ground that it was made for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ttmem.views.ink import Line, Style, fitted

Rgb = tuple[int, int, int]
Choice = tuple[Rgb, int]  # true colour, and its place among the sixteen


class Depth(Enum):
    """How many colours a terminal has."""

    NONE = 0
    FEW = 16
    MANY = 256
    TRUE = 1 << 24


class Tone(NamedTuple):
    """Colours of one style; a number is a place in the terminal's own table."""

    fore: Rgb | int | None = None
    back: Rgb | int | None = None
    bold: bool = False
    reverse: bool = False

    @property
    def sgr(self) -> str:
        """The numbers of the escape sequence that switches it on."""
        codes = [code for code, on in (("1", self.bold), ("7", self.reverse)) if on]
        return ";".join([*codes, *_codes(self.fore, 38), *_codes(self.back, 48)])


def _codes(colour: Rgb | int | None, kind: int) -> list[str]:
    if colour is None:
        return []
    if isinstance(colour, tuple):
        return [str(kind), "2", *map(str, colour)]
    if colour < 16:
        return [str(kind - 8 + colour if colour < 8 else kind + 52 + colour - 8)]
    return [str(kind), "5", str(colour)]


GREEN, YELLOW, RED = (30, 181, 125), (255, 209, 10), (240, 79, 94)
_BOLD = {Style.TITLE, Style.ALARM, Style.LABEL, Style.BANNER, Style.CURSOR}
TURNED = {Style.BANNER, Style.CURSOR}  # the colour is that of the ground

_COLOURS: Mapping[Style, tuple[Choice, Choice]] = {  # dark, light
    Style.PLAIN: (((222, 226, 230), 7), ((36, 41, 47), 0)),
    Style.TITLE: (((255, 255, 255), 15), ((0, 0, 0), 0)),
    Style.FAINT: (((128, 136, 144), 8), ((108, 114, 120), 8)),
    Style.GOOD: ((GREEN, 2), ((10, 118, 78), 2)),
    Style.WARN: (((255, 140, 0), 3), ((176, 84, 0), 5)),
    Style.BAD: ((RED, 1), ((196, 32, 52), 1)),
    Style.ALARM: ((RED, 9), ((196, 32, 52), 1)),
    Style.LABEL: ((YELLOW, 11), ((134, 92, 0), 4)),
    Style.BORDER: (((24, 138, 96), 2), ((60, 150, 116), 2)),
    Style.BANNER: ((YELLOW, 3), (YELLOW, 3)),
    Style.CURSOR: ((GREEN, 2), ((10, 118, 78), 2)),
    Style.DRAM: (((84, 160, 255), 12), ((20, 92, 200), 4)),
    Style.L1: ((GREEN, 10), ((10, 118, 78), 2)),
    Style.L1_SMALL: (((64, 208, 214), 14), ((0, 118, 130), 6)),
    Style.CB: (((165, 148, 240), 13), ((104, 78, 190), 5)),
    Style.TRACE: (((150, 190, 235), 6), ((64, 104, 156), 12)),
    Style.RING: (((232, 196, 104), 3), ((140, 98, 0), 3)),
    Style.HEAT_0: (((84, 92, 100), 8), ((160, 166, 172), 8)),
    Style.HEAT_1: (((22, 130, 92), 2), ((92, 166, 132), 6)),
    Style.HEAT_2: ((GREEN, 10), ((10, 118, 78), 2)),
    Style.HEAT_3: ((YELLOW, 11), ((150, 100, 0), 3)),
    Style.HEAT_4: ((RED, 9), ((196, 32, 52), 1)),
}
_GROUND: Mapping[bool, Choice] = {True: ((16, 20, 24), 0), False: ((250, 250, 250), 15)}
_INK_ON_COLOUR: Mapping[bool, Choice] = {True: ((8, 10, 12), 0), False: ((0, 0, 0), 0)}


class Theme:
    """What each style looks like on one kind of terminal."""

    def __init__(self, depth: Depth, dark: bool = True) -> None:
        self.depth = depth
        self.dark = dark
        self._tones = {style: self._tone(style) for style in Style}
        self._switch = {style: f"\x1b[0;{tone.sgr}m" for style, tone in self._tones.items()}

    def tone(self, style: Style) -> Tone:
        return self._tones[style]

    def painted(self, line: Line, width: int) -> str:
        """The line for a terminal, filled with the ground to that width."""
        out: list[str] = []
        now: Style | None = None
        for text, style in fitted(line, width):
            if style is not now and not (text.isspace() and now and not {style, now} & TURNED):
                out.append(self._switch[style])  # a space looks the same in the colour before it
                now = style
            out.append(text)
        return "".join([*out, "\x1b[0m"])

    def _tone(self, style: Style) -> Tone:
        bold, turned = style in _BOLD, style in TURNED
        if self.depth is Depth.NONE:
            return Tone(bold=bold and not turned, reverse=turned)
        colour = self._colour(_COLOURS[style][not self.dark])
        if turned:
            light_on_it = style is Style.CURSOR and not self.dark
            ink = ((255, 255, 255), 15) if light_on_it else _INK_ON_COLOUR[self.dark]
            return Tone(self._colour(ink), colour, bold)
        return Tone(colour, self._colour(_GROUND[self.dark]), bold)

    def _colour(self, choice: Choice) -> Rgb | int:
        rgb, place = choice
        if self.depth is Depth.TRUE:
            return rgb
        return _nearest_of_256(rgb) if self.depth is Depth.MANY else place


def depth_of(forbidden: bool = False) -> Depth:
    """What the terminal of this process can show; NO_COLOR and --no-color forbid it."""
    term = os.environ.get("TERM", "")
    if forbidden or os.environ.get("NO_COLOR") or term in ("", "dumb"):
        return Depth.NONE
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "direct" in term:
        return Depth.TRUE
    return Depth.MANY if "256" in term or "kitty" in term else Depth.FEW


def _nearest_of_256(rgb: Rgb) -> int:
    """In the 6 x 6 x 6 cube, or in the ramp of greys where that is nearer."""
    steps = (0, 95, 135, 175, 215, 255)
    cube = [min(range(6), key=lambda at: abs(steps[at] - part)) for part in rgb]
    grey = max(0, min(23, round((sum(rgb) / 3 - 8) / 10)))
    in_cube = _distance(rgb, (steps[cube[0]], steps[cube[1]], steps[cube[2]]))
    in_greys = _distance(rgb, (8 + 10 * grey,) * 3)
    if in_greys < in_cube:
        return 232 + grey
    return 16 + 36 * cube[0] + 6 * cube[1] + cube[2]


def _distance(one: Rgb, other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
