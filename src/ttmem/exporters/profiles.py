"""Memory by call stack: heap profiles for pprof, speedscope files, collapsed stacks."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from ttmem.events import Op
from ttmem.exporters.events import EventRow
from ttmem.exporters.protobuf import field, packed
from ttmem.exporters.request import ExportRequest
from ttmem.snapshots import Snapshot
from ttmem.text import clean


class CallFrame(NamedTuple):
    """One line of Python, or a name that stands for one."""

    text: str  # all of it, as ttmem shows it
    function: str
    file: str | None
    line: int | None


@lru_cache(65_536)
def frames(site: str | None) -> tuple[CallFrame, ...]:
    """The frames of a call site, innermost first; `ttmem run --stacks` records several."""
    lines = site.strip("\n").split("\n") if site else []  # other line ends belong to a name
    return tuple(map(_frame, lines)) or (NO_SITE,)


NO_SITE = CallFrame("(no call site)", "(no call site)", None, None)


def _frame(text: str) -> CallFrame:
    """'path/model.py:42 forward'."""
    place, _, function = text.strip().rpartition(" ")
    file, _, line = (place or function).rpartition(":")
    if not file or not line.isdecimal():
        return CallFrame(text, text, None, None)
    return CallFrame(text, function if place else f"line {line}", file, int(line))


class Stack(NamedTuple):
    """What distinguishes samples."""

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
SHARED = "circular buffers of cached programs"
TOTAL_ONLY = "known only as a total"
_LABELS = ("memory", "device", "op", "phase")
# flamegraph.pl takes two numbers at the end of a line for a comparison of two profiles.
_LAST_NUMBER = re.compile(r" +(?=\d+(?:\.\d*)?$)")


def in_use(snapshot: Snapshot) -> dict[Stack, tuple[int, int]]:
    """(count, bytes) of live buffers, reserved bytes if known; and what no list of buffers contains, as totals.

    Together they are what each process holds: circular buffers of cached programs share addresses, so they are one
    total, without a count; and of some processes nothing but totals is known.
    """
    sums: dict[Stack, tuple[int, int]] = defaultdict(lambda: (0, 0))
    listed: dict[tuple[int, str, str], int] = defaultdict(int)
    for one in snapshot.buffers or ():
        if one.kind != "SYSTEM_MEMORY":
            stack = Stack(one.site, one.kind, one.device or "", one.pid or 0, one.name, one.phase)
            count, held = sums[stack]
            sums[stack] = (count + 1, held + one.held)
            listed[stack.pid, stack.device, one.kind] += one.held
    for process in snapshot.processes:
        for device, amounts in process.devices.items():
            for kind, held in amounts.by_label().items():
                rest = held - listed[process.pid, device, kind]
                if rest > 0:
                    name = SHARED if kind == "CB" else TOTAL_ONLY
                    sums[Stack(name, kind, device, process.pid, None, None)] = (0, rest)
    return dict(sums)


def _allocated(rows: Iterable[EventRow]) -> dict[Stack, tuple[int, int]]:
    """(count, bytes) of all buffers that were allocated."""
    sums: dict[Stack, tuple[int, int]] = defaultdict(lambda: (0, 0))
    alloc = Op.ALLOC.name.lower()
    for row in rows:
        if row.event == alloc and row.memory not in (None, "SYSTEM_MEMORY"):
            stack = Stack(row.site, row.memory, row.device or "", row.pid, row.op, row.phase)
            count, size = sums[stack]
            sums[stack] = (count + 1, size + (row.reserved or row.requested or 0))
    return dict(sums)


def write_pprof(request: ExportRequest, out: BinaryIO) -> None:
    snapshot = request.live(request.at)
    live, made = in_use(snapshot), _allocated(request.rows())
    began = request.recording.time_at(request.first.position)
    duration = max(0, request.recording.time_at(request.last.position) - began)
    comment = f"{request.recording.name} at position {request.at.position}"
    profile = _Profile().encode(live, made, snapshot.time_ns, duration, comment)
    out.write(gzip.compress(profile, mtime=0))


class _Profile:
    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[CallFrame, int] = {}
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

    def _location(self, frame: CallFrame) -> int:
        number = self._locations.get(frame)
        if number is None:
            number = self._locations[frame] = len(self._locations) + 1
            line = field(1, self._function(frame)) + field(2, frame.line or 0)
            self._tables.append(field(4, field(1, number) + field(4, line)))
        return number

    def _function(self, frame: CallFrame) -> int:
        # Named by the whole call site: pprof adds up samples by function, but two lines of a function are two sites.
        key = (frame.text, frame.file or "")
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            name, file = map(self._string, key)
            self._tables.append(field(5, field(1, number) + field(2, name) + field(4, file)))
        return number


def _path(stack: Stack, *, with_device: bool) -> tuple[CallFrame, ...]:
    """From the outermost frame to the op."""
    outer = [f"device {stack.device}"] if with_device else []
    outer += [stack.memory] if with_device else []
    outer += [f"phase {stack.phase}"] if stack.phase else []
    names = [CallFrame(text, text, None, None) for text in outer]
    op = (CallFrame(stack.op, stack.op, None, None),) if stack.op else ()
    return (*names, *reversed(frames(stack.site)), *op)


def write_collapsed(request: ExportRequest, out: BinaryIO) -> None:
    """Lines 'device;memory;frame;frame BYTES', for flamegraph.pl and compatible tools."""
    sums: dict[str, int] = defaultdict(int)
    for stack, (_, held) in in_use(request.live(request.at)).items():
        parts = [clean(frame.text).replace(";", ",") for frame in _path(stack, with_device=True)]
        sums[_LAST_NUMBER.sub("_", ";".join(parts))] += held
    out.writelines(f"{path} {held}\n".encode() for path, held in sorted(sums.items()))


def write_speedscope(request: ExportRequest, out: BinaryIO) -> None:
    """One profile for each device and kind of memory, in bytes."""
    numbers: dict[CallFrame, int] = {}
    profiles: dict[tuple[str, str], dict[tuple[int, ...], int]] = {}
    live = in_use(request.live(request.at))
    for stack, (_, held) in sorted(live.items(), key=lambda item: -item[1][1]):
        path = tuple(
            numbers.setdefault(frame, len(numbers)) for frame in _path(stack, with_device=False)
        )
        sums = profiles.setdefault((stack.device, stack.memory), {})
        sums[path] = sums.get(path, 0) + held
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": request.recording.name,
        "exporter": "ttmem",
        "activeProfileIndex": 0,
        "shared": {"frames": [_speedscope_frame(frame) for frame in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{memory} of device {device}",
                "unit": "bytes",
                "startValue": 0,
                "endValue": sum(sums.values()),
                "samples": [list(path) for path in sums],
                "weights": list(sums.values()),
            }
            for (device, memory), sums in sorted(profiles.items())
        ],
    }
    out.write(json.dumps(document).encode())


def _speedscope_frame(frame: CallFrame) -> dict[str, Any]:
    place = {"file": frame.file, "line": frame.line}
    return {"name": frame.text, **{key: value for key, value in place.items() if value is not None}}
