"""The pytest plugin where nothing is measured: it stays out of the way, and says what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_process import ran

PLAIN = """\
import sys

def test_loaded():
    names = sorted(name for name in sys.modules if name.split(".")[0] == "ttmem")
    assert names == ["ttmem", "ttmem.pytest_plugin"]
"""


def run_pytest(
    folder: Path, text: str, *options: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TTMEM", "PYTEST"))
    }
    return ran(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", *options],
        cwd=folder,
        env=kept | {"TTMEM_REGION_DIR": str(folder)} | (variables or {}),
    )


def test_a_run_without_options_and_markers_loads_two_small_modules(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, PLAIN)

    assert done.returncode == 0, done.stdout


def test_pytest_starts_again_under_the_probe_and_says_so(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_nothing(): pass", "--ttmem", "--ttmem-default", "leaks=0")

    assert "ttmem: pytest starts again, under the probe" in done.stderr
    assert done.returncode == 0, done.stdout
    assert "0 B" in done.stdout
    assert "test_it.py::test_nothing" in done.stdout


@pytest.mark.slow
def test_a_marker_is_enough(tmp_path: Path) -> None:
    text = 'import pytest\n@pytest.mark.ttmem(l1="1 MiB")\ndef test_nothing(): pass'

    done = run_pytest(tmp_path, text, "-W", "error", "--strict-markers")

    assert done.returncode == 0, done.stdout
    assert done.stderr.count("starts again") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ttmem-default", "l1=20Mops"], "'20Mops' is not a size"),
        (
            ["--ttmem-baseline", "none.json"],
            "there is no baseline none.json; --ttmem-update-baseline writes it",
        ),
        (["--ttmem", "--ttmem-update-baseline"], "needs --ttmem-baseline FILE"),
        (["--ttmem-loop", "-3"], "must be 1 or more"),
        (["--ttmem-update-baseline"], "needs --ttmem-baseline FILE"),
        (["--ttmem-fail-on-increase", "5%"], "needs --ttmem-baseline FILE"),
        (
            ["--ttmem-baseline", "none.json", "--ttmem-fail-on-increase", "much"],
            "'much' is not a percentage",
        ),
    ],
)
def test_wrong_options_are_told_in_one_sentence(
    tmp_path: Path, options: list[str], told: str
) -> None:
    done = run_pytest(tmp_path, "def test_nothing(): pass", *options)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert told in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_under_pytest_main_it_explains_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_nothing(): pass")
    code = "import pytest, sys; sys.exit(pytest.main(['-q', '--ttmem', 'test_it.py']))"

    done = ran([sys.executable, "-c", code], cwd=tmp_path)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pytest was called by another program" in done.stderr + done.stdout
    assert "ttmem run -- COMMAND" in done.stderr + done.stdout


@pytest.mark.slow
def test_limits_of_markers_that_cannot_be_checked_are_told_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.ttmem(leaks=0)\ndef test_nothing(): pass"
    )
    code = "import pytest, sys; sys.exit(pytest.main(['-q', 'test_it.py']))"

    done = ran([sys.executable, "-c", code], cwd=tmp_path)

    assert done.returncode == 0
    assert "limits of markers were not checked" in done.stdout


@pytest.mark.slow
def test_a_test_without_a_baseline_ends_the_run_with_1(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text('{"schema": "ttmem.baseline/1", "ttnn": null, "tests": {}}')

    done = run_pytest(tmp_path, "def test_new(): pass", "--ttmem-baseline", "base.json")

    assert "1 passed" in done.stdout
    assert "not compared: test_it.py::test_new: it is not in the baseline" in done.stdout
    assert done.returncode == 1
