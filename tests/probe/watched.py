"""A process under the probe, with a small runtime of our own, driven line by line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.own_process import ran
from ttmem.probe import environment, layout
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import find_regions

WRAPPER = shlex.split(os.environ.get("TTMEM_TEST_WRAPPER", ""))  # of `make sanitize`
SOURCES = Path(__file__).parent / "runtime"
PRELUDE = """
import ctypes, os, sys, threading
lib = ctypes.CDLL(sys.argv[1])
for name in ("mesh_open", "mesh_open_from", "submesh_open", "buffer_make", "program_make"):
    getattr(lib, name).restype = ctypes.c_void_p
u64, address = ctypes.c_uint64, ctypes.c_void_p
lib.buffer_make.argtypes = [address, u64, ctypes.c_int, u64, u64]
lib.program_make.argtypes = [u64, address, u64, ctypes.c_int]
lib.churn.argtypes = [address, u64, u64]
lib.mesh_open_from.argtypes = [ctypes.c_int, u64]
for name in ("mesh_close", "mesh_close_alone", "buffer_allocate", "buffer_free", "program_destroy"):
    getattr(lib, name).argtypes = [address]
probe = ctypes.CDLL(None)
def buffer(mesh, number, type, size, per_bank=512):
    made = lib.buffer_make(mesh, number, type, size, per_bank)
    return None if lib.buffer_allocate(made) else made
def say(word):
    print(word, flush=True)
"""
DISPATCHING = """
lib.workload_make.restype = lib.program_plan.restype = lib.mesh_open_grid.restype = address
lib.workload_make.argtypes = [address] * 3
lib.workload_add.argtypes = [address] * 2 + [ctypes.c_uint32] * 4
lib.program_plan.argtypes = lib.program_make.argtypes
lib.program_resize.argtypes = [address, u64]
lib.program_add_kernel.argtypes = [address, ctypes.c_char_p, ctypes.c_uint32]
for name in ("workload_enqueue", "workload_destroy"):
    getattr(lib, name).argtypes = [address]
def grid(rows, columns, *chips):
    return lib.mesh_open_grid((ctypes.c_int * len(chips))(*chips), rows, columns)
def planned(mesh, number, cb_size, kernels=1):
    made = lib.program_plan(number, mesh, cb_size, 1)
    for name in ("reader", "writer")[:kernels]: lib.program_add_kernel(made, name.encode(), 3000)
    return made
def workload(mesh, programs):
    made = lib.workload_make(mesh, None, None)
    for place, program in programs.items(): lib.workload_add(made, program, *place)
    return made
"""


def build_runtime(folder: Path, *variants: str) -> Path:
    """Compiles the small runtime: whole, or as a variant such as `HALF` (runtime/tt_metal.hpp)."""
    library = folder / "libtt_metal.so"
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-o", str(library)]
    command += [f"-D{variant}" for variant in variants]
    subprocess.run([*command, *map(str, sorted(SOURCES.glob("*.cpp")))], check=True)
    return library


class Watched:
    """One watched process. Its regions are in a folder of its own."""

    def __init__(self, library: Path, folder: Path, script: str, **variables: str) -> None:
        self.folder = folder
        env = environment({**os.environ, "TTMEM_REGION_DIR": str(folder), **variables})
        self.process = subprocess.Popen(
            [*WRAPPER, sys.executable, "-c", PRELUDE + script, str(library)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, word: str) -> None:
        """Returns when the process has said `word`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the process ended before {word!r}: {self.errors()}")

    def go_on(self) -> None:
        """Lets a process go on that waits in `input()`."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Waits for the end; what it said to standard error."""
        _, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        return errors

    def errors(self) -> str:
        """Standard error of a process that has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.communicate()

    def regions(self) -> list[ProbeRegion]:
        """All regions that this process and its children made."""
        return [ProbeRegion(name.path) for name in find_regions(str(self.folder))]

    def region(self) -> ProbeRegion:
        """The region of the process itself."""
        return next(found for found in self.regions() if found.pid == self.process.pid)


# -- `ttmem run` as a user starts it, with the small runtime in the command


class Launcher:
    """Starts `ttmem run`; the regions are in a folder of its own."""

    def __init__(self, runtime: Path, folder: Path) -> None:
        self._runtime = runtime
        self.folder = folder

    def line(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line."""
        run = [sys.executable, "-m", "ttmem", "run", "--shm", str(self.folder)]
        # The small runtime lacks most of what the real one has, and the library says so.
        if "--quiet" not in options:
            run += ["--log", str(self.folder / "log")]
        return [*run, *options, "--", *command]

    def program(self, script: str) -> list[str]:
        """A command that loads the runtime and does what `script` says, as the file model.py."""
        code = f"{PRELUDE}\nexec(compile({script!r}, 'model.py', 'exec'))"
        return [sys.executable, "-c", code, str(self._runtime)]

    def run(
        self, *command: str, options: tuple[str, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """To its end."""
        return ran(self.line(*command, options=options), env={**os.environ, **variables})

    def summary(self, script: str, *options: str) -> str:
        """What is said at the end about a program that ends well."""
        done = self.run(*self.program(script), options=options)
        assert done.returncode == 0, done.stderr
        return done.stderr

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """In a process group of its own, as a shell starts a job."""
        with subprocess.Popen(
            self.line(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=os.setpgrp,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def switch(path: str, on: bool) -> None:
    """Turns tracking on or off in a running process."""
    with open(path, "r+b", buffering=0) as file:
        file.seek(layout.TRACKING_AT)
        file.write(int(on).to_bytes(4, "little"))
