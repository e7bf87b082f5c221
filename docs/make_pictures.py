"""`make pictures`: one picture of each view of `ttmem top`, from the real program on the demo's processes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ttmem.commands.demo import DemoProcesses
from ttmem.feeds import ServerFeed
from ttmem.text import columns
from ttmem.views.ink import Line, Style
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.theme import Depth, Rgb, Theme
from ttmem.views.monitor.watch import Choice, Follower, Watch

FOLDER = Path(__file__).parent / "pictures"
SIZE = (120, 36)
SECONDS = float(os.environ.get("PICTURE_SECONDS", "75"))  # charts need a past
SETTLE = 1.5  # seconds until a page has its details

CELL, LINE, SIGN = 8.4, 19, 14  # pixels: width and height of a cell, size of a letter
EDGE, BAR = 12, 34  # pixels around the screen, and above it for the title
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(lines: Sequence[Line], width: int, theme: Theme, title: str) -> str:
    """A screen as an SVG of its own: a window with a title, colours and cells as in a terminal."""
    ground = _hex(theme.tone(Style.PLAIN).back)
    wide, high = round(width * CELL + 2 * EDGE), len(lines) * LINE + EDGE + BAR
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        f"<style>text{{font:{SIGN}px {FONTS};white-space:pre;fill:#dee2e6}}"
        + "".join(_rules(theme, lines))
        + "</style>",
        f'<rect width="{wide}" height="{high}" rx="8" fill="{ground}" stroke="#555b61"/>',
        *(
            f'<circle cx="{20 + 20 * at}" cy="17" r="6" fill="{colour}"/>'
            for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<text x="{wide / 2}" y="22" text-anchor="middle">{escape(title)}</text>',
    ]
    for at, line in enumerate(lines):
        parts += _line(line, BAR + at * LINE, theme)
    return "\n".join([*parts, "</svg>\n"])


def _line(line: Line, top: int, theme: Theme) -> list[str]:
    """Each span is stretched to its cells, whatever font there is."""
    out, column = [], 0
    for text, style in line:
        cells = columns(text)
        left, wide = EDGE + column * CELL, cells * CELL
        column += cells
        back = theme.tone(style).back
        if back != theme.tone(Style.PLAIN).back:
            box = f'x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{LINE}"'
            out.append(f'<rect {box} fill="{_hex(back)}"/>')
        if bare := text.strip():
            left += CELL * (len(text) - len(text.lstrip()))
            size = f'textLength="{columns(bare) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            place = f'x="{left:.1f}" y="{top + SIGN}" {size}'
            out.append(f'<text class="{style.name}" {place}>{escape(bare)}</text>')
    return out


def _rules(theme: Theme, lines: Sequence[Line]) -> list[str]:
    used = {style for line in lines for _, style in line}
    return [
        f".{style.name}{{fill:{_hex(theme.tone(style).fore)}"
        + (";font-weight:bold}" if theme.tone(style).bold else "}")
        for style in Style
        if style in used
    ]


def _hex(colour: Rgb | int | None) -> str:
    assert isinstance(colour, tuple), "pictures are in true colour"
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _take(monitor: Monitor, watch: Watch, follower: Follower) -> None:
    def settle(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            follower.wait(0.2)
            watch.take(follower.readings())
            monitor.picture(*SIZE)

    settle(SECONDS)
    for digit, page in enumerate(PAGES, start=1):
        monitor.press(str(digit))
        follower.hurry()
        settle(SETTLE)
        picture = svg(monitor.picture(*SIZE), SIZE[0], Theme(Depth.TRUE), f"ttmem top: {page.name}")
        file = FOLDER / f"top-{page.name.lower()}.svg"
        file.write_text(picture, encoding="utf-8")
        print(f"{file.relative_to(FOLDER.parent.parent)}  {len(picture) // 1024} KiB", flush=True)


def main() -> None:
    """Takes them all."""
    FOLDER.mkdir(exist_ok=True)
    print(f"letting the demo run for {SECONDS:g} s, for a past to show", flush=True)
    with DemoProcesses() as processes:
        watch = Watch(Choice())
        monitor = Monitor(lambda: "server /tmp/tt_allocation_server.sock", watch, PAGES)
        monitor.state.span = 60
        feed = ServerFeed(processes.socket)
        follower = Follower(feed, monitor.question, lambda: monitor.interval)
        follower.start()
        try:
            _take(monitor, watch, follower)
        finally:
            follower.stop()


if __name__ == "__main__":
    main()
