"""The source tree stays easy to find things in; `make metrics` prints the figures behind this."""

from __future__ import annotations

import pytest

from tests.house.metrics import Metrics, measure

MOST_SIBLINGS = 20


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return measure()


def test_no_class_name_has_two_meanings(metrics: Metrics) -> None:
    assert metrics.repeated_classes == {}


def test_no_folder_has_more_modules_than_one_can_survey(metrics: Metrics) -> None:
    folder, modules = metrics.most_siblings
    assert modules <= MOST_SIBLINGS, folder


def test_no_modules_import_each_other_not_even_for_types(metrics: Metrics) -> None:
    assert metrics.cycles == []
