"""Colours that can be read, on every kind of terminal."""

from __future__ import annotations

import io

import pytest

from ttmem.text import columns
from ttmem.views.ink import Style, ink
from ttmem.views.monitor.theme import Depth, Theme, depth_of
from ttmem.views.terminal import lacks_signs, plain_signs

SHADES = {Style.BORDER, Style.HEAT_0, Style.HEAT_1}  # lines and cells, no text to read


def _luminance(rgb: tuple[int, int, int]) -> float:
    parts = [part / 255 for part in rgb]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
@pytest.mark.parametrize("style", list(Style), ids=lambda style: style.name)
def test_every_style_stands_out_from_its_ground(style: Style, dark: bool) -> None:
    tone = Theme(Depth.TRUE, dark).tone(style)
    assert isinstance(tone.fore, tuple)
    assert isinstance(tone.back, tuple)
    assert _contrast(tone.fore, tone.back) >= (2.0 if style in SHADES else 4.5)


@pytest.mark.parametrize("depth", [Depth.FEW, Depth.MANY])
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_no_style_is_invisible_with_few_colours(depth: Depth, dark: bool) -> None:
    theme = Theme(depth, dark)
    assert [style for style in Style if theme.tone(style).fore == theme.tone(style).back] == []


def test_without_colour_the_cursor_and_the_banner_are_turned() -> None:
    theme = Theme(Depth.NONE)
    assert [style for style in Style if theme.tone(style).reverse] == [Style.BANNER, Style.CURSOR]
    assert theme.painted(ink("x", Style.BAD), 2) == "\x1b[0;mx \x1b[0m"
    assert theme.painted(ink("x", Style.CURSOR), 2) == "\x1b[0;7mx\x1b[0;m \x1b[0m"


def test_a_line_is_filled_with_the_ground() -> None:
    painted = Theme(Depth.TRUE).painted(ink("ab", Style.GOOD), 4)
    assert painted == "\x1b[0;38;2;30;181;125;48;2;16;20;24mab  \x1b[0m"


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, Depth.TRUE),
        ({"TERM": "xterm-256color"}, Depth.MANY),
        ({"TERM": "linux"}, Depth.FEW),
        ({"TERM": "dumb"}, Depth.NONE),
        ({"TERM": ""}, Depth.NONE),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, Depth.NONE),
    ],
    ids=str,
)
def test_the_terminal_says_how_many_colours_it_has(
    environment: dict[str, str], depth: Depth, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert depth_of() is depth
    assert depth_of(forbidden=True) is Depth.NONE


def test_every_sign_has_a_plain_one_of_the_same_width() -> None:
    signs = "█▉▊▋▌▍▎▏▁▂▃▄▅▆▇▀▓▒░─│┌┐└┘├┤┬┴┼●∙·…▲▼↑↓⣿⠁⡇推用é"
    plain = plain_signs(signs)
    assert plain.isascii()
    assert columns(plain) == columns(signs)


def test_an_encoding_without_signs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("LC_ALL", raising=False)
    assert lacks_signs(io.TextIOWrapper(io.BytesIO(), "latin-1"))
    assert not lacks_signs(io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setenv("LC_ALL", "C")
    assert lacks_signs(io.TextIOWrapper(io.BytesIO(), "utf-8"))
