"""Snapshots to JSON documents and back."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from ttmem.errors import BadInput
from ttmem.snapshots.types import SCHEMA, Snapshot


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The document of DESIGN section 7; details stand beside the fixed keys."""
    document = _plain(snapshot)
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
        picture: Snapshot = _build(Snapshot, {**own, "detail": extra})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadInput(f"this snapshot is damaged: {problem}") from problem
    return picture


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: _plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, document: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    given = {
        name: _shaped(hints[name], document[name]) for name in _names(kind) if name in document
    }
    return kind(**given)


def _shaped(hint: Any, value: Any) -> Any:
    if value is None or hint is Any:
        return value
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _shaped(next(a for a in arguments if a is not type(None)), value)
    if is_dataclass(hint):
        return _build(hint, value)
    if origin is tuple:
        repeated = arguments[0]
        return tuple(_shaped(repeated, item) for item in value)
    if origin is not None and isinstance(value, Mapping):
        return {key: _shaped(arguments[1], item) for key, item in value.items()}
    if isinstance(hint, type) and not isinstance(value, hint):
        raise ValueError(f"{value!r:.60} is no {hint.__name__}")
    return value
