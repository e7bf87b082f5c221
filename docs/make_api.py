"""Writes docs/api.md from the docstrings, signatures and field comments of the public names: `make api`.

It reads the source instead of asking `inspect`, so the page is the same on every Python.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parent / "api.md"
MODULES = ("ttmem", "ttmem.client")
HEAD = """# Python API

Generated from the docstrings by `make api`; edit those instead. `None` means that a value is not known.
[numbers.md](numbers.md) explains the figures.
"""
WIDTH = 100  # of a signature; a longer one has one parameter per line

Function = ast.FunctionDef | ast.AsyncFunctionDef


def api_page() -> str:
    return "\n".join([HEAD, *(line for name in MODULES for line in _module(name))]).rstrip() + "\n"


def _module(module_name: str) -> Iterator[str]:
    module = import_module(module_name)
    names = [name for name in module.__all__ if not name.startswith("_")]
    objects = {name: getattr(module, name) for name in names}
    public = {each.__name__: name for name, each in objects.items() if each.__name__ != name}
    yield f"## {module_name}\n"
    yield _text(module.__doc__)
    # Functions first: lower case sorts after the types, but is what most readers look for.
    for name in sorted(names, key=lambda name: (not name.islower(), name)):
        node, lines = _definition(objects[name])
        shown = _class(name, node, lines) if isinstance(node, ast.ClassDef) else _function(node)
        for line in [f"### {module_name}.{name}\n", *shown]:
            yield re.sub(r"\b\w+\b", lambda word: public.get(word[0], word[0]), line)


def _definition(thing: object) -> tuple[ast.ClassDef | Function, list[str]]:
    """The statement that defines it, and the lines of its file."""
    assert isinstance(thing, type) or inspect.isfunction(thing)
    source = inspect.getsource(sys.modules[thing.__module__])
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == thing.__name__:
            return node, source.splitlines()
    raise LookupError(f"{thing} is not defined at the top level of its module")


def _class(name: str, node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    functions = [each for each in node.body if isinstance(each, Function)]
    for each in functions:
        if each.name == "__init__":
            yield _fenced(_signature(each, name))
    bases = [ast.unparse(base) for base in node.bases]
    of = f" (`{bases[0]}`)" if bases and bases[0] != "NamedTuple" else ""
    yield f"{_text(ast.get_docstring(node)).rstrip()}{of}\n"
    yield from _fields(node, lines)
    methods = [_method(each) for each in functions if not each.name.startswith("_")]
    if methods:
        yield "\n".join(methods) + "\n"


def _fields(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """Attributes and members, with the comment beside each."""
    rows = []
    kind = "value" if any(isinstance(each, ast.Assign) for each in node.body) else "type"
    for each in node.body:
        comment = _comment(lines[each.lineno - 1 : each.end_lineno])
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            hint = ast.unparse(each.annotation).replace("|", "\\|")
            rows.append((each.target.id, f"`{hint}`", comment))
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            rows.append((each.targets[0].id, f"`{ast.unparse(each.value)}`", comment))
    rows = [row for row in rows if not row[0].startswith("_")]
    if rows:
        yield f"| name | {kind} | meaning |\n|---|---|---|"
        yield (
            "\n".join(f"| `{name}` | {shown} | {comment} |" for name, shown, comment in rows) + "\n"
        )


def _comment(lines: Iterable[str]) -> str:
    found = [line.partition("  # ")[2].strip() for line in lines]
    return " ".join(filter(None, found)).replace("|", "\\|")


def _function(node: Function) -> Iterator[str]:
    yield _fenced(_signature(node, node.name))
    yield _text(ast.get_docstring(node))


def _method(node: Function) -> str:
    marks = {ast.unparse(each) for each in node.decorator_list}
    if "property" in marks:
        kind = ast.unparse(node.returns) if node.returns else "Any"
        return f"- `{node.name}` (`{kind}`){_after(node)}"
    return f"- `{_signature(node, node.name)}`{_after(node)}"


def _after(node: Function) -> str:
    """The docstring behind a colon, on one line."""
    text = " ".join((ast.get_docstring(node) or "").split())
    return f": {text}" if text else ""


def _signature(node: Function, name: str) -> str:
    own = {"self", "cls"}
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    plain = [None] * (len(positional) - len(arguments.defaults))
    parts = [
        _parameter(each, default)
        for each, default in zip(positional, [*plain, *arguments.defaults], strict=True)
        if each.arg not in own
    ]
    if arguments.vararg:
        parts.append("*" + _parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        parts.append("*")
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [_parameter(each, default) for each, default in keywords]
    result = f" -> {ast.unparse(node.returns)}" if node.returns and name == node.name else ""
    flat = f"{name}({', '.join(parts)}){result}"
    if len(flat) <= WIDTH or node.col_offset:  # a method is an entry of a list, on one line
        return flat
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return argument.arg + kind
    return f"{argument.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def _text(docstring: str | None) -> str:
    """The docstring; a line that begins with a parameter begins an entry of a list."""
    text = inspect.cleandoc(docstring or "")
    return re.sub(r"^(`\w+`: )", r"- \1", text, flags=re.MULTILINE) + "\n"


def _fenced(text: str) -> str:
    return f"```\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(api_page(), "utf-8")
