"""Benchmarks against another commit: the same rows, compared by their medians."""

from __future__ import annotations

import pytest
from benchmarks.comparison import Compared, compared, table
from benchmarks.table import Row, read_rows, show

from tests.benchmarks.short_runs import short_run

START = "ps --json with 32 regions x 64 processes, beyond an empty Python, and a long name"
ROWS = [
    Row(START, 121.0, "ms", 80.0, note="9.1 times the 11 ms of python -c pass"),
    Row("server: events", 1_250_000.0, "events/s", 1_000_000.0, at_least=True),
    Row("ledger, of a Python dictionary loop", 0.0625, "", 1.0),
]


def test_a_printed_table_can_be_read_again() -> None:
    read = read_rows(f"measuring ...\n{show(ROWS)}\n")

    assert [(row.what, row.value, row.unit, row.limit, row.at_least) for row in read] == [
        (row.what, row.value, row.unit, row.limit, row.at_least) for row in ROWS
    ]


def _rounds(*values: float, at_least: bool = False) -> list[list[Row]]:
    return [[Row("row", value, "ms", 1.0, at_least)] for value in values]


@pytest.mark.parametrize(
    ("at_least", "slowdown"), [(False, 2.0), (True, 0.5)], ids=["time", "throughput"]
)
def test_medians_are_compared_so_one_outlier_changes_nothing(
    at_least: bool, slowdown: float
) -> None:
    there = _rounds(10, 10, 900, at_least=at_least)
    here = _rounds(20, 1, 20, at_least=at_least)

    (row,) = compared(there, here)

    assert (row.there, row.here, row.slowdown) == (10, 20, slowdown)


def test_only_rows_of_every_round_on_both_sides_are_compared() -> None:
    there = [[*ROWS], [*ROWS[:2]]]
    here = [[*ROWS, Row("new", 1.0, "ms", 1.0)], [*ROWS]]

    assert [row.what for row in compared(there, here)] == [START, "server: events"]


def test_more_than_five_percent_is_marked() -> None:
    rows = [Compared(f"{here}", "ms", 100, here, False) for here in (105.0, 105.1)]

    _, same, slower = table(rows, "main~10").splitlines()

    assert (same.split()[-1], slower.split()[-1]) == ("ok", "SLOWER")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--against", "no-such-commit"), "git knows no commit"),
        (("--against",), "expected one argument"),
    ],
    ids=["unknown", "missing"],
)
def test_a_commit_that_is_none_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = short_run(*arguments)

    assert (done.returncode, said in done.stderr) == (2, True)
