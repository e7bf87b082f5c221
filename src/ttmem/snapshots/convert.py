"""Snapshots to JSON documents and back.

A picture of 32 devices has some thousand numbers: which fields hold numbers and which hold more
objects is found once per class, so that a snapshot costs milliseconds.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from ttmem.errors import BadInput
from ttmem.snapshots.types import SCHEMA, Snapshot

Converter = Callable[[Any], Any]
MOST_SHAPES = 4096  # remembered per class; a hostile server cannot fill the memory


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The document of DESIGN section 7; details stand beside the fixed keys."""
    document: dict[str, Any] = _writer(Snapshot)(snapshot)
    document.update(document.pop("detail"))
    schema = document.pop("schema")
    return {"schema": schema, **document}


def from_json(document: Mapping[str, Any]) -> Snapshot:
    """Reads a document that ttmem wrote; keys that this version does not know become details."""
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith("ttmem.snapshot/"):
        raise BadInput(f"this is no ttmem snapshot (schema {schema!r})")
    if schema != SCHEMA:
        raise BadInput(
            f"this snapshot is {schema}, this ttmem reads {SCHEMA}; use the same version for both"
        )
    known = {field.name for field in fields(Snapshot)} - {"detail"}
    own = {key: value for key, value in document.items() if key in known}
    extra = {key: value for key, value in document.items() if key not in known}
    try:
        picture: Snapshot = _reader(Snapshot)({**own, "detail": extra})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadInput(f"this snapshot is damaged: {problem}") from problem
    return picture


# -- objects to documents ------------------------------------------------------------------------


@cache
def _writer(kind: Any) -> Converter:
    names = tuple(_fields(kind))
    take = attrgetter(*names)
    hints = typing.get_type_hints(kind)
    inner = [(name, write) for name in names if (write := _writer_of(hints[name])) is not None]

    def write_object(value: Any) -> dict[str, Any]:
        document = dict(zip(names, take(value), strict=True))
        for name, write in inner:
            document[name] = write(document[name])
        return document

    return write_object


def _writer_of(hint: Any) -> Converter | None:
    """None: the value is written as it is."""
    kind: Any = hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_object(hint):
        return _writer(kind)
    if origin is tuple:
        item = _writer_of(arguments[0])
        return list if item is None else lambda values: [item(value) for value in values]
    if origin in (typing.Union, types.UnionType):
        some = next(argument for argument in arguments if argument is not type(None))
        inner = _writer_of(some)
        return inner and (lambda value: None if value is None else inner(value))
    if origin is not None:  # a mapping
        entry = _writer_of(arguments[1])
        return dict if entry is None else lambda d: {key: entry(value) for key, value in d.items()}
    return None


# -- documents to objects ------------------------------------------------------------------------


@cache
def _reader(kind: Any) -> Converter:
    """Reads one class. Which types its fields may have together is remembered: one test for all."""
    hints = typing.get_type_hints(kind)
    names, required = tuple(_fields(kind)), list(_fields(kind).values())
    readers = [_reader_of(hints[name]) for name in names]
    deep = [at for at, name in enumerate(names) if not _is_plain(hints[name])]
    seen: set[tuple[type, ...]] = set()

    def read_some(document: Mapping[str, Any]) -> Any:
        given = {}
        for name, read, needed in zip(names, readers, required, strict=True):
            if name in document:
                given[name] = read(document[name])
            elif needed:
                raise ValueError(f"{name} is missing")
        return kind(**given)

    def read_object(document: Mapping[str, Any]) -> Any:
        try:
            values = [document[name] for name in names]
        except KeyError:
            return read_some(document)
        types_of_values = tuple(map(type, values))
        if types_of_values not in seen:
            made = read_some(document)  # or it complains
            if len(seen) < MOST_SHAPES:
                seen.add(types_of_values)
            return made
        for at in deep:
            values[at] = readers[at](values[at])
        return kind(*values)

    return read_object


def _is_plain(hint: Any) -> bool:
    """A number, a text or None: its type is all there is to check."""
    kinds = typing.get_args(hint) or (hint,)
    return all(kind in (int, str, bool, type(None)) for kind in kinds) and (
        typing.get_origin(hint) in (None, typing.Union, types.UnionType)
    )


def _is_object(hint: Any) -> bool:
    return is_dataclass(hint) or hasattr(hint, "_fields")


def _fields(kind: Any) -> dict[str, bool]:
    """Names of the fields, and whether a document must have them. Of a named tuple it needs all."""
    if not is_dataclass(kind):
        return dict.fromkeys(kind._fields, True)
    return {
        field.name: field.default is MISSING and field.default_factory is MISSING
        for field in fields(kind)
    }


def _reader_of(hint: Any) -> Converter:
    kind: Any = hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value: value
    if _is_object(hint):
        return _reader(kind)
    if origin in (typing.Union, types.UnionType):
        read = _reader_of(next(argument for argument in arguments if argument is not type(None)))
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        item = _reader_of(arguments[0])
        return lambda values: tuple(item(value) for value in _checked(values, list, tuple))
    if origin is not None:
        read = _reader_of(arguments[1])
        return lambda d: {key: read(value) for key, value in _checked(d, Mapping).items()}

    def read_plain(value: Any) -> Any:
        return value if type(value) is hint else _checked(value, hint)

    if hint is float:  # other writers may have a whole number there
        return lambda value: float(_checked(value, float, int)) if abs(value) < 2**53 else None

    return read_plain


def _checked(value: Any, *kinds: Any) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{value!r:.60} is no {kinds[0].__name__}")
    return value
