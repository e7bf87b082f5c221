"""The contents of a recording, in order: processes, markers, and the records of the journal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ttmem._native import reached
from ttmem.clock import LATEST_NS
from ttmem.events import EVENT_SIZE
from ttmem.events.record import BLANK, NO_POSITION, UPPER_FLAGS, Control, of_source
from ttmem.ledger.context import title
from ttmem.recording.chunks import Chunks, Damage, FileSource, Source
from ttmem.recording.context import Told
from ttmem.recording.format import VERSION, BadChunk, ChunkType, numbered, runs, to_document
from ttmem.sizes import several

MAX_STRING_BYTES = 256 << 20  # processes; further ones are unknown


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """A process that reported events. Its strings are complete as far as the file has been read."""

    serial: int  # identifies it in this recording; pids and ledger indices are reused
    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None  # None in a confidential recording
    strings: Mapping[int, str] = field(default_factory=dict, repr=False)  # names, sites, phases
    devices: Mapping[int, str] = field(default_factory=dict)  # logical id -> unique id
    # Of failed allocations, by time; only for snapshots.
    messages: Mapping[int, str] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """For sentences: 'pid 42 (python model.py)', without the command if the recording is confidential."""
        return title(self.pid, self.command) if self.command else f"pid {self.pid}"


_NOT_BLANK = re.compile(rb"[^%c]+" % BLANK, re.DOTALL)


class Batch(NamedTuple):
    """Events of one process that arrived together, for `Event.unpack`; a `time` of 0 means `arrived_ns`."""

    position: int  # journal position of the first event
    process: RecordedProcess
    arrived_ns: int
    events: memoryview
    # Of the first event; None: entries of a live table, not events as they happened.
    source_position: int | None


class Marker(NamedTuple):
    """A point of interest: a phase, a failed allocation, the start or end of a process, a user's mark."""

    position: int
    time_ns: int
    kind: str  # phase, failure, start, end or mark
    text: str
    pid: int | None
    device: str | None  # a unique id


@dataclass(frozen=True, slots=True)
class Info:
    """The description of a file."""

    name: str
    bytes: int
    version: int
    # Host, boot id, user, command, version of ttmem, whether it is confidential.
    recorded: Mapping[str, Any]
    started_ns: int
    ended_ns: int
    first: int  # journal positions
    end: int
    lost: int  # records that could not be written
    key_frames: int
    telemetry: int  # samples of the sensors
    unknown: int  # chunks that only a later version can read
    bytes_by_type: Mapping[str, int]
    closed: bool  # the writer finished; otherwise it was killed, or is still writing
    damages: tuple[Damage, ...]
    tail: str | None  # why the end of the file is not used


