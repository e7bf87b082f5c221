"""A recording that can be asked for any instant of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ttmem.events import EVENT_SIZE
from ttmem.recording.chunks import Chunks, Damage, FileSource, Source
from ttmem.recording.format import VERSION, BadChunk, ChunkType, to_document
from ttmem.snapshots import Snapshot


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


class Batch(NamedTuple):
    """Events of one process that arrived together. `Event.unpack` reads them; `time` 0 means `arrived_ns`."""

    position: int  # in the journal, of the first event
    process: RecordedProcess
    arrived_ns: int
    events: memoryview


class Marker(NamedTuple):
    """Something to find again: a phase, a failed allocation, the start or end of a process, a user's mark."""

    position: int
    time_ns: int
    kind: str  # phase, failure, start, end, mark
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


class Recording:
    """Reads a file while it grows, or the chunks of another source. BadInput says what is wrong with it."""

    def __init__(self, source: str | Source) -> None:
        self._chunks = Chunks(FileSource(source) if isinstance(source, str) else source)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._chunks.close()

    @property
    def name(self) -> str:
        """'recording run.ttmem'."""
        return f"recording {self._chunks.source.name}"

    def refresh(self) -> bool:
        """Takes what was written since it was opened; whether there is anything new."""
        return self._chunks.refresh()

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
            closed=chunks.count(ChunkType.END) > 0,
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

    # -- everything that happened --------------------------------------------------------------------------------

    @property
    def processes(self) -> tuple[RecordedProcess, ...]:
        """All that reported events, in the order of their first appearance."""
        raise NotImplementedError

    @property
    def markers(self) -> list[Marker]:
        """In the order of the journal."""
        raise NotImplementedError

    def records(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(position, journal records) of the positions from `first` to before `last`, chunk by chunk.

        Damaged chunks are left out: the next position is then greater than the end of the one before.
        """
        chunks, kind = self._chunks, ChunkType.RECORDS
        end = chunks.end if last is None else min(last, chunks.end)
        number = max(0, chunks.at_position(kind, first) - 1)
        while number < chunks.count(kind) and chunks.position(kind, number) < end:
            position = chunks.position(kind, number)
            number += 1
            try:
                data = chunks.payload(kind, number - 1)
            except BadChunk:
                continue  # it is noted
            skipped = max(0, first - position)
            wanted = data[skipped * EVENT_SIZE : (end - position) * EVENT_SIZE]
            if wanted:
                yield position + skipped, wanted

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[Batch]:
        """The events of the same positions, with the process that reported them; control records are left out."""
        raise NotImplementedError

    # -- one instant ---------------------------------------------------------------------------------------------

    def position(self, when: str | float) -> int:
        """The journal position that an instant stands for.

        A number, or "12.5s", "2m30s": since the start. "start", "end". "#1234": that position. "oom", "oom:2": at the
        first or second allocation that failed. "peak:l1", "peak:dram", ...: where the most was held on one device.
        "2026-11-18T01:02:03": by the clock.
        """
        raise NotImplementedError

    def at(
        self,
        when: str | float = "end",
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """What the live views showed at that instant; see `position` and `Feed.read`."""
        raise NotImplementedError
