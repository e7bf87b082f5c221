"""`python -m fuzz.guided [COUNT] [NAME ...]`: coverage-guided fuzzing of the parsers, and a table of what it gave.

The native ones run under libFuzzer (clang++ and its libclang-rt), the Python ones under atheris (the extra `fuzz`).
What is not installed is passed over by name, and the exit code is 2. What they find new stays in build/fuzz/NAME, what
breaks a parser in build/fuzz/NAME-crash-...; `--replay NAME FILE` runs one such input again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"
NATIVE = {
    "records": ("records.cpp",),
    "ledger": ("coverage.cpp", "event_lines.cpp", "ledger*.cpp", "live_blocks.cpp"),
}
DECODERS = ("frames", "historical", "shared_memory", "probe_region", "recording")
FLAGS = ("-std=c++17", "-O1", "-g", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
# Regions are told by their changes: a few at a time find as much as many, sooner.
LONGEST = {"shared_memory": 161, "probe_region": 177, "recording": 177}
SMALL = "-DTTMEM_TABLE_CHUNK=8"  # tables of many pieces, and none that takes long to clear


class Missing(Exception):
    """What a fuzzer needs is not installed; the text says what."""


@dataclass(frozen=True)
class Result:
    """A row of the table."""

    inputs: int
    seconds: float
    edges: int | None
    crashes: list[Path]
    exit_code: int

    @property
    def cells(self) -> tuple[str, ...]:
        edges = "N/A" if self.edges is None else f"{self.edges:,}"
        rate = f"{self.inputs / self.seconds:,.0f}"
        return f"{self.inputs:,}", rate, edges, str(len(self.crashes))


def build_native(name: str) -> Path:
    """The program that feeds one native parser, with libFuzzer and the sanitizers."""
    compiler = shutil.which("clang++")
    if compiler is None:
        raise Missing("clang++ is missing (Debian: clang and libclang-rt-14-dev)")
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / f"{name}-fuzzer"
    native = ROOT / "src" / "native"
    sources = [str(path) for pattern in NATIVE[name] for path in sorted(native.glob(pattern))]
    harness = str(ROOT / "fuzz" / "native" / f"{name}.cpp")
    flags = [*FLAGS, SMALL, "-fsanitize=fuzzer,address,undefined"]
    subprocess.run([compiler, *flags, "-o", str(program), harness, *sources], check=True)
    return program


def command(name: str) -> list[str]:
    """The fuzzer of a parser; what follows are libFuzzer's arguments."""
    if name in NATIVE:
        return [str(build_native(name))]
    if util.find_spec("atheris") is None:
        raise Missing("atheris is missing (pip install -e '.[fuzz]')")
    return [sys.executable, "-m", "fuzz.guided", "--child", name]


def fuzz(name: str, count: int, seconds: int) -> Result:
    """Until so many inputs, so many seconds, or the first one that breaks the parser."""
    fuzzer = command(name)
    found, log = BUILD / name, BUILD / f"{name}.log"
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-runs={count}", f"-max_total_time={seconds}", "-timeout=10"]
    options += [f"-max_len={LONGEST.get(name, 1000)}"]
    options += [f"-artifact_prefix={BUILD / name}-", str(found), str(CORPUS / name)]
    begun, since = time.monotonic(), time.time()
    with log.open("wb") as file, TemporaryDirectory(prefix="ttmem-fuzz-", dir="/dev/shm") as own:
        code = subprocess.run(
            [*fuzzer, *options],
            cwd=ROOT,
            stdout=file,
            stderr=file,
            env={**os.environ, "TTMEM_FUZZ_FOLDER": own},
        ).returncode
    text = log.read_text(errors="replace")
    edges = re.findall(r"cov: (\d+)", text)
    inputs = re.findall(r"^#(\d+)", text, re.MULTILINE)
    return Result(
        inputs=int(inputs[-1]) if inputs else 0,
        seconds=time.monotonic() - begun,
        edges=int(edges[-1]) if edges else None,
        crashes=[path for path in BUILD.glob(f"{name}-*-*") if path.stat().st_mtime >= since],
        exit_code=code,
    )


def _child(name: str, arguments: list[str]) -> None:
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["ttmem"]):
        decoders = import_module("fuzz.decoders")
    atheris.Setup([name, *arguments], decoders.ALL[name])
    atheris.Fuzz()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz.guided", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1_000_000, help="inputs for each")
    parser.add_argument("names", nargs="*", help=f"of {', '.join((*NATIVE, *DECODERS))}")
    parser.add_argument("--seconds", type=int, default=0, help="for each at most (0: any)")
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "FILE"), help="one input again")
    return parser.parse_args()


def main() -> int:
    """Exit code 1 if a parser broke, 2 if one was passed over."""
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], sys.argv[3:])
    arguments = _arguments()
    if arguments.replay:
        name, path = arguments.replay
        return subprocess.run([*command(name), path], cwd=ROOT).returncode
    worst = 0
    print(f"{'parser':15}{'inputs':>11}{'inputs/s':>10}{'edges':>7}{'crashes':>9}")
    for name in arguments.names or [*NATIVE, *DECODERS]:
        try:
            result = fuzz(name, arguments.count, arguments.seconds)
        except Missing as missing:
            print(f"{name:15}passed over: {missing}")
            worst = worst or 2
            continue
        print("{:15}{:>11}{:>10}{:>7}{:>9}".format(name, *result.cells), flush=True)
        if result.exit_code:
            worst = 1
            print(f"  see {BUILD.relative_to(ROOT)}/{name}.log")
            for crash in result.crashes:
                again = f"python -m fuzz.guided --replay {name} {crash.relative_to(ROOT)}"
                print(f"  again: {again}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
