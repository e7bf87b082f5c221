from __future__ import annotations

import pytest

from ttmem.text import clean, clip, columns, wrap


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("python model.py", "python model.py"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202egnp", "\\u202egnp"),
        ("\udcff", "\\udcff"),
        ("no\u00a0break", "no break"),
        ("推論", "推論"),
    ],
)
def test_what_could_act_on_the_terminal_is_escaped(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_wide_letters_take_two_columns_and_accents_none() -> None:
    assert [columns(text) for text in ("abc", "推論", "e\u0301")] == [3, 4, 1]


def test_a_cut_text_ends_in_an_ellipsis() -> None:
    assert [clip("python", room) for room in (6, 5, 1, 0)] == ["python", "pyth…", "…", ""]


def test_a_wide_letter_is_never_cut_in_two() -> None:
    assert clip("推論推論", 4) == "推…"


def test_a_size_stays_on_one_line_with_its_unit() -> None:
    assert wrap("it holds 159.8 MiB, too much", 14) == ["it holds", "159.8 MiB, too", "much"]


def test_a_word_longer_than_the_line_is_broken() -> None:
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
