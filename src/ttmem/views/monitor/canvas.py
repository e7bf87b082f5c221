"""The one widget: lines as Textual's strips, of which only the changed ones are painted again."""

from __future__ import annotations

from collections.abc import Sequence

from rich.color import Color
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ttmem.views.ink import Line, Style
from ttmem.views.monitor.theme import TURNED, Rgb, Theme, Tone


class Canvas(Widget):
    """Shows lines; `show` replaces them."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: ansi_default; }"
    ALLOW_SELECT = False

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._strips: list[Strip] = []
        self._width = 0
        self.wear(theme)

    def wear(self, theme: Theme) -> None:
        """Other colours; the next `show` paints everything."""
        self._styles = {style: _rich(theme.tone(style)) for style in Style}
        self._lines = []

    def show(self, lines: Sequence[Line], width: int) -> None:
        """Replaces the picture by lines of exactly that width; asks Textual to paint those that differ."""
        same_size = width == self._width and len(lines) == len(self._lines)
        old: Sequence[Line | None] = self._lines if same_size else [None] * len(lines)
        strips = self._strips if same_size else [Strip.blank(width)] * len(lines)
        changed = [at for at, line in enumerate(lines) if line != old[at]]
        for at in changed:
            strips[at] = self._strip(lines[at], width)
        self._lines, self._strips, self._width = list(lines), strips, width
        if not same_size:
            self.refresh()
        elif changed:
            self.refresh(*_regions(changed, width))

    def render_line(self, y: int) -> Strip:
        """The line for Textual."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def _strip(self, line: Line, width: int) -> Strip:
        styles = self._styles
        runs = _runs(line)
        return Strip([Segment(text, styles[style]) for text, style in runs], width)


def _runs(line: Line) -> list[tuple[str, Style]]:
    """Neighbours of one style together, and spaces with what stands before them: fewer for Textual."""
    runs: list[tuple[str, Style]] = []
    for span in line:
        before = runs[-1] if runs else ("", span.style)
        blank = span.text.isspace() and span.style not in TURNED and before[1] not in TURNED
        if runs and (span.style is before[1] or blank):
            runs[-1] = (before[0] + span.text, before[1])
        else:
            runs.append((span.text, span.style))
    return runs


def _regions(lines: Sequence[int], width: int) -> list[Region]:
    """Neighbouring lines together."""
    runs: list[list[int]] = []
    for at in lines:
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return [Region(0, run[0], width, len(run)) for run in runs]


def _rich(tone: Tone) -> RichStyle:
    return RichStyle(
        color=_colour(tone.fore),
        bgcolor=_colour(tone.back),
        bold=tone.bold or None,
        reverse=tone.reverse or None,
    )


def _colour(colour: Rgb | int | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_rgb(*colour) if isinstance(colour, tuple) else Color.from_ansi(colour)
