"""Limits of tests, and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttmem.errors import BadInput
from ttmem.measuring.measured import Baseline, Budget, Peak, parse_percent

MIB = 1 << 20
PEAK = Peak(dram=8 * MIB, l1=4 * MIB, l1_small=0, trace=0, cb=MIB, l1_used=5 * MIB, l1_per_core=100)
BOARD = "1 x p150, 11x10"


def test_limits_are_sizes_by_name() -> None:
    limits = Budget.of({"l1": "20 MiB", "dram": "8 GiB", "l1_per_core": "1.2 MiB", "leaks": 0})

    assert limits == Budget(
        {"l1": 20 * MIB, "dram": 8 << 30, "l1_per_core": int(1.2 * MIB), "leaks": 0}
    )
    assert Budget.parse("leaks=0, l1 = 20MiB") == Budget({"leaks": 0, "l1": 20 * MIB})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"l1": "20 Mops"}, "'20 Mops' is not a size"),
        ({"l2": "20 MiB"}, "there is no limit 'l2'; known are dram, l1,"),
        ({"l1": None}, "l1=None is not a size"),
        ({"leaks": True}, "leaks=True is not a size"),
        ({"leaks": -1}, "cannot be negative"),
    ],
)
def test_a_limit_that_cannot_be_understood_is_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Budget.of(given)


@pytest.mark.parametrize("text", ["", "leaks", "leaks=", "=5"])
def test_a_default_without_limits_says_how_to_write_them(text: str) -> None:
    with pytest.raises(BadInput, match=r"leaks=0,l1=20MiB|there is no limit"):
        Budget.parse(text)


def test_a_limit_is_passed_by_one_byte_more() -> None:
    assert list(Budget({"l1": 4 * MIB, "leaks": 0}).exceeded(PEAK, 0)) == []
    assert list(Budget({"l1": 4 * MIB - 1, "leaks": 0}).exceeded(PEAK, 64)) == [
        "l1: the peak was 4,194,304 B, 4,194,303 B are allowed",
        "leaks: 64 B were not freed, 0 B are allowed",
    ]


def test_an_unknown_figure_is_no_pass() -> None:
    (told,) = Budget({"l1": 4 * MIB}).exceeded(Peak(), 0)

    assert "cannot be checked" in told


def test_a_markers_own_limits_come_before_the_default() -> None:
    assert Budget({"leaks": 0, "l1": 5}).with_own(Budget({"leaks": 7})).most == {
        "leaks": 7,
        "l1": 5,
    }


def test_a_percentage_is_a_share() -> None:
    assert (parse_percent("2%"), parse_percent("2.5")) == (0.02, 0.025)
    for wrong in ("two", "-1%", ""):
        with pytest.raises(BadInput, match="is not a percentage"):
            parse_percent(wrong)


def baseline(tmp_path: Path, **figures: int) -> Baseline:
    file = Baseline(str(tmp_path / "base.json"))
    file.tests["t"] = {"board": BOARD, "l1": 4 * MIB} | figures
    file.write("0.81.1")
    return Baseline.read(file.file)


def test_an_increase_beyond_the_share_is_told(tmp_path: Path) -> None:
    known = baseline(tmp_path, dram=8_000_000)

    assert list(known.increased("t", PEAK, BOARD, 0.05)) == []
    assert list(known.increased("t", PEAK, BOARD, 0.02)) == [
        "dram: the peak was 8.0 MiB (+4.9%), 7.6 MiB in the baseline"
    ]


@pytest.mark.parametrize(
    ("test", "board", "told"),
    [
        ("t", "1 x n150, 8x7", "measured on 1 x p150, 11x10, and this is 1 x n150"),
        ("u", BOARD, "not in the baseline"),
    ],
)
def test_nothing_is_said_about_what_cannot_be_compared(
    tmp_path: Path, test: str, board: str, told: str
) -> None:
    known = baseline(tmp_path)

    with pytest.raises(BadInput, match=told):
        list(known.increased(test, PEAK, board, 0.0))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense", "is not a baseline"),
        ("[]", "not a baseline that ttmem"),
        (json.dumps({"schema": "ttmem.baseline/9"}), "'ttmem.baseline/9'"),
    ],
)
def test_a_file_of_another_version_says_how_to_make_a_new_one(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "base.json"
    file.write_text(text)

    with pytest.raises(BadInput, match=told) as problem:
        Baseline.read(str(file))
    assert "--ttmem-update-baseline" in str(problem.value)
