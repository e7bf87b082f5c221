"""Prints how large and how fragmented the source tree is: `make metrics`.

`python -m tests.house.metrics DIRECTORY` measures another checkout; `--names` also lists what is behind some figures.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[2]
SHORT, LONG = 60, 400
RUN = 6  # lines: as many that stand in two places are a repetition
TABLE = (
    "ttmem.views.ps",
    "ttmem.views.table",
)  # what prints a snapshot, today and in old checkouts


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Metrics:
    files: int
    lines: int
    median_file: int
    short_files: int
    long_files: int
    most_siblings: tuple[str, int]
    single_importer: list[str]
    dataclasses: int
    repeated_classes: dict[str, list[str]]
    public_names: int
    type_checking_blocks: int
    cycles: list[list[str]]
    for_a_table: int
    repeated_lines: int
    native_lines: int
    test_files: int
    test_helpers: int
    test_lines: int

    def rows(self) -> Iterator[tuple[str, object]]:
        yield "Python files", self.files
        yield "lines", self.lines
        yield "median lines of a file", self.median_file
        yield f"files under {SHORT} lines", self.short_files
        yield f"files over {LONG} lines", self.long_files
        folder, count = self.most_siblings
        yield "most modules in one folder", f"{count} ({folder})"
        yield "modules with one importer", len(self.single_importer)
        yield "dataclasses", self.dataclasses
        yield "class names with two definitions", len(self.repeated_classes)
        yield "public names", self.public_names
        yield "TYPE_CHECKING blocks", self.type_checking_blocks
        yield "import cycles, types included", len(self.cycles)
        yield "modules that printing a table needs", self.for_a_table
        yield f"lines in runs of {RUN} that are repeated", self.repeated_lines
        yield "lines of C++", self.native_lines
        yield "files of tests, of them helpers", f"{self.test_files}, {self.test_helpers}"
        yield "lines of tests", self.test_lines


def _modules(source: Path) -> Iterator[Module]:
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text()
        yield Module(name, path, text.count("\n"), ast.parse(text))


def _imported(module: Module, names: set[str]) -> set[str]:
    """The modules of the tree that this one imports, wherever the import statement stands."""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{above}.{base}".rstrip(".")
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found.update(inner & names or {base})
    return found & names - {module.name}


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def _repeated_lines(modules: list[Module]) -> int:
    """Lines that are part of a run that stands in another place, too; without imports, comments and lone brackets."""
    places: dict[tuple[str, ...], set[tuple[str, int]]] = defaultdict(set)
    for module in modules:
        lines = [line.strip() for line in module.path.read_text().splitlines()]
        left_out = ("from ", "import ", "#", '"')
        code = [line for line in lines if len(line) > 2 and not line.startswith(left_out)]
        for at in range(len(code) - RUN + 1):
            places[tuple(code[at : at + RUN])].add((module.name, at))
    repeated = [at for found in places.values() if len(found) > 1 for at in found]
    return len({(name, at + step) for name, at in repeated for step in range(RUN)})


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    """All modules that one needs, itself included."""
    found, new = {start}, {start}
    while new:
        new = {other for name in new for other in imports.get(name, ())} - found
        found |= new
    return found


def _cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that need each other."""
    reached = {name: _reached(name, imports) for name in imports}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in imports
    }
    return sorted([*group] for group in groups if len(group) > 1)


def measure(repository: Path = REPOSITORY) -> Metrics:
    source = repository / "src" / "ttmem"
    modules = list(_modules(source))
    names = {module.name for module in modules}
    imports = {module.name: _imported(module, names) for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    classes: dict[str, list[str]] = defaultdict(list)
    dataclasses = public = blocks = 0
    for module in modules:
        for other in imports[module.name]:
            importers[other].add(module.name)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                dataclasses += _is_dataclass(node)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                blocks += 1
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef):
                classes[statement.name].append(module.name)
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                public += not statement.name.startswith("_")
    folders = Counter(module.path.parent for module in modules if not module.is_package)
    folder, siblings = folders.most_common(1)[0]
    lengths = [module.lines for module in modules]
    inner = [module for module in modules if not module.is_package]
    native = (repository / "src" / "native").rglob("*.[ch]pp")
    tests = list((repository / "tests").rglob("*.py"))
    helpers = [path for path in tests if not path.name.startswith(("test_", "__init__"))]
    table = next(name for name in TABLE if name in names)
    return Metrics(
        files=len(modules),
        lines=sum(lengths),
        median_file=int(median(lengths)),
        short_files=sum(module.lines < SHORT for module in inner),
        long_files=sum(module.lines > LONG for module in inner),
        most_siblings=(str(folder.relative_to(source.parent)), siblings),
        single_importer=sorted(m.name for m in inner if len(importers[m.name]) == 1),
        dataclasses=dataclasses,
        repeated_classes={
            name: where
            for name, where in sorted(classes.items())
            if len(where) > 1 and not name.startswith("_")
        },
        public_names=public,
        type_checking_blocks=blocks,
        cycles=_cycles(imports),
        for_a_table=len(_reached(table, imports)),
        repeated_lines=_repeated_lines(modules),
        native_lines=sum(path.read_text().count("\n") for path in native),
        test_files=len(tests),
        test_helpers=len(helpers),
        test_lines=sum(path.read_text().count("\n") for path in tests),
    )


def main() -> None:
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    metrics = measure(Path(folders[0]) if folders else REPOSITORY)
    for title, figure in metrics.rows():
        print(f"{title:36} {figure}")
    if "--names" in sys.argv[1:]:
        print("\nmodules with one importer:", *metrics.single_importer, sep="\n  ")
        print("\nclass names with two definitions:")
        for name, where in metrics.repeated_classes.items():
            print(f"  {name}: {', '.join(where)}")
        print("\nimport cycles:")
        for cycle in metrics.cycles:
            print("  " + ", ".join(cycle))


if __name__ == "__main__":
    main()
