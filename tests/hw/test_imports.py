from __future__ import annotations

import subprocess
import sys


def test_importing_hw_pulls_in_neither_yaml_nor_numpy() -> None:
    script = "import sys, ttmem.hw; print([m for m in ('yaml', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
