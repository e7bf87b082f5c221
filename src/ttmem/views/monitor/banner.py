"""Large letters: PAUSED, DISCONNECTED, STALE cannot be overlooked."""

from __future__ import annotations

from ttmem.views.ink import Line, Style, ink
from ttmem.views.text import columns

# Five lines of pixels per letter.
_LETTERS = {
    "A": (" ## ", "#  #", "####", "#  #", "#  #"),
    "C": (" ###", "#   ", "#   ", "#   ", " ###"),
    "D": ("### ", "#  #", "#  #", "#  #", "### "),
    "E": ("####", "#   ", "### ", "#   ", "####"),
    "I": ("#", "#", "#", "#", "#"),
    "L": ("#   ", "#   ", "#   ", "#   ", "####"),
    "N": ("#  #", "## #", "####", "# ##", "#  #"),
    "O": (" ## ", "#  #", "#  #", "#  #", " ## "),
    "P": ("### ", "#  #", "### ", "#   ", "#   "),
    "S": (" ###", "#   ", " ## ", "   #", "### "),
    "T": ("###", " # ", " # ", " # ", " # "),
    "U": ("#  #", "#  #", "#  #", "#  #", " ## "),
}
_HALVES = {"  ": " ", "# ": "▀", " #": "▄", "##": "█"}


def banner_lines(
    word: str, sentences: list[str], width: int, style: Style, ascii_only: bool, small: bool
) -> list[Line]:
    """The word in large letters with the sentences beside or under it; `small`: one line in all."""
    rows = _rows(word, ascii_only)
    wide = len(rows[0]) + 2
    if small or wide > width:
        return [ink(f" {word} ", Style.BANNER) + ink(" " + " · ".join(sentences))]
    if len(sentences) <= len(rows) and wide + 2 + max(map(columns, sentences)) <= width:
        beside = [*sentences, *[""] * len(rows)]
        return [
            ink(f" {row}  ", style) + ink(text) for row, text in zip(rows, beside, strict=False)
        ]
    return [*(ink(f" {row}", style) for row in rows), *(ink(f" {text}") for text in sentences)]


def _rows(word: str, ascii_only: bool) -> list[str]:
    pixels = [" ".join(_LETTERS[letter][at] for letter in word) for at in range(5)]
    if ascii_only:
        return pixels
    pairs = zip([*pixels[::2]], [*pixels[1::2], " " * len(pixels[0])], strict=True)
    return ["".join(_HALVES[a + b] for a, b in zip(top, low, strict=True)) for top, low in pairs]
