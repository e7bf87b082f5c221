"""What the documents say must be so."""

from __future__ import annotations

import json
import re
from datetime import timezone
from pathlib import Path

import pytest

from ttmem.snapshots import from_json
from ttmem.views.ps import render

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PICTURES = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_table_in_the_readme_is_that_of_the_recorded_snapshot() -> None:
    document = json.loads((PICTURES / "snapshot.json").read_text("utf-8"))
    table = render(from_json(document), width=100, color=False, zone=timezone.utc)
    assert f"$ ttmem ps\n{table}\n```" in README


def test_the_explained_failure_in_the_readme_is_that_of_the_real_program() -> None:
    assert (PICTURES / "out-of-memory.txt").read_text("utf-8") in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_place_on_somebodys_machine(page: Path) -> None:
    places = re.findall(r"(?<!/PID)/(?:work|home|root|Users)/[\w./-]*", page.read_text("utf-8"))
    assert places == []
