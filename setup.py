"""The native code: two modules and the probe library, each built from the files of a folder.

One build serves every CPython from 3.10 on (stable ABI). The libraries are stripped.
"""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/native")
HEADERS = sorted(str(path) for path in NATIVE.rglob("*.hpp"))
RECORDS = NATIVE / "probe" / "records_module.cpp"
EXPORTS = str(NATIVE / "probe" / "exports.map")

COMPILE = ["-std=c++17", "-O3", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"]
COMPILE += ["-Werror=missing-field-initializers"]  # a row of tables.hpp has all of its columns
LINK = ["-Wl,--strip-all"]
STABLE_ABI = [("Py_LIMITED_API", "0x030A0000")]


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.cpp") if path != RECORDS)


setup(
    ext_modules=[
        Extension(
            "ttmem._native",
            files(NATIVE),
            depends=HEADERS,
            define_macros=STABLE_ABI,
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
            language="c++",
            py_limited_api=True,
        ),
        Extension(
            "ttmem.probe._records",
            [str(RECORDS)],
            depends=HEADERS,
            define_macros=STABLE_ABI,
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
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
