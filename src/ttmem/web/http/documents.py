"""JSON documents of the API, without anything of HTTP: a process that reads a recording makes them, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ttmem.snapshots import Question, Snapshot, to_json
from ttmem.snapshots.types import DETAIL_ROWS
from ttmem.views.groups import group_rows, live_groups
from ttmem.views.selection import select

PART = 1000  # rows that are encoded together


class Asked(NamedTuple):
    """The parameters of a request for a snapshot."""

    question: Question = Question()
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    by: str | None = None

    def of(self, snapshot: Snapshot) -> Snapshot:
        return select(snapshot, self.devices, self.pids)


def document(asked: Asked, snapshot: Snapshot) -> dict[str, Any]:
    """The part of a snapshot that a request chooses."""
    shown, limit = asked.of(snapshot), asked.question.limit
    if asked.by is not None:
        return to_json(shown.without_details()) | group_rows(live_groups(shown, asked.by))
    full = [name for name in DETAIL_ROWS if len(getattr(snapshot, name) or ()) == limit]
    return to_json(shown) | ({"limited": full} if full else {})


def json_text(document: Any) -> str:
    """In parts: other threads wait while the encoder, which is written in C, runs, half a second for 100,000 rows."""
    return "".join(_parts(document, 3))


def _parts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth:
        for number, (key, part) in enumerate(value.items()):
            yield f"{', ' if number else '{'}{json.dumps(key)}: "
            yield from _parts(part, depth - 1)
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > PART:
        for at in range(0, len(value), PART):
            yield f"{', ' if at else '['}{json.dumps(value[at : at + PART])[1:-1]}"
        yield "]"
    else:
        yield json.dumps(value)
