"""`ttmem ps --by` beside watched processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.probe.watched import Watched

Watch = Callable[..., Watched]


@pytest.mark.parametrize(
    ("sites", "by", "said"),
    [
        ("0", "op", "operations are not recorded"),
        ("0", "site", "call sites are not recorded"),
        ("1", "op", "outside any operation"),
    ],
)
def test_what_was_not_recorded_is_not_called_outside(
    watch: Watch, tmp_path: Path, sites: str, by: str, said: str
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('done'); input()", TTMEM_SITES=sites
    )
    process.wait_for("done")

    assert said in finish("ps", "--shm", tmp_path, "--by", by).stdout
