"""`python -m fuzz.guided [COUNT] [NAME ...]`: coverage-guided fuzzing of the parsers.

The native ones run under libFuzzer (clang++ and its libclang-rt), the Python ones under atheris (the extra `fuzz`).
What is not installed is passed over by name, and the exit code is 2. What they find new stays in build/fuzz.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"
NATIVE = {
    "records": ("records.cpp",),
    "ledger": ("coverage.cpp", "ledger*.cpp", "live_blocks.cpp"),
}
DECODERS = ("frames", "historical", "shared_memory", "probe_region")
FLAGS = ("-std=c++17", "-O1", "-g", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
SMALL = "-DTTMEM_TABLE_CHUNK=8"  # tables of many pieces, and none that takes long to clear


def build_native(name: str, compiler: str, sanitizers: str, more: tuple[str, ...] = ()) -> Path:
    """The program that feeds one native parser."""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / f"{name}-{Path(compiler).name}"
    native = ROOT / "src" / "native"
    sources = [str(path) for pattern in NATIVE[name] for path in sorted(native.glob(pattern))]
    harness = str(ROOT / "fuzz" / "native" / f"{name}.cpp")
    flags = [*FLAGS, SMALL, f"-fsanitize={sanitizers}", *more]
    subprocess.run([compiler, *flags, "-o", str(program), harness, *sources], check=True)
    return program


def _limits(name: str, count: int) -> list[str]:
    found = BUILD / name
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-runs={count}", "-max_len=1000", "-timeout=10", "-verbosity=0"]
    return [*options, "-print_final_stats=1", str(found), str(CORPUS / name)]


def _run_native(name: str, count: int) -> int:
    compiler = shutil.which("clang++")
    if compiler is None:
        print(f"{name}: passed over, clang++ is missing (Debian: clang and libclang-rt-14-dev)")
        return 2
    program = build_native(name, compiler, "fuzzer,address,undefined")
    return subprocess.run([str(program), *_limits(name, count)], cwd=BUILD).returncode


def _run_decoder(name: str, count: int) -> int:
    if util.find_spec("atheris") is None:
        print(f"{name}: passed over, atheris is missing (pip install -e '.[fuzz]')")
        return 2
    child = [sys.executable, "-m", "fuzz.guided", "--child", name, *_limits(name, count)]
    return subprocess.run(child, cwd=ROOT).returncode


def _child(name: str, arguments: list[str]) -> None:
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["ttmem"]):
        decoders = import_module("fuzz.decoders")
    atheris.Setup([name, *arguments], decoders.ALL[name])
    atheris.Fuzz()


def main() -> int:
    """Exit code 1 if a parser broke, 2 if one was passed over."""
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], sys.argv[3:])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    codes = []
    for name in sys.argv[2:] or [*NATIVE, *DECODERS]:
        print(f"== {name}", flush=True)
        codes.append(_run_native(name, count) if name in NATIVE else _run_decoder(name, count))
    return 1 if any(code not in (0, 2) for code in codes) else max(codes)


if __name__ == "__main__":
    sys.exit(main())
