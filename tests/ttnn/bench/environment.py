"""The environment of the bench: a venv with stock ttnn, made once and kept.

<cache>/ttnn-0.81.1-cp3.12.1-1a2b3c4d/
    lock              held while something is installed: two runs do not meet
    venv/             ttnn, the stand-in for the device compiler, and ttmem once a test asks for it
    ttnn.done         written last; a venv without it was interrupted, and is made anew
    ttmem.done        what was installed of ttmem, by content
    kernels-5e6f7a8b/ what the runtime compiled with this version of the stand-in
"""

from __future__ import annotations

import fcntl
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interpreters import Interpreter
from tests.ttnn.bench import compiler
from tests.ttnn.bench.installation import (
    install_compiler,
    install_ttmem,
    install_ttnn,
    make_venv,
    source_digest,
)

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
