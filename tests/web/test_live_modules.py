"""The parts of the live page that draw nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_what_the_live_page_shows_follows_from_the_snapshot() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    tests = Path(__file__).with_name("live-data.test.js")

    done = subprocess.run([node, "--test", tests], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
