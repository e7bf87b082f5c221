"""What is installed into the environment of the bench, and how."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.ttnn.bench import compiler
from tests.ttnn.bench.interpreter import Unavailable

# Enough for a slow line; a dead one is noticed by pip within a minute.
LONGEST_INSTALL_SECONDS = 1_800


def make_venv(interpreter: Path, venv: Path) -> None:
    done = subprocess.run([interpreter, "-m", "venv", venv], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"no venv can be made with {interpreter}: {_last_line(done)}")


def install_ttnn(python: Path, version: str) -> None:
    """And what builds ttmem later, so that this needs no network."""
    wanted = [f"ttnn=={version}", "setuptools>=77"]
    try:
        done = _pip(python, "install", "--no-compile", "--only-binary=:all:", *wanted)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"ttnn {version} did not arrive in {LONGEST_INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise Unavailable(f"ttnn {version} cannot be installed: {_last_line(done)}")


def install_ttmem(python: Path, repository: Path) -> None:
    """As a user would, but from a copy: a build leaves files in its source tree, and others use this one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ttmem"
        made = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        shutil.copytree(repository / "src", copy / "src", ignore=made)
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(repository / name, copy)
        done = _pip(python, "install", "--no-build-isolation", copy)
    if done.returncode != 0:
        raise RuntimeError(f"ttmem cannot be installed beside ttnn:\n{done.stdout}")


def source_digest(repository: Path) -> str:
    """Of what an installation depends on; Python code is used from the source tree."""
    digest = hashlib.sha256()
    sources = sorted(path for path in (repository / "src/native").rglob("*") if path.is_file())
    for path in (repository / "pyproject.toml", repository / "setup.py", *sources):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def install_compiler(python: Path) -> None:
    """Where the runtime looks for it. A shell starts it, because the first line of a script has a short limit."""
    where = "import importlib.util as u; print(u.find_spec('ttnn').submodule_search_locations[0])"
    asked = subprocess.run([python, "-I", "-c", where], capture_output=True, text=True, check=True)
    folder = Path(asked.stdout.strip()) / "runtime/sfpi/compiler/bin"
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(compiler.__file__).read_text()
    call = f'#!/bin/sh\nexec {shlex.quote(str(python))} -ISE {shlex.quote(str(folder / "stand_in.py"))} "$@"\n'
    for name, text, mode in (("stand_in.py", source, 0o644), ("riscv-tt-elf-g++", call, 0o755)):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            fresh = path.with_suffix(".new")
            fresh.write_text(text)
            fresh.chmod(mode)
            fresh.replace(path)


def _pip(python: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    quiet = ("--disable-pip-version-check", "--no-input", "--retries=3", "--timeout=30")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, "-I", "-m", "pip", *arguments, *quiet],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=variables,
        timeout=LONGEST_INSTALL_SECONDS,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    said = [
        line for line in ((done.stderr or "") + (done.stdout or "")).splitlines() if line.strip()
    ]
    errors = [line for line in said if "ERROR" in line]
    return (errors or said or ["it said nothing"])[-1].strip()
