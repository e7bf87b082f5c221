"""Runs the fast tests on every CPython of this machine, with the one wheel: `make test-pythons`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interpreters import SUPPORTED, Interpreter, find_interpreters

REPOSITORY = Path(__file__).parents[2]


def build(folder: Path) -> Path:
    """The wheel of `make wheel`; TTMEM_WHEEL names one that exists already."""
    given = os.environ.get("TTMEM_WHEEL")
    if given:
        return Path(given).resolve()
    command = ["make", "--no-print-directory", "-C", str(REPOSITORY), "wheel", f"DIST={folder}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"make wheel failed:\n{done.stdout}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(interpreter: Interpreter, wheel: Path, venv: Path, *others: str) -> Path:
    """A new environment with the wheel and without a compiler; returns its folder of programs."""
    programs = venv / "bin"
    subprocess.run([interpreter.path, "-m", "venv", "--clear", venv], check=True)
    pip = [
        str(programs / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    no_compiler = {**os.environ, "PATH": str(programs), "CC": "/bin/false", "CXX": "/bin/false"}
    subprocess.run([*pip, "--only-binary=:all:", wheel, *others], check=True, env=no_compiler)
    return programs


def main() -> int:
    build_folder = REPOSITORY / "build" / "pythons"
    shutil.rmtree(build_folder, ignore_errors=True)
    wheel = build(build_folder / "dist")
    failed = []
    found = find_interpreters()
    if missing := sorted({*SUPPORTED} - {each.series for each in found}):
        print(f"not on this machine: CPython {', '.join(missing)}", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(run_tests, each, wheel, build_folder / each.series) for each in found]
        for interpreter, run in zip(found, runs, strict=True):
            passed, output = run.result()
            print(f"CPython {interpreter.version}:\n{output}", flush=True)
            failed += [] if passed else [interpreter.version]
    print(f"failed on CPython {', '.join(failed)}" if failed else "passed on all", flush=True)
    return 1 if failed else 0


def run_tests(interpreter: Interpreter, wheel: Path, venv: Path) -> tuple[bool, str]:
    """Whether the fast tests passed, and the last lines of what they said."""
    programs = install(interpreter, wheel, venv, "hypothesis>=6.100", "pytest>=8")
    command = [str(programs / "python"), "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *sys.argv[1:]],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:])


if __name__ == "__main__":
    sys.exit(main())
