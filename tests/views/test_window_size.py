"""The size of the window is what the standard library says it is."""

from __future__ import annotations

import shutil

import pytest

from ttmem.views.terminal import terminal_size


@pytest.mark.parametrize("columns", [None, "0", "-3", "wide", "100"])
@pytest.mark.parametrize("lines", [None, "", "40"])
def test_it_is_that_of_shutil(
    columns: str | None, lines: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("COLUMNS", columns), ("LINES", lines)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert terminal_size((120, 24)) == shutil.get_terminal_size((120, 24))
