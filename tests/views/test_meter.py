from __future__ import annotations

import pytest

from ttmem.views.figures import Pairs, Units
from ttmem.views.ink import Line, Style
from ttmem.views.meter import level, meter, percentage, share_text


def plain(line: Line) -> str:
    return "".join(span.text for span in line)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (0, "··········   0%"),
        (1, "▏·········  <1%"),
        (500, "█████·····  50%"),
        (999, "█████████▉ >99%"),
        (1000, "██████████ 100%"),
        (1001, "! over capacity"),
        (5000, "! over capacity"),
    ],
)
def test_the_bar_tells_full_from_nearly_full_and_from_too_much(used: int, expected: str) -> None:
    assert plain(meter(used, 1000, 15)) == expected


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0%"), (0.004, "<1%"), (0.5, "50%"), (0.996, ">99%"), (1.0, "100%")],
)
def test_a_share_is_neither_nothing_nor_all_by_rounding(share: float, text: str) -> None:
    assert share_text(share) == text


def test_a_bar_over_capacity_is_all_alarm() -> None:
    (span,) = meter(2, 1, 30)
    assert (span.text, span.style) == ("!!!!!!!!!!!!!!!! over capacity", Style.ALARM)


def test_no_percentage_is_above_one_hundred() -> None:
    assert percentage(333, 171) == "over"


@pytest.mark.parametrize(
    ("used", "style"),
    [
        (749, Style.GOOD),
        (750, Style.WARN),
        (899, Style.WARN),
        (900, Style.BAD),
        (1001, Style.ALARM),
    ],
)
def test_colours_change_at_75_and_90_percent(used: int, style: Style) -> None:
    assert level(used, 1000) is style


def test_an_unknown_capacity_has_no_bar() -> None:
    cell = plain(Pairs(Units.BINARY).line(5 << 20, None)) + plain(meter(5 << 20, None, 10))
    assert cell.rstrip() == "5.0 MiB / N/A"
