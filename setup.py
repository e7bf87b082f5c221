"""The native code: two modules and the probe library, each built from the files of a folder.

One build serves every CPython from 3.10 on (stable ABI). The libraries are stripped; the JSON schemas are installed
without indentation, and so are the scripts of the pages, without comments: three quarters of their size.
"""

import json
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

NATIVE = Path("src/native")
HEADERS = sorted(str(path) for path in NATIVE.rglob("*.hpp"))
RECORDS = NATIVE / "probe" / "records_module.cpp"
EXPORTS = str(NATIVE / "probe" / "exports.map")
MODULE = str(NATIVE / "module.map")

COMPILE = ["-std=c++17", "-O2", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"]
COMPILE += ["-ffunction-sections", "-fdata-sections"]  # for --gc-sections
COMPILE += ["-Werror=missing-field-initializers"]  # a row of tables.hpp has all of its columns
# No padding between functions and loops: it makes the ledger 3 % larger, and no faster.
UNALIGNED = ["-falign-functions=1", "-falign-jumps=1", "-falign-loops=1", "-falign-labels=1"]
LINK = ["-Wl,--strip-all", "-Wl,--gc-sections"]
LINK += ["-Wl,-z,noseparate-code"]  # no pages of padding between code and data

STABLE_ABI = [("Py_LIMITED_API", "0x030A0000")]


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.cpp") if path != RECORDS)


def is_comment(line: str) -> bool:
    """Whether there is nothing else in a line of a script."""
    return (
        line.startswith(("//", "/**", "* ", "*/"))
        or line == "*"
        or (line[:2], line[-2:]) == ("/*", "*/")
    )


class BuildPython(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for path in Path(self.build_lib).glob("ttmem/schemas/*.json"):
                document = json.loads(path.read_text())
                path.write_text(json.dumps(document, separators=(",", ":"), ensure_ascii=False))
            for path in Path(self.build_lib).glob("ttmem/web/static/*.js"):
                lines = map(str.strip, path.read_text().splitlines())
                path.write_text("\n".join(line for line in lines if line and not is_comment(line)))


setup(
    cmdclass={"build_py": BuildPython},
    ext_modules=[
        Extension(
            "ttmem._native",
            files(NATIVE),
            depends=[*HEADERS, MODULE],
            define_macros=STABLE_ABI,
            extra_compile_args=[*COMPILE, *UNALIGNED],
            extra_link_args=[*LINK, f"-Wl,--version-script={MODULE}"],
            language="c++",
            py_limited_api=True,
        ),
        Extension(
            "ttmem.probe._records",
            [str(RECORDS)],
            depends=[*HEADERS, MODULE],
            define_macros=STABLE_ABI,
            extra_compile_args=COMPILE,
            extra_link_args=[*LINK, f"-Wl,--version-script={MODULE}"],
            language="c++",
            py_limited_api=True,
        ),
        # Preloaded into applications by path, never imported: a shared object that needs no Python. Calls within it
        # do not go through the table of jumps (-fno-plt): that is one more cache line for the caller to miss.
        Extension(
            "ttmem.probe._library",
            files(NATIVE / "probe"),
            depends=[*HEADERS, EXPORTS],
            extra_compile_args=[*COMPILE, "-fno-plt"],
            extra_link_args=[
                *LINK,
                "-ldl",
                "-Wl,-z,now,-z,nodelete",
                f"-Wl,--version-script={EXPORTS}",
            ],
            language="c++",
            py_limited_api=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