class Reader:
    """Reads a growing file, or the chunks of another source. BadInput if it is not a recording."""

    def __init__(self, source: str | Source) -> None:
        self._chunks = Chunks(FileSource(source) if isinstance(source, str) else source)
        self._known: tuple[tuple[int, int], dict[int, RecordedProcess]] | None = None
        self._all_told = Told()

    def close(self) -> None:
        self._chunks.close()

    @property
    def name(self) -> str:
        """'recording run.ttmem'."""
        return f"recording {self._chunks.source.name}"

    def refresh(self) -> bool:
        """Reads what was written since; returns whether there was anything."""
        return self._chunks.refresh()

    @property
    def growing(self) -> bool:
        """Whether the file is still being written. If its writer was killed, it is neither growing nor closed."""
        source = self._chunks.source
        return not self._chunks.closed and isinstance(source, FileSource) and source.has_writer()

    @property
    def unfinished(self) -> str:
        """What a reader of this file must know: that it was not closed, or is damaged; empty: nothing.

        Nothing is said about a file that is still being written, or about memory.
        """
        chunks, said = self._chunks, []
        in_file = isinstance(chunks.source, FileSource) or chunks.tail
        if not chunks.closed and in_file and not self.growing:
            tail = f" ({chunks.tail})" if chunks.tail else ""
            said.append(f"was not closed: its writer was killed or is still writing{tail}")
        if chunks.damages:
            said.append(f"has {several(len(chunks.damages), 'part')} that cannot be read")
        return f"this recording {', and '.join(said)}" if said else ""

    @property
    def span(self) -> tuple[int, int]:
        """When it began and when it ended, in ns since 1970."""
        return self._chunks.span

    def info(self) -> Info:
        """From headers only; `verify` reads everything."""
        chunks = self._chunks
        started, ended = chunks.span
        return Info(
            name=chunks.source.name,
            bytes=chunks.source.size(),
            version=VERSION,
            recorded=self._described(),
            started_ns=started,
            ended_ns=ended,
            first=self._start,
            end=chunks.end,
            lost=chunks.lost,
            key_frames=chunks.count(ChunkType.STATE),
            telemetry=chunks.count(ChunkType.TELEMETRY),
            unknown=chunks.unknown,
            bytes_by_type={kind.name.lower(): chunks.stored[kind] for kind in ChunkType},
            closed=chunks.closed,
            damages=tuple(chunks.damages),
            tail=chunks.tail,
        )

    @property
    def _start(self) -> int:
        """The first position: that of the first key frame, even if the records after it are lost."""
        kinds = [kind for kind in (ChunkType.STATE, ChunkType.RECORDS) if self._chunks.count(kind)]
        return min((self._chunks.position(kind, 0) for kind in kinds), default=self._chunks.end)

    def _described(self) -> Mapping[str, Any]:
        first = range(min(1, self._chunks.count(ChunkType.FILE)))
        found = next(self._documents(ChunkType.FILE, first), None)
        return found if isinstance(found, dict) else {}

    @cached_property
    def selection(self) -> tuple[str, ...]:
        """Ids of the devices that were selected; none: all of them."""
        chosen = self._described().get("devices")
        return tuple(map(str, chosen)) if isinstance(chosen, list) else ()

    def verify(self) -> tuple[Damage, ...]:
        """Reads every payload; returns what cannot be used, in the order of the file."""
        for kind in ChunkType:
            for number in range(self._chunks.count(kind)):
                with suppress(BadChunk):  # it is noted
                    self._chunks.payload(kind, number)
        return tuple(sorted(self._chunks.damages))

    @property
    def processes(self) -> tuple[RecordedProcess, ...]:
        """All processes that reported events, in the order of their first appearance."""
        return tuple(self._processes().values())

    def _processes(self) -> dict[int, RecordedProcess]:
        """By serial number."""
        known = self._chunks.count(ChunkType.ACCOUNTS), self._chunks.count(ChunkType.STRINGS)
        if self._known is None or self._known[0] != known:
            strings = self._strings(self._chunks.count(ChunkType.STRINGS))
            found: dict[int, RecordedProcess] = {}
            for document in self._documents(ChunkType.ACCOUNTS):
                for serial, process in numbered(document):
                    found[serial] = _process(serial, process, strings.get(serial, {}))
            self._known = known, found
        return self._known[1]

    @property
    def counted_processes(self) -> tuple[RecordedProcess, ...]:
        """Those that only counters told of, in the order of their first appearance."""
        return tuple(_process(0, process, {}) for process in self._told().counted.values())

    def _told(self) -> Told:
        """By all contexts so far. Each is read once."""
        chunks, kind, told = self._chunks, ChunkType.CONTEXT, self._all_told
        initial = max(1, chunks.until_position(kind, self._start))
        for number in range(told.contexts, chunks.count(kind)):
            told.contexts += 1
            with suppress(BadChunk):
                document = to_document(chunks.payload(kind, number))
                position, time = chunks.position(kind, number), chunks.time(kind, number)
                told.take(document, position, time, initial=number < initial)
        return told

    def _strings(self, count: int) -> dict[int, dict[int, str]]:
        """By serial number of the account, after the first `count` definitions."""
        found: dict[int, dict[int, str]] = {}
        left = MAX_STRING_BYTES
        for document in self._documents(ChunkType.STRINGS, range(count)):
            for serial, texts in numbered(document):
                known = found.setdefault(serial, {})
                for number, text in numbered(texts):
                    if text == known.get(number):
                        continue  # repeated
                    if isinstance(text, str) and (left := left - len(text) - 100) > 0:
                        known[number] = text
        return found

    def _documents(self, kind: ChunkType, numbers: range | None = None) -> Iterator[Any]:
        """Documents of a type, those with these numbers or all; without what cannot be read, which is noted."""
        for number in range(self._chunks.count(kind)) if numbers is None else numbers:
            with suppress(BadChunk):
                yield to_document(self._chunks.payload(kind, number))

    @property
    def markers(self) -> list[Marker]:
        """In the order of the journal."""
        found = []
        for document in self._documents(ChunkType.MARKS):
            for row in document if isinstance(document, list) else ():
                if not isinstance(row, list) or len(row) != 6:
                    continue
                position, time, kind, pid, device, text = row
                if _is_within(position) and _is_within(time):
                    pid = pid if type(pid) is int else None
                    device = device if isinstance(device, str) else None
                    found.append(Marker(position, time, str(kind), str(text), pid, device))
        return sorted(found, key=lambda marker: marker.position)

    def records(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(position, journal records) for the positions from `first` up to `last`, chunk by chunk.

        Damaged chunks are left out: then the next position is greater than the end of the one before.
        """
        for position, data in self._whole_chunks(first, last):
            skipped = max(0, first - position)
            end = None if last is None else (last - position) * EVENT_SIZE
            wanted = data[skipped * EVENT_SIZE : end]
            if wanted:
                yield position + skipped, wanted

    def _whole_chunks(self, first: int, last: int | None) -> Iterator[tuple[int, bytes]]:
        chunks, kind = self._chunks, ChunkType.RECORDS
        end = chunks.end if last is None else min(last, chunks.end)
        for number in range(max(0, chunks.until_position(kind, first) - 1), chunks.count(kind)):
            position = chunks.position(kind, number)
            if position >= end:
                return
            try:
                data = chunks.payload(kind, number)
            except BadChunk:
                continue  # it is noted
            if position + len(data) // EVENT_SIZE > first:
                yield position, data

    def batches(
        self, first: int = 0, last: int | None = None, *, blank: bool = False
    ) -> Iterator[Batch]:
        """The events of the same positions, with the process that reported them; without control records.

        `blank`: also the blank records that stand for events on devices that were not selected.
        """
        processes = self._processes()
        end = self._chunks.end if last is None else last
        for position, data in self._whole_chunks(first, last):
            for run in runs(data):
                if run.control.op != Control.BATCH:
                    continue
                control = run.control
                process = processes.get(control.extra)
                process = process or RecordedProcess(control.extra, 0, None, None, None)
                within = max(run.first, first - position), min(run.end, end - position)
                for begin, until in self._stretches(data, *within, blank):
                    offset = run.first * EVENT_SIZE, begin * EVENT_SIZE
                    yield Batch(
                        position + begin,
                        process,
                        control.time,
                        memoryview(data)[begin * EVENT_SIZE : until * EVENT_SIZE],
                        None
                        if control.id == NO_POSITION
                        else control.id + of_source(data, *offset),
                    )

    def _stretches(
        self, records: bytes, begin: int, end: int, blank: bool
    ) -> Iterator[tuple[int, int]]:
        """Stretches between two numbers of records, as (first, end), without blank records unless they are wanted."""
        if blank or not self.selection:
            if begin < end:
                yield begin, end
            return
        ops = records[begin * EVENT_SIZE : end * EVENT_SIZE : EVENT_SIZE]
        for found in _NOT_BLANK.finditer(ops):
            yield begin + found.start(), begin + found.end()

    def time_at(self, position: int) -> int:
        """The time reached with the record before a position."""
        number = self._chunks.until_position(ChunkType.RECORDS, max(0, position - 1)) - 1
        if number < 0:
            return self._chunks.span[0]
        before = self._chunks.time(ChunkType.RECORDS, number)
        taken = position - self._chunks.position(ChunkType.RECORDS, number)
        try:
            data = self._chunks.payload(ChunkType.RECORDS, number)
            return reached(data[: taken * EVENT_SIZE], before)
        except BadChunk:
            return before

    def mesh_end(self, position: int) -> int:
        """The position behind the records that report the event before a position on the other devices of its mesh."""
        for batch in self.batches(position, blank=True):
            upper = bytes(batch.events[UPPER_FLAGS::EVENT_SIZE])
            same = len(upper) - len(upper.lstrip(b"\x01"))
            if not same or batch.position > position + 1:  # its own BATCH record may come between
                break
            position = batch.position + same
            if same < len(upper):
                break
        return position

    def batch_start(self, position: int) -> int:
        """The position of the control record that the record at a position belongs to."""
        number = self._chunks.until_position(ChunkType.RECORDS, position) - 1
        if number < 0:
            return position
        start = begin = self._chunks.position(ChunkType.RECORDS, number)
        with suppress(BadChunk):
            for run in runs(self._chunks.payload(ChunkType.RECORDS, number)):
                if start + run.end > position:
                    return min(position, start + run.first - 1)
                begin = start + run.end
        return min(begin, position)


def is_chosen(unique_id: str, logical_id: int | None, wanted: Collection[str]) -> bool:
    return unique_id in wanted or str(logical_id) in wanted


def _is_within(value: Any) -> bool:
    """Whether it can be a time or a position."""
    return type(value) is int and 0 <= value <= LATEST_NS


def _process(serial: int, document: Any, strings: Mapping[int, str]) -> RecordedProcess:
    """Anything invalid becomes unknown."""
    given = document if isinstance(document, dict) else {}

    def known(key: str, kind: type) -> Any:
        return given[key] if type(given.get(key)) is kind else None

    devices = {
        number: unique_id
        for number, unique_id in numbered(given.get("devices"))
        if isinstance(unique_id, str)
    }
    return RecordedProcess(
        serial,
        known("pid", int) or 0,
        known("start_time_ns", int),
        known("user", str),
        known("command", str),
        strings,
        devices,
    )
