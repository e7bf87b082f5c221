"""One wheel serves every CPython of the machine, and installing it needs no compiler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.house.wheel import build, install
from tests.interpreters import Interpreter, find_interpreters

pytestmark = pytest.mark.slow

MOST_BYTES = 3 << 20  # of ttmem's own files, without what Python caches


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


# `make test-pythons` installs it for each of them.
OLDEST_AND_NEWEST = find_interpreters()[:: max(1, len(find_interpreters()) - 1)]


@pytest.mark.parametrize("interpreter", OLDEST_AND_NEWEST, ids=lambda each: str(each.series))
def test_it_runs_where_there_is_no_compiler(
    interpreter: Interpreter, wheel: Path, tmp_path: Path
) -> None:
    assert wheel.name.endswith("-cp310-abi3-manylinux_2_34_x86_64.whl")

    programs = install(interpreter, wheel, tmp_path / "venv")

    asked = [str(programs / "ttmem"), "ps", "--json", "--socket", str(tmp_path / "none")]
    nothing = subprocess.run(asked, capture_output=True, text=True)
    assert "no server" in nothing.stderr
    demo = subprocess.run([programs / "ttmem", "demo"], capture_output=True, text=True, check=True)
    assert "PROCESSES" in demo.stdout
    where = (
        "import json, ttmem, ttmem._native; print(json.dumps([ttmem.__version__, ttmem.__file__]))"
    )
    told = subprocess.run([programs / "python", "-c", where], capture_output=True, check=True)
    version, first_file = json.loads(told.stdout)
    assert f"ttmem-{version}-" in wheel.name
    own = [path for path in Path(first_file).parent.rglob("*") if path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in own if path.is_file()) <= MOST_BYTES
