"""What the documents say must be so."""

from __future__ import annotations

import re
from datetime import timezone
from pathlib import Path

import pytest

from tests.views.cases import readme
from ttmem.views.ps import render

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_picture_in_the_readme_is_the_real_table() -> None:
    picture = render(readme(), width=100, color=False, zone=timezone.utc)
    assert f"```\n{picture}\n```" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_place_on_somebodys_machine(page: Path) -> None:
    places = re.findall(r"/(?:work|home|root|Users)/[\w./-]*", page.read_text("utf-8"))
    assert places == []
