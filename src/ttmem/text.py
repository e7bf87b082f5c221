"""Text that others wrote, made safe for a terminal."""

from __future__ import annotations


def printable(text: str | bytes, instead: str = "?") -> str:
    """Whatever is no printable letter becomes `instead`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else instead for letter in text)
