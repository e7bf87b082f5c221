"""What a page carries, read as the page reads it: by its own modules, in node."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import ran

ASK = Path(__file__).with_name("ask.mjs")


def node() -> str:
    """Skips the test if there is none."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


def payload_of(page: str) -> str:
    found = re.search(r'id="data">([^<]*)</script>', page)
    assert found is not None
    return found[1]


def ask(page: Path, wanted: list[tuple[int, int]], folder: Path) -> tuple[Any, list[Any]]:
    """The document of a page, and what it knows of (device, position) of each question."""
    data = folder / "payload"
    data.write_text(payload_of(page.read_text("utf-8")))
    done = ran([node(), str(ASK)], input=json.dumps([str(data), wanted]))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["document"], answer["answers"]
