"""The environment of the bench: a venv with stock ttnn, made once and kept.

<cache>/ttnn-0.81.1-cp3.12.1-1a2b3c4d/
    lock              held while something is installed: two runs do not meet
    venv/             ttnn, the stand-in for the device compiler, and ttmem once a test asks for it
    ttnn.done         written last; a venv without it was interrupted, and is made anew
    ttmem.done        what was installed of ttmem, by content
    kernels-5e6f7a8b/ what the runtime compiled with this version of the stand-in"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interpreters import Interpreter
from tests.ttnn.bench import compiler
from tests.ttnn.bench.interpreter import Unavailable

TTNN_VERSION = "0.81.1"
OVERRIDE = "TTMEM_TTNN_CACHE"
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Environment:
    root: Path
    python: Path
    kernel_cache: Path

    def variables(self) -> dict[str, str]:
        """For a child process: today's Python code of ttmem, and no other settings of the runtime.

        The native part of ttmem has one file for every CPython, so it comes from the source tree as well.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TT_", "TTNN_", "TTMEM_", "PYTHON", "OMPI_", "VIRTUAL_ENV"))
        }
        path = f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"
        return kept | {"PYTHONPATH": path, "TT_METAL_CACHE": str(self.kernel_cache)}


def cache_folder() -> Path:
    override = os.environ.get(OVERRIDE)
    if override:
        return Path(override).absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ttmem" / "ttnn-bench"


def prepare(interpreter: Interpreter, say: Callable[[str], None]) -> Environment:
    """Raises `Unavailable` where ttnn cannot be had. `say` is told what takes long."""
    origin = zlib.crc32(bytes(interpreter.path))
    root = cache_folder() / f"ttnn-{TTNN_VERSION}-cp{interpreter.version}-{origin:08x}"
    root.mkdir(parents=True, exist_ok=True)
    venv = root / "venv"
    python = venv / "bin" / "python"
    with _only_one(root / "lock", say):
        if not (root / "ttnn.done").exists():
            shutil.rmtree(venv, ignore_errors=True)
            (root / "ttmem.done").unlink(missing_ok=True)
            say(f"making {venv}")
            make_venv(interpreter.path, venv)
            say(f"installing ttnn {TTNN_VERSION} (once: 100 MB to fetch, 670 MB on disk)")
            install_ttnn(python, TTNN_VERSION)
            (root / "ttnn.done").touch()
        install_compiler(python)
    kernels = root / f"kernels-{zlib.crc32(Path(compiler.__file__).read_bytes()):08x}"
    kernels.mkdir(exist_ok=True)
    return Environment(root, python, kernels)


def add_ttmem(environment: Environment, say: Callable[[str], None]) -> None:
    """Installs this ttmem, unless it is there. Sessions need it not: they use the source tree."""
    digest = source_digest(REPOSITORY)
    done = environment.root / "ttmem.done"
    with _only_one(environment.root / "lock", say):
        if not done.exists() or done.read_text() != digest:
            say("installing ttmem beside ttnn")
            done.unlink(missing_ok=True)
            install_ttmem(environment.python, REPOSITORY)
            done.write_text(digest)


@contextmanager
def _only_one(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """The kernel drops the lock with the process, so a killed run leaves none behind."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that prepares the same environment")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- What is installed into the environment of the bench, and how


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
    """The wheel that TTMEM_WHEEL names, or from a copy of the source tree: a build leaves files there."""
    with tempfile.TemporaryDirectory() as folder:
        if wheel := os.environ.get("TTMEM_WHEEL"):
            _pip(python, "uninstall", "--yes", "ttmem")  # another build may have the same version
            done = _pip(python, "install", Path(wheel).resolve())
        else:
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
