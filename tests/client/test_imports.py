"""The client is light: it can be imported into any application."""

from __future__ import annotations

import sys

import pytest

from tests.client.scripts import SOURCES
from tests.own_process import ran

HEAVY = ("numpy", "asyncio", "yaml", "multiprocessing", "ttmem._native", "ttmem.ledger", "ttmem.hw")


def test_importing_the_client_pulls_in_nothing_heavy() -> None:
    code = (
        f"import sys, ttmem.client, ttmem.client.query; print(*(set({HEAVY}) & set(sys.modules)))"
    )

    done = ran([sys.executable, "-W", "error", "-c", code], env={"PYTHONPATH": SOURCES}, check=True)

    assert done.stdout.strip() == ""


def test_the_front_door_exports_what_it_says() -> None:
    import ttmem.client as client

    there = {name: getattr(client, name) for name in client.__all__}
    public = {name for name in vars(client) if name[0].isupper() and name != "TYPE_CHECKING"}
    assert set(there) == public
    with pytest.raises(AttributeError):
        _ = client.NoSuchName
