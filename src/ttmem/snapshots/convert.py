"""Converts snapshots to JSON documents and back; documents come from other processes, so they are checked.

A snapshot of 32 devices has some thousand numbers. How to convert a class is worked out once, so that a snapshot takes
milliseconds.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import NamedTuple
from ttmem.snapshots.rows import ROWS, Cores
from ttmem.snapshots.types import DETAIL_FIELDS, SCHEMA, Snapshot

T = TypeVar("T")
Converter = Callable[[Any], Any]
Reader = Callable[[Any, Any, Any], Any]  # document, an earlier document, and what was made of it
MOST_SHAPES = 4096  # remembered per class, so that a hostile server cannot fill the memory
AMOUNT_LIMIT = 1 << 64  # no number in a row is larger
KEYS = {"is_global": "global"}  # where Python has no such name


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The document of `ttmem ps --json`; details that the snapshot does not have are left out."""
    document: dict[str, Any] = _writer(Snapshot)(snapshot)
    for name in DETAIL_FIELDS:
        if document[name] is None:
            del document[name]
    return {"schema": document.pop("schema"), **document}


def write(value: Any) -> dict[str, Any]:
    """The document of a dataclass or named tuple whose fields have types that are known here."""
    kind: Any = type(value)
    document: dict[str, Any] = _writer(kind)(value)
    return document


def read(kind: type[T], document: Any, old: Any = None, known: T | None = None) -> T:
    """What `write` made of an object of that class; BadInput if the document is not one.

    `known` was made of the document `old`.
    """
    wanted: Any = kind
    try:
        made: T = _reader(wanted)(_checked(document, dict, Mapping), old, known)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise BadInput(f"this {kind.__name__.lower()} is damaged: {problem}") from problem
    return made


class Earlier(NamedTuple):
    """A document that was read before."""

    document: Mapping[str, Any]
    snapshot: Snapshot


def from_json(document: Mapping[str, Any], earlier: Earlier | None = None) -> Snapshot:
    """Reads a document that ttmem wrote. Keys that this version does not know are ignored.

    What is the same as in an earlier document becomes the same objects again: a monitor that reads ten snapshots a
    second needs half the time.
    """
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith("ttmem.snapshot/"):
        raise BadInput(f"this is not a ttmem snapshot (schema {schema!r})")
    if schema != SCHEMA:
        raise BadInput(
            f"this snapshot is {schema}, this ttmem reads {SCHEMA}; use the same version for both"
        )
    old, known = earlier or (None, None)
    return read(Snapshot, document, old, known)


# -- objects to documents ------------------------------------------------------------------------


@cache
def _writer(kind: Any) -> Converter:
    names = tuple(_fields(kind))
    keys = tuple(KEYS.get(name, name) for name in names)
    take = tuple if issubclass(kind, tuple) else attrgetter(*names)
    hints = _hints(kind)
    inner = [
        (key, write)
        for name, key in zip(names, keys, strict=True)
        if (write := _writer_of(hints[name])) is not None
    ]

    if take is tuple and not inner:
        return lambda value: dict(zip(keys, value, strict=True))

    def write_object(value: Any) -> dict[str, Any]:
        document = dict(zip(keys, take(value), strict=True))
        for key, write in inner:
            document[key] = write(document[key])
        return document

    return write_object


def _writer_of(hint: Any) -> Converter | None:
    """None: the value is written as it is."""
    kind: Any = hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Cores:
        return lambda cores: [list(core) for core in cores]
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
def _reader(kind: Any) -> Reader:
    """Reads one class. Types of fields that were valid together are remembered, and need no second check."""
    hints = _hints(kind)
    names, required = tuple(_fields(kind)), list(_fields(kind).values())
    keys = tuple(KEYS.get(name, name) for name in names)
    readers = [_reader_of(hints[name]) for name in names]
    deep = [at for at, name in enumerate(names) if not _is_plain(hints[name])]
    seen: set[tuple[type, ...]] = set()
    is_row = kind in ROWS

    def read_some(document: Mapping[str, Any], old: Any, known: Any) -> Any:
        given = {}
        for at, (name, key, needed) in enumerate(zip(names, keys, required, strict=True)):
            if key in document:
                before = (None, None) if known is None else (old.get(key), getattr(known, name))
                given[name] = readers[at](document[key], *before)
            elif needed:
                raise ValueError(f"{key} is missing")
        return kind(**given)

    def read_typed(document: Mapping[str, Any], old: Any, known: Any) -> Any:
        try:
            values = [document[key] for key in keys]
        except KeyError:
            return read_some(document, old, known)
        types_of_values = tuple(map(type, values))
        if types_of_values not in seen:
            made = read_some(document, None, None)  # raises an error if a type is wrong
            if len(seen) < MOST_SHAPES:
                seen.add(types_of_values)
            return made
        if known is None:
            for at in deep:
                values[at] = readers[at](values[at], None, None)
        else:
            for at in deep:
                value, before, made = values[at], old.get(keys[at]), getattr(known, names[at])
                values[at] = made if value == before else readers[at](value, before, made)
        return kind(*values)

    def read_row(document: Mapping[str, Any], old: Any, known: Any) -> Any:
        row = read_typed(document, old, known)
        for value in row:
            if type(value) is int:
                _amount(value)
        return row

    return read_row if is_row else read_typed


