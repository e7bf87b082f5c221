"""A recording that can be asked for any instant of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.clock import LATEST_NS
from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Amounts, MemoryKind
from ttmem.events.record import NO_POSITION, Control
from ttmem.recording.chunks import Chunks, Damage, FileSource, Source
from ttmem.recording.format import VERSION, BadChunk, ChunkType, from_document, to_document
from ttmem.recording.journal import reached, records_until, runs
from ttmem.recording.when import parse_when
from ttmem.sizes import several
from ttmem.snapshots import Anomaly, Snapshot
from ttmem.wire.rows import DeviceRow, grouped_rows

if TYPE_CHECKING:
    from ttmem.ledger import Books
    from ttmem.ledger.context import DeviceContext
    from ttmem.recording.replay import Replay

LISTED_EVENTS = 4096
COPIED = (
    ChunkType.ACCOUNTS,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.HISTORY,
)
HISTORY_SAMPLES = 3600
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


class Totals(NamedTuple):
    """The bytes held on one device after a record that changed them, as events tell."""

    position: int
    time_ns: int
    device: str  # unique id
    amounts: Amounts


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


class Instant(NamedTuple):
    """A position in the journal, and the time. What is not in the journal changes between two records, too."""

    position: int
    time_ns: int
    until_ns: int = LATEST_NS  # up to when such changes are included, if it was asked for by time


class Document(NamedTuple):
    """Anything in a file that is not records."""

    kind: ChunkType
    payload: bytes
    position: int
    time_ns: int


class Recording:
    """Reads a file while it grows, or the chunks of another source. BadInput says what is wrong with it."""

    def __init__(self, source: str | Source) -> None:
        self._chunks = Chunks(FileSource(source) if isinstance(source, str) else source)
        self._replayed: Replay | None = None
        self._known: tuple[tuple[int, int], dict[int, RecordedProcess]] | None = None

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

    # -- everything that happened --------------------------------------------------------------------------------

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
                for serial, process in _numbered(document):
                    found[serial] = _process(serial, process, strings.get(serial, {}))
            self._known = known, found
        return self._known[1]

    def _strings(self, count: int) -> dict[int, dict[int, str]]:
        """By serial number of the account, as they were after the first `count` definitions."""
        found: dict[int, dict[int, str]] = {}
        room = MAX_STRING_BYTES
        for document in self._documents(ChunkType.STRINGS, count):
            for serial, texts in _numbered(document):
                for number, text in _numbered(texts):
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
                            else run.control.id + begin - run.first,
                        )
            except ValueError:
                continue  # what remains of the chunk is no journal

    def totals(self, first: int, last: int) -> Iterator[Totals]:
        """What each device held at `first`, then every change of it until `last`.

        Of processes that only counters name nothing is known between two readings: they are not included.
        """
        from ttmem.recording.replay import Replay

        replay = Replay(self._chunks, self.records)
        replay.go_to(first)
        names = {index: device.unique_id for index, device in enumerate(self._devices(last))}
        time = self.time_at(replay.position)
        for index, row in enumerate(grouped_rows(DeviceRow, replay.ledger.devices())):
            if index in names:
                amounts = Amounts.of_kinds(row.held, row.cb_used)
                yield Totals(replay.position, time, names[index], amounts)
        for position, change in replay.changes(last):
            time = max(time, change.time)
            if change.device in names:
                yield Totals(position, time, names[change.device], Amounts(*change[3:]))

    def banks(self, device: str, kind: MemoryKind) -> int | None:
        """How many banks a device has for a kind of memory; None if that was not declared."""
        found = (one for one in self._devices(self._chunks.end) if one.unique_id == device)
        return next((one.declaration.banks(kind).number for one in found), None)

    def _devices(self, position: int) -> tuple[DeviceContext, ...]:
        """What is known about devices at a position; each stands at its index in the ledger."""
        from ttmem.recording.context import context_from

        document, _ = self._context(Instant(position, self.time_at(position)))
        try:
            return context_from(document, {}).devices
        except Exception:  # somebody else may have written it
            return ()

    # -- one instant ---------------------------------------------------------------------------------------------

    def instant(self, when: str | float) -> Instant:
        """What an instant stands for.

        A number, or "12.5s", "2m30s": since the start. "start", "end". "#1234": that position. "oom", "oom:2": when the
        first or second allocation failed. "peak:l1", "peak:dram", ...: when the most was held on one device.
        "14:05:30", "2026-11-18T14:05:30": by the clock.
        """
        started, ended = self._chunks.span
        wanted = parse_when(when, started)
        if wanted.time_ns is not None or wanted.since_start_ns is not None:
            time = wanted.time_ns or 0
            if wanted.since_start_ns is not None:
                time = started + wanted.since_start_ns
            return Instant(self._position_at(time), time, time)
        if wanted.position is not None:
            position = max(self._start, min(wanted.position, self._chunks.end))
        elif wanted.failure is not None:
            position = self._failure(wanted.failure)
        elif wanted.peak is not None:
            position = self._peak(wanted.peak)
        else:
            return Instant(self._chunks.end, ended)
        return Instant(position, self.time_at(position))

    def _position_at(self, time: int) -> int:
        """After the last record that is not later."""
        number = self._chunks.until_time(ChunkType.RECORDS, time) - 1
        if number < 0:
            return self._start
        position = self._chunks.position(ChunkType.RECORDS, number)
        try:
            data = self._chunks.payload(ChunkType.RECORDS, number)
            before = self._chunks.time(ChunkType.RECORDS, number)
            return position + records_until(data, before, time)
        except (BadChunk, ValueError):
            return position

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

    def _peak(self, kind: str) -> int:
        """By events; of what only counters tell, the history has a sample each second."""

        def peak(ledger: Any) -> int:
            rows = grouped_rows(DeviceRow, ledger.devices())
            if kind == "l1_used":
                return max((row.l1_peak for row in rows), default=0)
            return max((row.peak[MemoryKind[kind.upper()]] for row in rows), default=0)

        return self._replay().find_peak(peak, self._chunks.end)

    def at(
        self,
        when: str | float = "end",
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """What the live views showed at that instant; see `instant` and `Feed.read`."""
        return self.snapshot(self.instant(when), detail, device=device, limit=limit)

    def snapshot(
        self,
        instant: Instant,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        from ttmem.ledger.build import build
        from ttmem.ledger.details import Details, Narrow
        from ttmem.recording.context import books_for_details, context_from

        wanted = sorted(set(detail))
        replay = self._replay()
        replay.go_to(instant.position)
        document, known_at = self._context(instant)
        accounts = self._indices(replay.position)
        strings = self._strings(self._until(ChunkType.STRINGS, instant))
        try:
            context = context_from(document, self._positions(accounts, known_at, replay.position))
            found = build(replay.ledger, context, instant.time_ns)
            if wanted:
                named = {index: strings.get(serial, {}) for index, serial in accounts.items()}
                messages = document.get("messages", {})
                books = books_for_details(context, replay.ledger, named, messages)
                if "history" in wanted:
                    self._add_history(books, instant)
                if "events" in wanted:
                    self._add_events(books, accounts, replay.position)
                found = Details(books, Narrow(device, limit)).add_all(found, wanted)
        except Exception as problem:  # it may have been written by somebody else
            name = self._chunks.source.name
            what = f"{type(problem).__name__}: {problem}"[:200]
            raise BadInput(
                f"{name} has no state that can be used at this instant ({what})"
            ) from problem
        if not replay.reaches(instant.position):
            found = replace(found, remarks=(*found.remarks, self._gap(replay.position)))
        return found

    def _replay(self) -> Replay:
        from ttmem.recording.replay import Replay

        if self._replayed is None:
            self._replayed = Replay(self._chunks, self.records)
        return self._replayed

    def _gap(self, position: int) -> Anomaly:
        text = (
            f"records are missing in the recording after position {position:,}, lost or damaged: this is the state"
            " before them"
        )
        return Anomaly("recording_gap", text)

    def _until(self, kind: ChunkType, instant: Instant) -> int:
        """How many documents of a type belong to everything up to an instant."""
        return min(
            self._chunks.until_position(kind, instant.position),
            self._chunks.until_time(kind, instant.until_ns),
        )

    def _positions(self, accounts: Mapping[int, int], first: int, last: int) -> dict[int, int]:
        """How far accounts came in their sources between two positions, by index."""
        reached = {
            batch.process.serial: batch.source_position + len(batch.events) // EVENT_SIZE
            for batch in self.batches(first, last)
            if batch.source_position is not None
        }
        return {index: reached[serial] for index, serial in accounts.items() if serial in reached}

    def _context(self, instant: Instant) -> tuple[dict[str, dict[str, Any]], int]:
        """The document, and the position at which it was written."""
        from ttmem.recording.context import apply_changes

        # An instant may lie before the first context: that one has the devices and processes of the start.
        chain = []
        for number in range(max(1, self._until(ChunkType.CONTEXT, instant)) - 1, -1, -1):
            try:
                chain.append(to_document(self._chunks.payload(ChunkType.CONTEXT, number)))
            except (BadChunk, IndexError):
                continue  # what it changed is as it was before
            if isinstance(chain[-1], dict) and chain[-1].get("full"):
                break
        found: dict[str, dict[str, Any]] = {}
        for changed in reversed(chain):
            try:
                apply_changes(found, changed)
            except AttributeError:
                continue  # a document of another shape
        last = max(1, self._until(ChunkType.CONTEXT, instant)) - 1
        count = self._chunks.count(ChunkType.CONTEXT)
        return found, self._chunks.position(ChunkType.CONTEXT, last) if count else 0

    def key_frame(self, instant: Instant) -> Iterator[Document]:
        """What a recording that begins at an instant must begin with."""
        replay = self._replay()
        replay.go_to(instant.position)
        if replay.position != instant.position:
            raise BadInput(f"{self._chunks.source.name} has lost records just before this instant")
        for kind in (ChunkType.ACCOUNTS, ChunkType.STRINGS):
            for number in range(self._chunks.until_position(kind, instant.position)):
                with suppress(BadChunk):
                    yield Document(kind, self._chunks.payload(kind, number), *instant[:2])
        context = from_document({"full": True, **self._context(instant)[0]})
        yield Document(ChunkType.CONTEXT, context, *instant[:2])
        yield Document(ChunkType.STATE, replay.ledger.save(), *instant[:2])

    def documents(self, start: Instant, end: Instant) -> Iterator[Document]:
        """Everything but records, key frames and markers that was written between two instants, in its order."""
        found = []
        for kind in COPIED:
            numbers = range(self._until(kind, start), self._until(kind, end))
            found += [(self._chunks.position(kind, number), kind, number) for number in numbers]
        for position, kind, number in sorted(found):
            with suppress(BadChunk):
                payload = self._chunks.payload(kind, number)
                yield Document(kind, payload, position, self._chunks.time(kind, number))

    def _indices(self, position: int) -> dict[int, int]:
        """The serial numbers of accounts, by their index in the ledger at a position."""
        found: dict[int, int] = {}
        count = self._chunks.until_position(ChunkType.ACCOUNTS, position)
        for document in self._documents(ChunkType.ACCOUNTS, count):
            for serial, entry in _numbered(document):
                if isinstance(entry, dict) and type(entry.get("index")) is int:
                    found[entry["index"]] = serial  # the last one that had the index
        return found

    def _add_history(self, books: Books, instant: Instant) -> None:
        known = {record.unique_id: record for record in books.devices}
        until = self._until(ChunkType.HISTORY, instant)
        for number in range(max(0, until - HISTORY_SAMPLES), until):
            try:
                document = to_document(self._chunks.payload(ChunkType.HISTORY, number))
            except BadChunk:
                continue
            for unique_id, samples in document.items():
                for sample in samples:
                    if unique_id in known:
                        known[unique_id].history.append(sample)

    def _add_events(self, books: Books, accounts: Mapping[int, int], position: int) -> None:
        """The last events before a position; those that were not listed live have no position in their source."""
        from ttmem.ledger import ProcessRecord
        from ttmem.procfs import ProcessFacts

        alive = {serial: index for index, serial in accounts.items()}
        records: dict[int, ProcessRecord] = {}
        for batch in self._last_batches(position):
            one = batch.process
            record = books.processes.get(alive.get(one.serial, -1)) or records.get(one.serial)
            if record is None:
                facts = ProcessFacts(one.pid, one.start_time_ns, one.user, one.command)
                record = ProcessRecord(
                    -1, facts, devices=dict(one.devices), strings=dict(one.strings)
                )
                records[one.serial] = record
            books.remember(record, batch.events, batch.arrived_ns)

    def _last_batches(self, position: int) -> list[Batch]:
        number = self._chunks.until_position(ChunkType.RECORDS, max(0, position - 1)) - 1
        found: list[Batch] = []
        end, count = position, 0
        while number >= 0 and count < LISTED_EVENTS:
            first = self._chunks.position(ChunkType.RECORDS, number)
            here = [
                batch for batch in self.batches(first, end) if batch.source_position is not None
            ]
            found = here + found
            count += sum(len(batch.events) for batch in here) // EVENT_SIZE
            end, number = first, number - 1
        return found

    def _failure(self, number: int) -> int:
        failures = [marker for marker in self.markers if marker.kind == "failure"]
        if len(failures) < number:
            few = several(len(failures), "allocation") if failures else "no allocation"
            raise BadInput(f"{few} failed in {self._chunks.source.name}")
        return failures[number - 1].position + 1


def _numbered(document: Any) -> Iterator[tuple[int, Any]]:
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
        for number, unique_id in _numbered(given.get("devices"))
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
