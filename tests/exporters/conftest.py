from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.exporters.history import record
from ttmem.commands import main
from ttmem.recording import Recording


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.ttmem"
    record(path)
    return path


@pytest.fixture
def recording(file: Path) -> Iterator[Recording]:
    with Recording(str(file)) as opened:
        yield opened


@pytest.fixture
def export(file: Path, tmp_path: Path) -> Callable[..., Path]:
    """Runs `ttmem export` and gives the file or directory that it wrote."""

    def run(form: str, *options: str) -> Path:
        out = tmp_path / f"out.{form}"
        assert main(["export", str(file), "--to", form, "-o", str(out), *options]) == 0
        return out

    return run
