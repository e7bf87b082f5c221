"""A recording that can be asked for any instant of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.clock import LATEST_NS
from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Banks, DeviceDeclaration, MemoryKind
from ttmem.events.record import end_of, of_source
from ttmem.recording.chunks import Source
from ttmem.recording.format import BadChunk, ChunkType, from_document, to_document
from ttmem.recording.journal import records_until
from ttmem.recording.reader import Batch, Reader, RecordedProcess, numbered
from ttmem.recording.stretch import Stretch, Totals
from ttmem.recording.when import parse_when
from ttmem.sizes import several
from ttmem.snapshots import Anomaly, MemoryHistory, Snapshot
from ttmem.wire.rows import DeviceRow, grouped_rows

if TYPE_CHECKING:
    from ttmem.ledger.context import Context, DeviceContext
    from ttmem.ledger.details import Details, Narrow, RecentEvents
    from ttmem.recording.replay import Replay

LISTED_EVENTS = 4096
COPIED = (
    ChunkType.ACCOUNTS,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.HISTORY,
)
SAMPLED = ("dram", "l1", "l1_small", "trace", "cb", "l1_used")  # of a sample, behind its time
HISTORY_SAMPLES = 3600


class Instant(NamedTuple):
    """A position in the journal, and the time. What is not in the journal changes between two records, too."""

    position: int
    time_ns: int
    until_ns: int = LATEST_NS  # up to when such changes are included, if it was asked for by time
    sampled: bool = False  # a peak that only counters tell, which are read once a second


class Document(NamedTuple):
    """Anything in a file that is not records."""

    kind: ChunkType
    payload: bytes
    position: int
    time_ns: int


class Recording(Reader):
    """A recording at any instant of it: the ledger is replayed from the key frame before."""

    def __init__(self, source: str | Source) -> None:
        super().__init__(source)
        self._replayed: Replay | None = None

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def instant(self, when: str | float) -> Instant:
        """What an instant stands for.

        A number, or "12.5s", "2m30s": since the start. "start", "end". "#1234": that position. "41#1234": when process
        41 had told 1,234 events (`position` in a snapshot). "oom", "oom:2": when the
        first or second allocation failed. "peak:l1", "peak:dram", ...: when the most was held on one device.
        "14:05:30", "2026-11-18T14:05:30": by the clock.
        """
        started, ended = self._chunks.span
        wanted = parse_when(when, started)
        if wanted.time_ns is not None or wanted.since_start_ns is not None:
            time = wanted.time_ns or 0
            if wanted.since_start_ns is not None:
                time = started + wanted.since_start_ns
            return Instant(self.position_at(time), time, time)
        if wanted.position is not None and wanted.pid is not None:
            position = self._position_of(wanted.pid, wanted.position)
        elif wanted.position is not None:
            position = max(self._start, min(wanted.position, self._chunks.end))
        elif wanted.failure is not None:
            position = self._failure(wanted.failure)
        elif wanted.peak is not None:
            return self._peak(wanted.peak)
        else:
            return Instant(self._chunks.end, ended)
        return Instant(position, self.time_at(position))

    def position_at(self, time: int) -> int:
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

    def _position_of(self, pid: int, count: int) -> int:
        """After so many events of a process, which is `processes[].position` of a snapshot."""
        latest = None
        for batch in self.batches():
            if batch.process.pid == pid and batch.source_position is not None:
                if batch.source_position >= count:
                    break
                latest = batch
        if latest is None or latest.source_position is None:
            raise BadInput(f"{self._chunks.source.name} has no event of process {pid} before that")
        return latest.position + end_of(latest.events, count - latest.source_position)

    def _peak(self, kind: str) -> Instant:
        """By events; where there is none, by the samples of the history."""

        def peak(ledger: Any) -> int:
            rows = grouped_rows(DeviceRow, ledger.devices())
            if kind == "l1_used":
                return max((row.l1_peak for row in rows), default=0)
            return max((row.peak[MemoryKind[kind.upper()]] for row in rows), default=0)

        position = self._replay().find_peak(peak, self._chunks.end)
        if not peak(self._replay().ledger) and (time := self._sampled_peak(kind)):
            return Instant(self.position_at(time), time, time, sampled=True)
        return Instant(position, self.time_at(position))

    def _sampled_peak(self, kind: str) -> int:
        """When the history has the most on one device, first; 0 if it has nothing."""
        column, highest, when = 1 + SAMPLED.index(kind), 0, 0
        for document in self._documents(ChunkType.HISTORY):
            for samples in document.values() if isinstance(document, dict) else ():
                for sample in samples if isinstance(samples, list) else ():
                    try:
                        time, held = int(sample[0]), int(sample[column])
                    except (TypeError, ValueError, IndexError):
                        continue
                    if held > highest and 0 < time <= LATEST_NS:
                        highest, when = held, time
        return when

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
        from ttmem.ledger.details import Narrow
        from ttmem.recording.context import context_from

        wanted = sorted(set(detail))
        replay = self._replay()
        replay.go_to(instant.position)
        document, known_at = self._context(instant)
        accounts = self._indices(replay.position)
        try:
            context = context_from(document, self._positions(accounts, known_at, replay.position))
            found = build(replay.ledger, context, instant.time_ns)
            if wanted:
                messages = document.get("messages", {})
                narrow = Narrow(device, limit)
                details = self._details(instant, context, accounts, messages, wanted, narrow)
                found = details.add_all(found)
        except Exception as problem:  # it may have been written by somebody else
            name = self._chunks.source.name
            what = f"{type(problem).__name__}: {problem}"[:200]
            raise BadInput(
                f"{name} has no state that can be used at this instant ({what})"
            ) from problem
        if not replay.reaches(instant.position):
            found = replace(found, remarks=(*found.remarks, self._gap(replay.position)))
        if instant.sampled:
            text = "no event tells this peak: it is the highest of the counters' samples, one each second"
            found = replace(found, remarks=(*found.remarks, Anomaly("sampled_peak", text)))
        return found

    def _details(
        self,
        instant: Instant,
        context: Context,
        accounts: Mapping[int, int],
        messages: Mapping[str, Any],
        wanted: Sequence[str],
        narrow: Narrow,
    ) -> Details:
        """The lists that the live views had; `accounts` are serial numbers by index, `messages` are by index."""
        from ttmem.ledger.details import Details
        from ttmem.recording.context import names_from

        replay = self._replay()
        strings = self._strings(self._until(ChunkType.STRINGS, instant))
        texts = {index: strings.get(serial, {}) for index, serial in accounts.items()}
        alive = {
            accounts[process.index]: RecordedProcess(
                accounts[process.index],
                process.pid,
                process.start_time_ns,
                process.user,
                process.command,
                texts[process.index],
                {int(number): unique_id for number, unique_id in process.devices.items()},
                _messages(messages.get(str(process.index), {})),
            )
            for process in context.processes
            if process.index in accounts
        }
        return Details(
            replay.ledger,
            names_from(context, texts),
            wanted,
            narrow,
            self._recent(alive, replay.position) if "events" in wanted else None,
            self._history(instant, context, narrow.device) if "history" in wanted else {},
        )

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
        """How many documents of a type belong to everything up to an instant.

        What was written before a record belongs to it: that may be an event older than the recording.
        """
        chunks, position, until_ns = self._chunks, instant.position, instant.until_ns
        later = min(chunks.until_position(kind, position), chunks.until_time(kind, until_ns))
        return max(later, chunks.until_position(kind, position - 1) if position else 0)

    def _positions(self, accounts: Mapping[int, int], first: int, last: int) -> dict[int, int]:
        """How far accounts came in their sources between two positions, by index."""
        reached = {
            batch.process.serial: batch.source_position + of_source(batch.events)
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
            for serial, entry in numbered(document):
                if isinstance(entry, dict) and type(entry.get("index")) is int:
                    found[entry["index"]] = serial  # the last one that had the index
        return found

    def _history(
        self, instant: Instant, context: Context, device: str | None
    ) -> dict[str, MemoryHistory]:
        """The hour before an instant, of every device or of one."""
        from ttmem.ledger.peaks import DeviceHistory

        known = (one.unique_id for one in context.devices)
        past = {one: DeviceHistory() for one in known if device in (None, one)}
        until = self._until(ChunkType.HISTORY, instant)
        for number in range(max(0, until - HISTORY_SAMPLES), until):
            try:
                document = to_document(self._chunks.payload(ChunkType.HISTORY, number))
            except BadChunk:
                continue
            for unique_id, samples in document.items():
                history = past.get(unique_id)
                for sample in samples if history is not None else ():
                    if not history or sample[0] > history.last()[0]:  # a past may come twice
                        past[unique_id].append(sample)
        return {unique_id: history.columns() for unique_id, history in past.items() if history}

    def _recent(self, alive: Mapping[int, RecordedProcess], position: int) -> RecentEvents:
        """The last events before a position; those that were not listed live have no position in their source."""
        from ttmem.ledger.details import RecentEvents

        recent = RecentEvents()
        for batch in self._last_batches(position):
            reporter = alive.get(batch.process.serial, batch.process)
            recent.add(reporter, batch.events, batch.arrived_ns)
        return recent

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

    def totals(self, first: int, last: int) -> Iterator[Totals]:
        """What each device held at `first`, then every change of it until `last`.

        Of processes that only counters name nothing is known between two readings: they are not included.
        """
        for stretch in self.stretches(first, last):
            yield from stretch.totals()

    def stretches(self, first: int = 0, last: int | None = None) -> Iterator[Stretch]:
        """Everything that changed from `first` to before `last`, chunk by chunk; see `Stretch`.

        The first one is what was there already. They end before a gap: `info().lost` and `damages` tell.
        """
        from ttmem.recording.replay import Replay

        replay = Replay(self._chunks, self.records)
        replay.go_to(max(first, self._start))
        end = self._chunks.end if last is None else last
        names = {index: device.unique_id for index, device in enumerate(self._devices(end))}
        processes = self._processes()
        accounts = self._indices(replay.position)
        time = self.time_at(replay.position)
        for position, changes in replay.changes(end):
            found = Stretch(position, time, changes, names, processes, accounts)
            yield found
            time = found.ended_ns

    def banks(self, device: str, kind: MemoryKind) -> Banks:
        """The banks of a device for a kind of memory, as far as they were declared."""
        found = self.declaration(device)
        return found.banks(kind) if found else Banks(None, None, None)

    def declaration(self, device: str) -> DeviceDeclaration | None:
        """A device by its unique id, as it was last declared."""
        found = (one for one in self._devices(self._chunks.end) if one.unique_id == device)
        return next((one.declaration for one in found), None)

    def messages(self) -> dict[int, str]:
        """What the runtime said about failed allocations, by the time of their event."""
        found: dict[int, str] = {}
        for document in self._documents(ChunkType.CONTEXT):
            said = document.get("messages") if isinstance(document, dict) else None
            for _, texts in numbered(said):
                found |= {time: str(text) for time, text in numbered(texts)}
        return found

    def _devices(self, position: int) -> tuple[DeviceContext, ...]:
        """What is known about devices at a position; each stands at its index in the ledger."""
        from ttmem.recording.context import context_from

        document, _ = self._context(Instant(position, self.time_at(position)))
        try:
            return context_from(document, {}).devices
        except Exception:  # somebody else may have written it
            return ()


def _messages(document: Mapping[str, Any]) -> dict[int, str]:
    """What the runtime said about failed allocations, by time."""
    return {int(time): str(text) for time, text in document.items()}
