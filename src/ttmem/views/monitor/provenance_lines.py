"""Where the numbers of a device come from, and what they are known to miss."""

from __future__ import annotations

from ttmem.snapshots import Device, Provenance
from ttmem.views.ink import Line, Style, clip_line, faint, indent, ink, paragraph


def provenance_lines(device: Device, width: int) -> list[Line]:
    """Numbers of one origin share their words, which are said once, and whole."""
    if not device.provenance:
        return []
    named: dict[Provenance, list[str]] = {}
    for name, one in device.provenance.items():
        named.setdefault(one, []).append(name)
    lines: list[Line] = [clip_line(ink(" WHERE FROM", Style.TITLE), width)]
    titles = [", ".join(names) for names in named.values()]
    room = max(map(len, titles))
    for title, one in zip(titles, named, strict=True):
        misses = f"; misses: {one.misses}" if one.misses else ""
        told = paragraph(f"{one.source}: {one.method}{misses}", max(width - room - 3, 1))
        lines += [clip_line(line, width) for line in indent(told, room + 3, faint(f" {title}"))]
    return lines
