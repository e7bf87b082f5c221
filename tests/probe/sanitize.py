"""`make sanitize`: the tests of the native module and of the probe under the sanitizers, then under valgrind.

It takes some minutes and needs gcc's sanitizer libraries and valgrind. What is not installed is passed over by name;
with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
NATIVE = TESTS.parents[1] / "src" / "native" / "probe"
FILES = ("captured", "dispatched", "faults", "full_tables", "mesh_programs", "switching")
WHAT = [str(TESTS / f"test_{name}.py") for name in FILES]
NATIVE_TESTS = [
    str(TESTS.parent / name)
    for name in (
        "ledger/test_native.py",
        "ledger/test_laws.py",
        "ledger/test_journal.py",
        "wire",
        "server/test_fuzz.py",
    )
]
TAKE_ITS_PLACE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("ttmem._native", {path!r})
module = sys.modules["ttmem._native"] = module_from_spec(spec)
spec.loader.exec_module(module)
"""
# A signal that a test sends, a limit of memory that it sets: what a sanitizer cannot live with.
NOT_UNDER = {
    "address": "not room and not small and not fault_elsewhere and not was_cut",
    "thread": "not room and not small and not fault_elsewhere and not was_cut and not fork",
    "valgrind": "not killed and not room and not small and not fault_elsewhere and not was_cut",
}
OPTIONS = {
    "address": "ASAN_OPTIONS=detect_leaks=0:exitcode=99:verify_asan_link_order=0",
    "thread": "TSAN_OPTIONS=exitcode=99:halt_on_error=1",
}


def _build(folder: Path, sanitizer: str) -> Path:
    library = folder / f"library-{sanitizer}.so"
    wanted = "address,undefined" if sanitizer == "address" else sanitizer
    sources = [str(path) for path in NATIVE.glob("*.cpp") if path.name != "records_module.cpp"]
    flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden"]
    flags += [f"-fsanitize={wanted}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    subprocess.run(["g++", *flags, "-o", str(library), *sources, "-ldl"], check=True)
    return library


def _run(name: str, wrapper: list[str]) -> bool:
    print(f"== {name}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *WHAT, "-k", NOT_UNDER[name]],
        env={**os.environ, "TTMEM_TEST_WRAPPER": shlex.join(wrapper), "PYTHONMALLOC": "malloc"},
    )
    return done.returncode == 0


def _sanitized(name: str, runtime: str) -> bool:
    where = _found(runtime)
    if where is None:
        return _passed_over(name, runtime)
    with tempfile.TemporaryDirectory() as folder:
        library = _build(Path(folder), name)
        preload = f"LD_PRELOAD={where}:{library}"
        return _run(name, ["env", preload, OPTIONS[name]])


def _valgrind() -> bool:
    tool = shutil.which("valgrind")
    if tool is None:
        return _passed_over("valgrind", "valgrind")
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "python.supp")
        own.write_text("".join(_of_python(kind) for kind in ("Cond", "Value4", "Value8", "Addr4")))
        strict = ["-q", "--error-exitcode=99", "--exit-on-first-error=yes", f"--suppressions={own}"]
        return _run("valgrind", [tool, *strict])


def _of_python(kind: str) -> str:
    """What CPython does in its own code, on purpose, is not ours to judge."""
    return "".join(
        f"{{\n   {kind} {name}\n   Memcheck:{kind}\n   obj:*/{name}*\n}}\n"
        for name in ("libpython3", "python3")
    )


def _native() -> bool:
    """The accounts and the decoder: a module built with the sanitizers takes the place of the installed one."""
    runtimes = [_found("libasan.so"), _found("libstdc++.so.6")]
    if None in runtimes:
        return _passed_over("native", "libasan.so")
    print("== native", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "_native.abi3.so")
        flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030A0000"]
        flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        flags += [f"-I{sysconfig.get_path('include')}"]
        sources = [str(path) for path in sorted(NATIVE.parent.glob("*.cpp"))]
        subprocess.run(["g++", *flags, "-o", str(module), *sources], check=True)
        Path(folder, "sitecustomize.py").write_text(TAKE_ITS_PLACE.format(path=str(module)))
        variables = {
            **os.environ,
            "PYTHONPATH": folder,
            "PYTHONMALLOC": "malloc",
            "LD_PRELOAD": ":".join(map(str, runtimes)),
            "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",
        }
        # Python goes on without a sitecustomize that fails, and all would pass with the ordinary module.
        which = f"import ttmem._native as n; assert n.__file__ == {str(module)!r}, n.__file__"
        subprocess.run([sys.executable, "-c", which], env=variables, check=True)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                *NATIVE_TESTS,
                "-k",
                "not no_memory and not burst and not guided",
            ],
            env=variables,
        )
    return done.returncode == 0


def _passed_over(name: str, missing: str) -> bool:
    print(f"== {name}: passed over, {missing} is not installed")
    return os.environ.get("CI") != "true"


def _found(library: str) -> Path | None:
    found = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True)
    path = Path(found.stdout.strip())
    return path.resolve() if path.is_absolute() else None


def main() -> int:
    """Exit code 1 if one of them found something."""
    ways = {
        "native": _native,
        "address": lambda: _sanitized("address", "libasan.so"),
        "thread": lambda: _sanitized("thread", "libtsan.so"),
        "valgrind": _valgrind,
    }
    results = [ways[name]() for name in sys.argv[1:] or ways]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
