"""JSON documents of the API, without anything of HTTP: a process that reads a recording makes them, too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ttmem.procfs import start_time_error_ns, user_name
from ttmem.recording import RecordedProcess
from ttmem.snapshots import Anomaly, LeftBehind, LoggedEvent, Process, Question, Snapshot, to_json
from ttmem.snapshots.rows import Row
from ttmem.snapshots.types import DETAIL_ROWS
from ttmem.views.groups import group_rows, live_groups
from ttmem.views.selection import select

PART = 1000  # rows that are encoded together
PRIVATE = (
    "site",
    "last_site",
    "text",
    "phase",
)  # of rows; they contain paths, or what a user wrote
CLOSED = "shown to its owner and to root"
P = TypeVar("P", Process, LeftBehind)


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


# -- what a user may see -----------------------------------------------------------------------------------------------


def users_of(processes: Iterable[Process | LeftBehind | RecordedProcess]) -> dict[int, str | None]:
    """By pid; None if it was used by several."""
    found: dict[int, str | None] = {}
    for process in processes:
        same = found.get(process.pid, process.user) == process.user
        found[process.pid] = process.user if same else None
    return found


def users_in(snapshot: Snapshot) -> dict[int, str | None]:
    """Without ghosts: whoever owns a file of counters can write any pid into it."""
    dead = (left for left in snapshot.left_behind if not left.ghost)
    return users_of((*snapshot.processes, *dead))


def visible_to(
    snapshot: Snapshot, uid: int, users: Mapping[int, str | None] | None = None
) -> Snapshot:
    """Removes the command lines and paths of other users, except for root.

    `users` are those of processes that have exited; what belongs to an unknown process is shown only to root. A pid
    can be reused on purpose, so what may be of an earlier process is shown only if all its processes are one user's.
    """
    if uid == 0:
        return snapshot
    me, error_ns = user_name(uid), start_time_error_ns()
    holders, known = users_of(snapshot.processes), (users_in(snapshot), users or {})
    started = {
        process.pid: process.start_time_ns + error_ns
        for process in snapshot.processes
        if process.start_time_ns is not None
    }

    def is_hidden(row: LoggedEvent | Anomaly) -> bool:
        if row.pid is None:
            return False
        earlier = row.time_ns is not None and row.time_ns < started.get(row.pid, 0)
        return earlier or {of[row.pid] for of in known if row.pid in of} != {me}

    def anomaly(row: Anomaly) -> Anomaly:
        return replace(row, text=f"{row.kind}: {CLOSED}") if is_hidden(row) else row

    def process(row: P) -> P:
        return row if row.user == me else replace(row, command=None)

    def closed(row: Row) -> Any:
        # Rows other than events are of live processes.
        other = row.pid is not None and holders.get(row.pid) != me
        hidden = is_hidden(row) if isinstance(row, LoggedEvent) else other
        if not hidden:
            return row
        told: dict[str, Any] = {name: None for name in PRIVATE if name in row._fields}
        if (name := getattr(row, "name", None)) is not None:
            told["name"] = name.rpartition("/")[2]  # that of a kernel is the path of its source
        return row._replace(**told)

    rows: dict[str, Any] = {
        name: tuple(map(closed, found))
        for name in DETAIL_ROWS
        if (found := getattr(snapshot, name)) is not None
    }
    return replace(
        snapshot,
        devices=tuple(
            replace(device, anomalies=tuple(map(anomaly, device.anomalies)))
            for device in snapshot.devices
        ),
        processes=tuple(map(process, snapshot.processes)),
        left_behind=tuple(map(process, snapshot.left_behind)),
        remarks=tuple(map(anomaly, snapshot.remarks)),
        **rows,
    )
