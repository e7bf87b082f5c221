"""Data goes one way, and so do imports; `import ttmem` loads next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ttmem"

# What each package may import besides itself. Data flows from left to right, and a package imports from its left: views
# and exporters never look into a source, and nothing imports the commands.
FOUNDATION = {
    "addresses",
    "clock",
    "errors",
    "fast_dataclasses",
    "own_python",
    "sizes",
    "procfs",
    "text",
    "version",
    "workloads",
}
MAY_IMPORT: dict[str, set[str]] = {
    "addresses": {"errors", "text"},
    "clock": set(),
    "errors": set(),
    "fast_dataclasses": set(),
    "own_python": set(),
    "sizes": {"errors"},
    "procfs": {"clock", "fast_dataclasses", "text", "workloads"},
    "workloads": {"fast_dataclasses", "text"},
    "text": set(),
    "version": set(),
    "hw": FOUNDATION,
    "events": FOUNDATION | {"hw"},
    "wire": FOUNDATION | {"events", "_native"},
    "snapshots": FOUNDATION | {"events", "wire", "notebook"},
    "probe": FOUNDATION | {"events"},
    "sources": FOUNDATION | {"_native", "hw", "events", "wire", "probe"},
    "client": FOUNDATION | {"hw", "events", "wire"},
    "ledger": FOUNDATION | {"hw", "events", "wire", "snapshots", "_native"},
    "server": FOUNDATION | {"hw", "events", "wire", "snapshots", "sources", "ledger", "recording"},
    "recording": FOUNDATION | {"events", "wire", "snapshots", "ledger", "_native"},
    "feeds": FOUNDATION
    | {"hw", "events", "wire", "snapshots", "sources", "ledger", "client", "recording"},
    "analysis": FOUNDATION | {"events", "probe", "snapshots", "recording"},
    "clean": FOUNDATION | {"events", "sources"},
    "doctor": FOUNDATION | {"events", "sources", "clean"},
    "fleet": FOUNDATION | {"events"},
    "measuring": FOUNDATION
    | {"events", "snapshots", "sources", "recording", "feeds", "analysis", "notebook", "views"},
    "pytest_plugin": FOUNDATION | {"measuring", "probe"},
    "notebook": set(),
    "api": FOUNDATION
    | {"client", "events", "feeds", "measuring", "probe", "snapshots", "recording"},
    "exporters": FOUNDATION | {"events", "snapshots", "recording", "feeds", "_native"},
    "views": FOUNDATION
    | {"events", "snapshots", "feeds", "fleet", "analysis", "doctor", "clean", "probe"},
    "model": FOUNDATION | {"hw", "events", "client"},
    "web": FOUNDATION
    | {"events", "wire", "snapshots", "feeds", "fleet", "recording", "analysis", "exporters"}
    | {"views"},
    "commands": FOUNDATION
    | {"api", "hw", "events", "wire", "snapshots", "sources", "server"}
    | {"views", "client", "feeds", "model", "doctor", "clean", "analysis", "probe", "recording"}
    | {"exporters", "web", "fleet"},
    "__main__": {"commands"},
    "__init__": {
        "analysis",
        "api",
        "errors",
        "events",
        "measuring",
        "probe",
        "snapshots",
        "version",
    },
}


def _package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ttmem."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "ttmem":
            yield from (alias.name for alias in node.names if (SOURCE / alias.name).exists())
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("ttmem."))


@pytest.mark.parametrize("package", sorted({_package(path) for path in SOURCE.rglob("*.py")}))
def test_a_package_imports_only_what_is_to_its_left(package: str) -> None:
    files = [path for path in SOURCE.rglob("*.py") if _package(path) == package]
    used = {(str(path.relative_to(SOURCE)), other) for path in files for other in _imports(path)}

    wrong = {(path, other) for path, other in used if other not in MAY_IMPORT[package] | {package}}
    assert wrong == set()


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_ttmem_loads_one_file() -> None:
    assert {name for name in _loaded_by("import ttmem") if name.startswith("ttmem")} == {"ttmem"}


@pytest.mark.parametrize(
    "statement",
    [
        "import ttmem.hw",
        "import ttmem.client",
        "import ttmem.api",
        "import ttmem.commands.ps",
        "import ttmem.sources.counters",
    ],
)
def test_client_snapshot_and_ps_need_neither_numpy_nor_yaml_nor_native_code(statement: str) -> None:
    loaded = _loaded_by(statement)

    assert loaded.isdisjoint(
        {"numpy", "yaml", "asyncio", "ttmem._native", "ttmem.ledger", "ttmem.server"}
    )


def test_every_public_name_is_there_and_completes() -> None:
    import ttmem
    import ttmem.client

    for module in (ttmem, ttmem.client):
        assert set(module.__all__) <= set(dir(module))
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert {"Snapshot", "Device", "Process", "TtmemError"} <= set(ttmem.__all__)
    with pytest.raises(AttributeError):
        _ = ttmem.no_such_name
