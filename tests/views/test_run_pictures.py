"""What `ttmem run` says, as pictures. TTMEM_UPDATE_PICTURES=1 takes them anew; then look at them."""

from __future__ import annotations

import pytest

from tests.views.servers import clash, failures, out_of_memory, process, summary
from tests.views.test_pictures import WIDTHS, compare
from ttmem.analysis.failures import explain
from ttmem.probe.report import FailedAllocation
from ttmem.text import columns
from ttmem.views.analysis.failures import render_failure
from ttmem.views.summary import render_summary


@pytest.mark.parametrize("width", WIDTHS)
def test_the_summary_looks_as_it_did(width: int) -> None:
    compare(f"run-summary-{width}", summary(width))


@pytest.mark.parametrize("width", WIDTHS)
def test_failures_look_as_they_did(width: int) -> None:
    compare(f"run-failures-{width}", failures(width))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_window(width: int) -> None:
    lines = (summary(width) + "\n" + failures(width)).splitlines()

    assert max(map(columns, lines)) <= width


@pytest.mark.parametrize("failure", [out_of_memory(), clash()])
def test_a_failure_takes_a_dozen_lines_at_most(failure: FailedAllocation) -> None:
    text = render_failure(1, explain(failure), width=120, color=False)

    assert len(text.splitlines()) <= 12


def test_hundreds_of_processes_are_not_all_listed() -> None:
    text = render_summary([process()] * 300, width=120, color=False)

    assert text.splitlines()[-1] == "ttmem: 292 more processes; `ttmem dump` has them"
