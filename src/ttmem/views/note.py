"""A sentence under the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttmem.views.ink import Line, Style, clip_line, indent, ink, paragraph


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence after its sign."""

    sign: str
    style: Style
    text: str

    def lines(self, width: int) -> list[Line]:
        """In as many lines as it needs."""
        by = len(self.sign) + 2
        return indent(paragraph(self.text, width - by), by, ink(f" {self.sign}", self.style))

    def line(self, width: int) -> Line:
        """In one line; the cut shows."""
        return clip_line((*ink(f" {self.sign} ", self.style), *ink(self.text)), width)


def note_lines(notes: Iterable[Note], width: int, whole: bool = True) -> list[Line]:
    """The notes, one under the other; else than `whole`, each is cut to one line."""
    if not whole:
        return [note.line(width) for note in notes]
    return [line for note in notes for line in note.lines(width)]
