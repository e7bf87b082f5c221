"""What stands around every page, as pictures. TTMEM_UPDATE_PICTURES=1 takes them anew; then look at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.views.cases import four_devices
from tests.views.monitor.monitors import Desk, compare
from ttmem.snapshots import Losses
from ttmem.text import columns
from ttmem.views.monitor.frame import LOWEST, NARROWEST

DOCUMENT = Path(__file__).parents[3] / "docs" / "monitor.md"

SIZES = ((80, 24), (120, 40), (200, 60), (40, 8))
CALM = replace(four_devices(), losses=Losses(0, 0, 0))


def _following() -> Desk:
    desk = Desk()
    desk.answer(CALM)
    return desk


def _with_losses_and_filter() -> Desk:
    desk = Desk()
    desk.answer(four_devices())
    desk.press("/", *"worker")
    return desk


def _paused() -> Desk:
    desk = _following()
    desk.press("space")
    return desk


def _never_connected() -> Desk:
    desk = Desk()
    desk.fail("no server at /tmp/x.sock; start one with `ttmem serve`")
    return desk


def _disconnected() -> Desk:
    desk = _following()
    desk.clock.now += 12
    desk.fail("no server at /tmp/x.sock; start one with `ttmem serve`")
    return desk


def _stale_and_paused() -> Desk:
    desk = _paused()
    desk.clock.now += 31
    return desk


def _stale() -> Desk:
    desk = _following()
    desk.clock.now += 3.5
    return desk


CASES: dict[str, Callable[[], Desk]] = {
    case.__name__.strip("_"): case
    for case in (
        _following,
        _with_losses_and_filter,
        _paused,
        _never_connected,
        _disconnected,
        _stale,
        _stale_and_paused,
    )
}


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_frame_looks_as_it_did(name: str, width: int, height: int) -> None:
    lines = CASES[name]().lines(width, height)

    assert len(lines) == height
    assert max(map(columns, lines)) <= width
    compare(f"frame-{name}-{width}x{height}", lines)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("width", "height"), [(20, 5), (1, 1), (39, 24), (300, 3), (7, 2)])
def test_a_window_that_is_too_small_says_so(name: str, width: int, height: int) -> None:
    lines = CASES[name]().lines(width, height)

    assert len(lines) == height
    assert max(map(columns, lines)) <= width


def test_a_window_of_20x5_says_what_it_needs_and_that_the_server_is_gone() -> None:
    lines = CASES["disconnected"]().lines(20, 5)

    assert lines == ["DISCONNECTED", "window too small", "20x5, needs 40x8", "q quits", ""]


def test_the_document_names_the_smallest_window() -> None:
    words = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert f"The window needs at least {NARROWEST} columns and {LOWEST} lines" in words


def test_without_block_signs_everything_is_ascii() -> None:
    desk = Desk(ascii_only=True)
    desk.answer(four_devices())
    desk.press("space")

    screen = desk.screen(120, 40)

    assert screen.isascii()
    assert "###   ##  #  #  ### #### ###" in screen


def test_a_feed_that_hangs_is_stale_only_after_three_intervals() -> None:
    desk = _following()
    desk.press("-", "-")  # 5 seconds
    desk.clock.now += 14
    assert "no answer" not in desk.screen()

    desk.clock.now += 2
    assert "no answer for 16 s" in desk.screen()
