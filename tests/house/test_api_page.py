"""docs/api.md is what the docstrings say."""

from __future__ import annotations

from docs.make_api import PAGE, api_page

import ttmem
import ttmem.client


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == api_page(), "run `make api`"


def test_every_public_name_has_an_entry() -> None:
    entries = {line[4:] for line in api_page().splitlines() if line.startswith("### ")}

    public = {f"ttmem.{name}" for name in ttmem.__all__ if name != "__version__"}
    public |= {f"ttmem.client.{name}" for name in ttmem.client.__all__}
    assert entries == public
