"""Titled blocks of lines, one under the other."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.views.ink import EMPTY, Line, Span, Style, faint, ink, paint


def section(title: str, remark: str, lines: list[Line]) -> list[Line]:
    """A block under its title; nothing if there is nothing to show."""
    if not lines:
        return []
    head = ink(title, Style.TITLE)
    return [(*head, Span("  "), *faint(remark)) if remark else head, *lines]


def stack(sections: Iterable[list[Line]], airy: bool = True) -> list[Line]:
    """The blocks that are not empty, with an empty line between them if `airy`."""
    lines: list[Line] = []
    for block in sections:
        if block:
            lines += [*([EMPTY] if lines and airy else []), *block]
    return lines


def page(sections: Iterable[list[Line]], width: int, color: bool) -> str:
    """The blocks as text."""
    return paint(stack(sections), width, color)
