"""Commands that run parts of ttmem in a process of their own."""

from __future__ import annotations

import os
import shlex
import sys


def installing(extra: str) -> str:
    """The command that adds the packages of an extra to this installation, since ttmem is not on PyPI."""
    from importlib.metadata import PackageNotFoundError, requires

    wanted = f'extra == "{extra}"'
    try:
        lines = [line.replace("'", '"') for line in requires("ttmem") or ()]
    except PackageNotFoundError:  # it runs from a source tree
        lines = []
    words = [line.partition(";")[0].strip() for line in lines if wanted in line]
    packages = words or {"umd": ["tt-umd"], "web": ["starlette", "uvicorn"]}[extra]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def module_command(module: str, *arguments: str) -> list[str]:
    """`python -m MODULE`, which imports nothing from the working directory: others may be able to write there."""
    if sys.version_info >= (3, 11):
        return [sys.executable, "-P", "-m", module, *arguments]
    run = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return script_command(run, *arguments)


def script_command(script: str, *arguments: str) -> list[str]:
    """The same for `python -c SCRIPT`."""
    if sys.version_info >= (3, 11):
        return [sys.executable, "-P", "-c", script, *arguments]
    # -I also ignores PYTHONPATH, so the child gets that and the path of this process.
    path = [entry for entry in sys.path if os.path.isabs(entry)]
    given = "filter(os.path.isabs, os.environ.get('PYTHONPATH', '').split(os.pathsep))"
    start = f"import os, sys; sys.path[:] = [*{given}, *{path!r}]"
    return [sys.executable, "-I", "-c", f"{start}\n{script}", *arguments]
