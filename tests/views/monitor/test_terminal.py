"""The terminal layer on a real pty."""

from __future__ import annotations

import termios
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE_S
from tests.views.monitor.terminal_program import Emulator, Window
from ttmem.views.ink import Line, Style, fitted, ink
from ttmem.views.monitor.terminal import Event, Terminal
from ttmem.views.monitor.theme import Depth, Theme

THEME = Theme(Depth.TRUE)


def screen(*texts: str) -> list[Line]:
    return [fitted(ink(text), 20) for text in texts]


def shown(terminal: Terminal, window: Window, lines: Sequence[Line]) -> list[str]:
    """The window after these lines were painted."""
    fresh = Emulator(window.screen.width, window.screen.height)
    for at, line in enumerate(lines, start=1):
        fresh.write(f"\x1b[{at};1H{THEME.painted(line, fresh.width)}")
    end = time.monotonic() + PATIENCE_S
    while window.screen.cells != fresh.cells and time.monotonic() < end:
        terminal.show(lines, THEME)
        window.read(0.002)
    return window.read()


def events(terminal: Terminal, count: int) -> list[Event]:
    end = time.monotonic() + PATIENCE_S
    found: list[Event] = []
    while len(found) < count and time.monotonic() < end:
        found += terminal.events(0.1)
    return found


def test_it_takes_the_screen_and_gives_it_back() -> None:
    with Window(20, 3) as window:
        with Terminal(window.inside, window.inside) as terminal:
            assert shown(terminal, window, screen("a", "b", "c")) == ["a", "b", "c"]
            assert window.screen.modes[1049]
            assert not window.screen.modes[25]
        window.read(0.05)
        assert window.screen.modes == {
            **dict.fromkeys((1049, 1000, 1006, 2026), False),
            25: True,
            7: True,
        }
        assert termios.tcgetattr(window.inside) == window.modes_before


def test_an_error_gives_it_back_too() -> None:
    with Window(20, 3) as window:
        with (
            pytest.raises(ZeroDivisionError),
            Terminal(window.inside, window.inside) as terminal,
        ):
            terminal.show(screen(str(1 // 0)), THEME)
        window.read(0.05)
        assert not window.screen.modes[1049]
        assert termios.tcgetattr(window.inside) == window.modes_before


def test_only_lines_that_have_changed_are_written_again() -> None:
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        shown(terminal, window, screen("aaa", "bbb", "ccc"))
        window.screen = Emulator(20, 3)  # forgets what was there

        terminal.show(screen("aaa", "BBB", "ccc"), THEME)

        deadline = time.monotonic() + PATIENCE_S
        while window.read(0.01) == ["", "", ""] and time.monotonic() < deadline:
            pass
        assert window.read() == ["", "BBB", ""]


def test_another_theme_and_another_size_paint_everything() -> None:
    with Window(20, 2) as window, Terminal(window.inside, window.inside) as terminal:
        shown(terminal, window, screen("a", "b"))
        terminal.show(screen("a", "b"), Theme(Depth.TRUE, dark=False))
        deadline = time.monotonic() + PATIENCE_S
        light = Theme(Depth.TRUE, dark=False).tone(Style.PLAIN).sgr
        while time.monotonic() < deadline and light not in window.screen.cells[0][0][1]:
            window.read(0.01)
        assert {colour for row in window.screen.cells for _, colour in row} == {f"0;{light}"}

        window.resize(20, 3)
        assert shown(terminal, window, screen("a", "b", "c")) == ["a", "b", "c"]


TEXTS = st.text(st.sampled_from("ab推▒é "), max_size=12)
LINES = st.lists(
    st.lists(st.tuples(TEXTS, st.sampled_from(list(Style))), max_size=4), min_size=3, max_size=3
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_after_any_frames_the_screen_is_the_last_one(
    frames: list[list[list[tuple[str, Style]]]],
) -> None:
    made = [
        [fitted(tuple(s for t, style in line for s in ink(t, style)), 20) for line in frame]
        for frame in frames
    ]
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        for lines in made:
            expected = ["".join(span.text for span in line).rstrip() for line in lines]
            assert shown(terminal, window, lines) == expected


def test_escape_and_a_key_right_after_it_are_both_delivered() -> None:
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        window.type(b"\x1b2")
        assert events(terminal, 2) == ["escape", "2"]
        window.type(b"\x1b")
        assert events(terminal, 1) == ["escape"]
        window.type(b"\x1b[")
        assert events(terminal, 2) == ["escape", "["]


def test_control_keys_are_keys_and_no_signals() -> None:
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        window.type(b"\x03\x1a\x13\x11\rx")
        assert events(terminal, 4) == ["ctrl+c", "ctrl+z", "enter", "x"]


def test_another_thread_ends_the_wait() -> None:
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        waker = threading.Timer(0.05, terminal.wake)
        begun = time.monotonic()
        waker.start()
        assert terminal.events(10 * PATIENCE_S) == []
        assert time.monotonic() - begun < PATIENCE_S


def test_a_terminal_that_takes_nothing_holds_nobody() -> None:
    frames = [[ink(letter * 200) for _ in range(50)] for letter in "abcdefgh"]
    with Window(200, 50) as window:
        with Terminal(window.inside, window.inside) as terminal:
            begun = time.monotonic()
            for lines in frames * 10:  # nobody reads them
                terminal.show(lines, THEME)
            window.type(b"q")
            assert events(terminal, 1) == ["q"]
        assert time.monotonic() - begun < PATIENCE_S
        assert termios.tcgetattr(window.inside) == window.modes_before


def test_a_terminal_that_was_slow_shows_the_latest_picture() -> None:
    frames = [[ink(letter * 200) for _ in range(50)] for letter in "abcdefgh"]
    with Window(200, 50) as window, Terminal(window.inside, window.inside) as terminal:
        for lines in frames:
            terminal.show(lines, THEME)
        assert shown(terminal, window, frames[-1])[0] == "h" * 200


def test_a_terminal_that_is_gone_is_seen() -> None:
    with Window(20, 3) as window, Terminal(window.inside, window.inside) as terminal:
        window.hang_up()
        end = time.monotonic() + PATIENCE_S
        while not terminal.gone and time.monotonic() < end:
            terminal.events(0.1)
        assert terminal.gone
        terminal.show(screen("a"), THEME)
