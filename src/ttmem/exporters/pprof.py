"""Heap profiles for pprof: what was in use at one instant, and what was allocated in a span."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ttmem.events import Op
from ttmem.exporters.events import EventRow
from ttmem.exporters.frames import Frame, frames
from ttmem.exporters.protobuf import field, packed
from ttmem.snapshots import Snapshot


class Stack(NamedTuple):
    """What tells samples apart."""

    site: str | None
    memory: str
    device: str
    pid: int
    op: str | None
    phase: str | None


_TYPES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
)
_LABELS = ("memory", "device", "op", "phase")


def in_use(snapshot: Snapshot) -> dict[Stack, tuple[int, int]]:
    """(count, bytes) of live buffers, by reserved bytes where they are known, as all totals count."""
    sums: dict[Stack, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in snapshot.buffers or ():
        if one.kind != "SYSTEM_MEMORY":
            stack = Stack(one.site, one.kind, one.device or "", one.pid or 0, one.name, one.phase)
            count, held = sums[stack]
            sums[stack] = (count + 1, held + one.held)
    return dict(sums)


def allocated(rows: Iterable[EventRow]) -> dict[Stack, tuple[int, int]]:
    """(count, bytes) of all buffers that were allocated."""
    sums: dict[Stack, tuple[int, int]] = defaultdict(lambda: (0, 0))
    alloc = Op.ALLOC.name.lower()
    for row in rows:
        if row.event == alloc and row.memory not in (None, "SYSTEM_MEMORY"):
            stack = Stack(row.site, row.memory, row.device or "", row.pid, row.op, row.phase)
            count, size = sums[stack]
            sums[stack] = (count + 1, size + (row.reserved or row.requested or 0))
    return dict(sums)


def profile(
    live: Mapping[Stack, tuple[int, int]],
    made: Mapping[Stack, tuple[int, int]],
    time_ns: int,
    duration_ns: int,
    comment: str,
) -> bytes:
    """The gzipped profile."""
    return gzip.compress(_Encoder().encode(live, made, time_ns, duration_ns, comment), mtime=0)


class _Encoder:
    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}
        self._tables: list[bytes] = []

    def encode(
        self,
        live: Mapping[Stack, tuple[int, int]],
        made: Mapping[Stack, tuple[int, int]],
        time_ns: int,
        duration_ns: int,
        comment: str,
    ) -> bytes:
        types = [
            field(1, field(1, self._string(name)) + field(2, self._string(unit)))
            for name, unit in _TYPES
        ]
        samples = [
            self._sample(stack, (*made.get(stack, (0, 0)), *live.get(stack, (0, 0))))
            for stack in dict.fromkeys((*live, *made))
        ]
        rest = [
            field(9, time_ns),
            field(10, duration_ns),
            field(13, self._string(comment)),
            field(14, self._string("inuse_space")),
        ]
        texts = [field(6, text) for text in self._strings]
        return b"".join((*types, *samples, *self._tables, *texts, *rest))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _sample(self, stack: Stack, values: tuple[int, ...]) -> bytes:
        labels = b"".join(
            field(3, field(1, self._string(name)) + field(2, self._string(text)))
            for name in _LABELS
            if (text := getattr(stack, name))
        )
        labels += field(3, field(1, self._string("pid")) + field(3, stack.pid))
        locations = [self._location(frame) for frame in frames(stack.site)]
        return field(2, packed(1, locations) + packed(2, values) + labels)

    def _location(self, frame: Frame) -> int:
        number = self._locations.get(frame)
        if number is None:
            number = self._locations[frame] = len(self._locations) + 1
            line = field(1, self._function(frame)) + field(2, frame.line or 0)
            self._tables.append(field(4, field(1, number) + field(4, line)))
        return number

    def _function(self, frame: Frame) -> int:
        # Named by the whole call site: pprof adds samples up by function, and two lines of one are two sites.
        key = (frame.text, frame.file or "")
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            name, file = map(self._string, key)
            self._tables.append(field(5, field(1, number) + field(2, name) + field(4, file)))
        return number
