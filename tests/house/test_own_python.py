"""Children of ttmem, which may be root's, import nothing from where they were started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interpreters import find_interpreters
from tests.own_process import ran

ROOT = Path(__file__).parents[2]
TRAP = "import os, pathlib; pathlib.Path('trapped').touch(); raise SystemExit('imported')"
# As an interpreter with an installed ttmem would run it: `src` is on its path.
CHILD = """
import subprocess, sys
sys.path[:] = [entry for entry in sys.path if entry] + [{source!r}]
from ttmem.own_python import module_command, script_command
environment = {{"PYTHONPATH": {source!r}}}
for command in (module_command("ttmem.version"), script_command("import ttmem.version, colorsys; print('here')")):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    print(done.returncode, done.stdout.strip(), done.stderr[-200:])
"""


@pytest.mark.parametrize("python", [each.path for each in find_interpreters()])
def test_a_child_imports_nothing_from_the_working_directory(tmp_path: Path, python: Path) -> None:
    for name in ("ttmem.py", "colorsys.py", "runpy.py"):
        (tmp_path / name).write_text(TRAP)
    script = CHILD.format(source=str(ROOT / "src"))
    done = ran([python, "-c", f"import sys; sys.path.remove('')\n{script}"], cwd=tmp_path)  # fmt: skip

    assert done.stdout.split() == ["0", "0", "here"], done.stderr
    assert not (tmp_path / "trapped").exists()
