"""What is in a recording, in its order: processes, markers, and the records of the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ttmem.events import EVENT_SIZE
from ttmem.events.record import NO_POSITION, Control, of_source
from ttmem.recording.chunks import Chunks, Damage, FileSource, Source
from ttmem.recording.format import VERSION, BadChunk, ChunkType, to_document
from ttmem.recording.journal import reached, runs

MAX_STRING_BYTES = 256 << 20  # of all processes; further ones are unknown


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
    messages: Mapping[int, str] = field(
        default_factory=dict, repr=False
    )  # of failed allocations, by time; known for a snapshot only


class Batch(NamedTuple):
    """Events of one process that arrived together. `Event.unpack` reads them; `time` 0 means `arrived_ns`."""

    position: int  # in the journal, of the first event
    process: RecordedProcess
    arrived_ns: int
    events: memoryview
    source_position: (
        int | None
    )  # of the first event; None: entries of a live table, not events as they happened


class Marker(NamedTuple):
    """Something to find again: a phase, a failed allocation, the start or end of a process, a user's mark."""

    position: int
    time_ns: int
    kind: str  # phase, failure, start, end or mark
    text: str
    pid: int | None
    device: str | None  # a unique id


@dataclass(frozen=True, slots=True)
class Info:
    """What a file is."""

    name: str
    bytes: int
    version: int
    recorded: Mapping[
        str, Any
    ]  # host, boot id, user, command, version of ttmem, whether it is confidential
    started_ns: int
    ended_ns: int
    first: int  # journal positions
    end: int
    lost: int  # records that could not be written
    key_frames: int
    bytes_by_type: Mapping[str, int]
    closed: bool  # the writer ended it; else it was killed, or still writes
    damages: tuple[Damage, ...]
    tail: str | None  # why the end of the file is not used


class Reader:
    """Reads a file while it grows, or the chunks of another source. BadInput says what is wrong with it."""

    def __init__(self, source: str | Source) -> None:
        self._chunks = Chunks(FileSource(source) if isinstance(source, str) else source)
        self._known: tuple[tuple[int, int], dict[int, RecordedProcess]] | None = None

    def close(self) -> None:
        self._chunks.close()

    @property
    def name(self) -> str:
        """'recording run.ttmem'."""
        return f"recording {self._chunks.source.name}"

    def refresh(self) -> bool:
        """Takes what was written since it was opened; whether there is anything new."""
        return self._chunks.refresh()

    @property
    def growing(self) -> bool:
        """Whether the file is still being written. One whose writer was killed is neither that nor closed."""
        source = self._chunks.source
        return not self._chunks.closed and isinstance(source, FileSource) and source.has_writer()

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
            bytes_by_type={kind.name.lower(): size for kind, size in chunks.stored.items()},
            closed=chunks.closed,
            damages=tuple(chunks.damages),
            tail=chunks.tail,
        )

    @property
    def _start(self) -> int:
        """The first position that is recorded."""
        records = self._chunks.count(ChunkType.RECORDS)
        return self._chunks.position(ChunkType.RECORDS, 0) if records else self._chunks.end

    def _described(self) -> Mapping[str, Any]:
        if not self._chunks.count(ChunkType.FILE):
            return {}
        try:
            found = to_document(self._chunks.payload(ChunkType.FILE, 0))
        except BadChunk:
            return {}
        return found if isinstance(found, dict) else {}

    def verify(self) -> tuple[Damage, ...]:
        """Reads every payload; what cannot be used, in the order of the file."""
        for kind in ChunkType:
            for number in range(self._chunks.count(kind)):
                try:
                    self._chunks.payload(kind, number)
                except BadChunk:
                    continue  # it is noted
        return tuple(sorted(self._chunks.damages))

    @property
    def processes(self) -> tuple[RecordedProcess, ...]:
        """All that reported events, in the order of their first appearance."""
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

    def _strings(self, count: int) -> dict[int, dict[int, str]]:
        """By serial number of the account, as they were after the first `count` definitions."""
        found: dict[int, dict[int, str]] = {}
        room = MAX_STRING_BYTES
        for document in self._documents(ChunkType.STRINGS, count):
            for serial, texts in numbered(document):
                for number, text in numbered(texts):
                    if isinstance(text, str) and (room := room - len(text) - 100) > 0:
                        found.setdefault(serial, {})[number] = text
        return found

    def _documents(self, kind: ChunkType, count: int | None = None) -> Iterator[Any]:
        """The first `count` documents of a type that can be read."""
        for number in range(self._chunks.count(kind) if count is None else count):
            try:
                yield to_document(self._chunks.payload(kind, number))
            except BadChunk:
                continue  # it is noted

    @property
    def markers(self) -> list[Marker]:
        """In the order of the journal."""
        found = []
        for document in self._documents(ChunkType.MARKS):
            for row in document if isinstance(document, list) else ():
                try:
                    position, time, kind, pid, device, text = row
                    if type(position) is int and type(time) is int:
                        found.append(Marker(position, time, str(kind), str(text), pid, device))
                except (TypeError, ValueError):
                    continue
        return sorted(found, key=lambda marker: marker.position)

    def records(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(position, journal records) of the positions from `first` to before `last`, chunk by chunk.

        Damaged chunks are left out: the next position is then greater than the end of the one before.
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

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[Batch]:
        """The events of the same positions, with the process that reported them; control records are left out."""
        processes = self._processes()
        end = self._chunks.end if last is None else last
        for position, data in self._whole_chunks(first, last):
            try:
                for run in runs(data):
                    begin = max(run.first, first - position)
                    until = min(run.end, end - position)
                    if run.control.op == Control.BATCH and begin < until:
                        serial = run.control.extra
                        yield Batch(
                            position + begin,
                            processes.get(serial) or RecordedProcess(serial, 0, None, None, None),
                            run.control.time,
                            memoryview(data)[begin * EVENT_SIZE : until * EVENT_SIZE],
                            None
                            if run.control.id == NO_POSITION
                            else run.control.id
                            + of_source(data, run.first * EVENT_SIZE, begin * EVENT_SIZE),
                        )
            except ValueError:
                continue  # what remains of the chunk is no journal

    def time_at(self, position: int) -> int:
        """The time that was reached with the record before a position."""
        number = self._chunks.until_position(ChunkType.RECORDS, max(0, position - 1)) - 1
        if number < 0:
            return self._chunks.span[0]
        before = self._chunks.time(ChunkType.RECORDS, number)
        taken = position - self._chunks.position(ChunkType.RECORDS, number)
        try:
            data = self._chunks.payload(ChunkType.RECORDS, number)
            return reached(data[: taken * EVENT_SIZE], before)
        except (BadChunk, ValueError):
            return before

    def batch_start(self, position: int) -> int:
        """The position of the control record to which the record at a position belongs."""
        number = self._chunks.until_position(ChunkType.RECORDS, position) - 1
        if number < 0:
            return position
        start = begin = self._chunks.position(ChunkType.RECORDS, number)
        try:
            for run in runs(self._chunks.payload(ChunkType.RECORDS, number)):
                if start + run.end > position:
                    return min(position, start + run.first - 1)
                begin = start + run.end
        except (BadChunk, ValueError):
            pass
        return min(begin, position)


def numbered(document: Any) -> Iterator[tuple[int, Any]]:
    """The entries of a document whose keys are numbers."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key.isdecimal() and len(key) < 20:
                yield int(key), value


def _process(serial: int, document: Any, strings: Mapping[int, str]) -> RecordedProcess:
    """Whatever is not as it should be is unknown."""
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
