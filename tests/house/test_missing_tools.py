"""A program that tests need and cannot find: a reason to skip at a desk, a failure in CI."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.own_process import ran

A_TEST = """
import pytest
def test_it(): pytest.skip({reason!r})
"""


@pytest.mark.parametrize(
    ("reason", "ci", "outcome"),
    [
        ("the checker is not installed", "", "1 skipped"),
        ("the checker is not installed", "true", "1 failed"),
        ("needs root", "true", "1 skipped"),
    ],
)
def test_only_in_ci_a_missing_program_fails(
    tmp_path: Path, reason: str, ci: str, outcome: str
) -> None:
    shutil.copy(conftest.__file__, tmp_path)
    (tmp_path / "test_it.py").write_text(A_TEST.format(reason=reason))

    done = ran(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"CI": ci},
    )

    assert outcome in done.stdout