def _is_plain(hint: Any) -> bool:
    """A number, a text or None: only its type needs a check."""
    kinds = typing.get_args(hint) or (hint,)
    return all(kind in (int, str, bool, type(None)) for kind in kinds) and (
        typing.get_origin(hint) in (None, typing.Union, types.UnionType)
    )


def _is_object(hint: Any) -> bool:
    return hasattr(hint, "_field_defaults")


# Fields of nearly all classes are of these types. To evaluate all annotations takes 4 ms.
_PLAIN = (int, str, bool, float)
_PLAIN_HINTS: dict[str, Any] = {kind.__name__: kind for kind in _PLAIN} | {
    f"{kind.__name__} | None": kind | None for kind in _PLAIN
}


def _hints(kind: Any) -> dict[str, Any]:
    """The types of its fields, as `typing.get_type_hints` gives them."""
    names = vars(sys.modules[kind.__module__])
    return {
        field: _PLAIN_HINTS.get(text) or eval(text, names)
        for field, text in kind.__annotations__.items()
    }


def _fields(kind: Any) -> dict[str, bool]:
    """Names of the fields, and whether a document must have them."""
    return {name: name not in kind._field_defaults for name in kind.__match_args__}


def _reader_of(hint: Any) -> Reader:
    kind: Any = hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value, old, known: value
    if hint is Cores:
        return lambda value, old, known: Cores.of(_checked(value, list, tuple))
    if _is_object(hint):
        return _reader(kind)
    if origin in (typing.Union, types.UnionType):
        if _is_plain(hint):
            return lambda value, old, known: _checked(value, *arguments)
        read = _reader_of(next(argument for argument in arguments if argument is not type(None)))
        return lambda value, old, known: None if value is None else read(value, old, known)
    if hint == tuple[int, int]:
        return lambda values, old, known: _read_pair(values)
    if origin is tuple and arguments[0] is int:
        return lambda values, old, known: _read_numbers(values)
    if origin is tuple:
        return _reader_of_tuple(_reader_of(arguments[0]))
    if origin is not None:
        return _reader_of_mapping(_reader_of(arguments[1]))
    if hint is float:  # other writers may have a whole number there
        return lambda value, old, known: (
            float(_checked(value, float, int)) if abs(value) < 2**53 else None
        )
    return lambda value, old, known: _checked(value, hint)


def _reader_of_tuple(read: Reader) -> Reader:
    """Entries at the same place are compared."""

    def read_entries(values: Any, old: Any, known: Any) -> Any:
        entries = _checked(values, list, tuple)
        if not known or len(old) != len(entries):
            return tuple(read(value, None, None) for value in entries)
        return tuple(
            made if value == before else read(value, before, made)
            for value, before, made in zip(entries, old, known, strict=True)
        )

    return read_entries


def _reader_of_mapping(read: Reader) -> Reader:
    def read_entries(values: Any, old: Any, known: Any) -> Any:
        entries = _checked(values, dict, Mapping)
        if not known:
            return {key: read(value, None, None) for key, value in entries.items()}
        return {
            key: known[key]
            if value == (before := old.get(key)) and key in known
            else read(value, before, known.get(key))
            for key, value in entries.items()
        }

    return read_entries


def _read_numbers(values: Any) -> tuple[int, ...]:
    """An hour of 32 devices has 800,000 of them."""
    numbers: tuple[int, ...] = tuple(_checked(values, list, tuple))
    if not set(map(type, numbers)) <= {int}:
        raise ValueError(f"{values!r:.60} must all be numbers")
    return numbers


def _read_pair(values: Any) -> tuple[int, int]:
    first, second = _read_numbers(values)
    return _amount(first), _amount(second)


def _amount(value: int) -> int:
    if not 0 <= value < AMOUNT_LIMIT:
        raise ValueError(f"{value!r:.60} is out of range")
    return value


def _checked(value: Any, *kinds: Any) -> Any:
    if type(value) in kinds:
        return value
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{value!r:.60} is no {kinds[0].__name__}")
    return value
