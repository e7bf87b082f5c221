"""A recording that can be queried at any instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Banks, DeviceDeclaration, Event, MemoryKind
from ttmem.events.record import of_source
from ttmem.ledger.anomalies import failures_in, with_failures
from ttmem.ledger.build import build
from ttmem.ledger.context import Context, DeviceContext
from ttmem.ledger.details import LAST_EVENTS, Details, RecentEvents
from ttmem.ledger.peaks import DeviceHistory
from ttmem.recording.chunks import Source
from ttmem.recording.context import (
    Identity,
    Lost,
    apply_changes,
    changes,
    context_from,
    identity,
    names_from,
)
from ttmem.recording.format import BadChunk, ChunkType, from_document, numbered, to_document
from ttmem.recording.instants import Instant, Instants
from ttmem.recording.reader import Batch, RecordedProcess, is_chosen
from ttmem.snapshots import Anomaly, MemoryHistory, Question, Snapshot

COPIED = (
    ChunkType.ACCOUNTS,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.STATE,
    ChunkType.HISTORY,
    ChunkType.TELEMETRY,
)
HISTORY_SAMPLES = 3600
NO_SERIAL = -1


class Document(NamedTuple):
    """Anything in a file other than records."""

    kind: ChunkType
    payload: bytes
    position: int
    time_ns: int


class Recording(Instants):
    """A recording at any instant: the ledger is replayed from the key frame before it."""

    def __init__(self, source: str | Source) -> None:
        super().__init__(source)
        # Documents of the last context, by chunk: most are read again.
        self._chain: dict[int, Any] = {}

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(self, when: str | float, detail: Iterable[str] = ()) -> Snapshot:
        """What the live views showed at that instant; see `instant` and `Question`."""
        return self.snapshot(self.instant(when), Question(tuple(sorted(set(detail)))))

    def snapshot(self, instant: Instant, question: Question) -> Snapshot:
        replay = self._replay
        replay.go_to(instant.position)
        complete = replay.reaches(instant.position)
        # In a gap, the state before it is shown: later contexts name processes that this ledger does not have.
        reached = instant if complete else instant._replace(position=replay.position)
        document, known_at = self._context(reached)
        accounts = self._indices(replay.position)
        try:
            context = self._brought_up(document, accounts, known_at, replay.position)
            found = build(replay.ledger, context, instant.time_ns)
            if question.detail:
                details = self._details(instant, context, accounts, document, question)
                found = details.add_all(found)
        except Exception as problem:  # somebody else may have written it
            name = self._chunks.source.name
            what = f"{type(problem).__name__}: {problem}"[:200]
            raise BadInput(
                f"{name} has no state that can be used at this instant ({what})"
            ) from problem
        remarks = [*found.remarks]
        if not complete:
            text = f"records are missing in the recording after position {replay.position:,}, lost or damaged"
            remarks.append(Anomaly("recording_gap", f"{text}: this is the state before them"))
        if text := self.unfinished:
            remarks.append(Anomaly("recording_unfinished", text))
        if instant.remark:
            remarks.append(Anomaly("instant", instant.remark))
        found = replace(found, remarks=tuple(remarks))
        if wanted := self.selection:
            ids = [(one.unique_id, one.logical_id) for one in found.devices]
            found = found.on_devices({one for one, number in ids if is_chosen(one, number, wanted)})
        return found

    def _brought_up(
        self, document: Mapping[str, Any], accounts: Mapping[int, int], first: int, last: int
    ) -> Context:
        """A context that was written at `first`, as it is at `last`. Any exception: the document is not a context."""
        context = context_from(document, self._positions(accounts, first, last))
        known = _messages_in(document)
        return with_failures(context, self._failures(context, accounts, known, first, last))

    def _positions(self, accounts: Mapping[int, int], first: int, last: int) -> dict[int, int]:
        """How many events accounts reported between two positions, by index."""
        reached = {
            batch.process.serial: batch.source_position + of_source(batch.events)
            for batch in self.batches(first, last, blank=True)
            if batch.source_position is not None
        }
        return {index: reached[serial] for index, serial in accounts.items() if serial in reached}

    def _failures(
        self,
        context: Context,
        accounts: Mapping[int, int],
        known: dict[int, str],
        first: int,
        last: int,
    ) -> list[tuple[RecordedProcess, str, Event]]:
        """(process, device, event) of what failed between two positions, since contexts follow their events.

        `known` are messages until then.
        """
        probed = {
            accounts[one.index]: one.devices
            for one in context.processes
            if one.index in accounts and "probe" in one.sources
        }
        found = [
            (batch.process, device, event)
            for batch in self.batches(first, last)
            if batch.source_position is not None and batch.process.serial in probed
            for event in failures_in(bytes(batch.events))
            if (device := probed[batch.process.serial].get(str(event.device))) is not None
        ]
        if not found:
            return []
        number = self._chunks.until_position(ChunkType.CONTEXT, first)
        times = {event.time for _, _, event in found}
        later = range(number, self._chunks.count(ChunkType.CONTEXT))
        for document in self._documents(ChunkType.CONTEXT, later):
            if times <= known.keys():
                break
            known = known | _messages_in(document)
        return [
            (replace(process, messages=known), device, event) for process, device, event in found
        ]

    def _context(self, instant: Instant) -> tuple[dict[str, dict[str, Any]], int]:
        """The document, and the position at which it was written."""
        # An instant may be before the first context, which has the devices and processes of the start.
        last = max(1, self._until(ChunkType.CONTEXT, instant)) - 1
        known, self._chain = self._chain, {}
        for number in range(last, -1, -1):
            with suppress(BadChunk, IndexError):  # what it changed stays as it was
                document = known.get(number)
                if document is None:
                    document = to_document(self._chunks.payload(ChunkType.CONTEXT, number))
                self._chain[number] = document
                if isinstance(document, dict) and document.get("full"):
                    break
        found: dict[str, dict[str, Any]] = {}
        for changed in reversed(self._chain.values()):
            with suppress(AttributeError):  # a document of another shape
                apply_changes(found, changed)
        count = self._chunks.count(ChunkType.CONTEXT)
        return found, self._chunks.position(ChunkType.CONTEXT, last) if count else 0

    def _until(self, kind: ChunkType, instant: Instant) -> int:
        """How many documents of a type belong to everything up to an instant.

        A document written before a record belongs to it, even if the event is older than the recording.
        """
        chunks, position, until_ns = self._chunks, instant.position, instant.until_ns
        if kind is ChunkType.TELEMETRY:  # no record depends on it
            return chunks.until_time(kind, instant.time_ns)
        later = min(chunks.until_position(kind, position), chunks.until_time(kind, until_ns))
        return max(later, chunks.until_position(kind, position - 1) if position else 0)

    def _details(
        self,
        instant: Instant,
        context: Context,
        accounts: Mapping[int, int],
        document: Mapping[str, Any],
        question: Question,
    ) -> Details:
        """The lists that the live views had; `accounts` are serial numbers by index."""
        replay, messages = self._replay, document.get("messages", {})
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
                _texts(messages.get(str(process.index))),
            )
            for process in context.processes
            if process.index in accounts
        }
        return Details(
            replay.ledger,
            names_from(context, texts),
            question,
            self._recent(alive, replay.position) if "events" in question.detail else None,
            self._history(instant, context, question.device)
            if "history" in question.detail
            else {},
        )

    def _history(
        self, instant: Instant, context: Context, device: str | None
    ) -> dict[str, MemoryHistory]:
        """The hour before an instant, of every device or of one."""
        known = (one.unique_id for one in context.devices)
        past = {one: DeviceHistory() for one in known if device in (None, one)}
        until = self._until(ChunkType.HISTORY, instant)
        numbers = range(max(0, until - HISTORY_SAMPLES), until)
        for document in self._documents(ChunkType.HISTORY, numbers):
            for unique_id, samples in document.items():
                history = past.get(unique_id)
                for sample in samples if history is not None else ():
                    if not history or sample[0] > history.last()[0]:  # a sample may occur twice
                        past[unique_id].append(sample)
        return {unique_id: history.columns() for unique_id, history in past.items() if history}

    def _recent(self, alive: Mapping[int, RecordedProcess], position: int) -> RecentEvents:
        """The last events before a position; those that were not listed live have no position in their source."""
        recent = RecentEvents()
        for batch in self._last_batches(position):
            reporter = alive.get(batch.process.serial, batch.process)
            recent.add(reporter, batch.events, batch.arrived_ns)
        return recent

    def _last_batches(self, position: int) -> list[Batch]:
        number = self._chunks.until_position(ChunkType.RECORDS, max(0, position - 1)) - 1
        found: list[Batch] = []
        end, count = position, 0
        while number >= 0 and count < LAST_EVENTS:
            first = self._chunks.position(ChunkType.RECORDS, number)
            here = [
                batch for batch in self.batches(first, end) if batch.source_position is not None
            ]
            found = here + found
            count += sum(len(batch.events) for batch in here) // EVENT_SIZE
            end, number = first, number - 1
        return found

    def telemetry(self, instant: Instant) -> Any:
        """The last sample of the sensors that is not later, as it was written; None: there is none. BadChunk."""
        count = self._until(ChunkType.TELEMETRY, instant)
        if not count:
            return None
        return to_document(self._chunks.payload(ChunkType.TELEMETRY, count - 1))

    def telemetry_between(self, first_ns: int, last_ns: int) -> Iterator[tuple[int, Any]]:
        """(time, sample as it was written) from one time up to another; those that cannot be read are left out."""
        count = self._chunks.until_time
        first, last = count(ChunkType.TELEMETRY, first_ns - 1), count(ChunkType.TELEMETRY, last_ns)
        for number in range(first, last):
            with suppress(BadChunk):
                sample = to_document(self._chunks.payload(ChunkType.TELEMETRY, number))
                yield self._chunks.time(ChunkType.TELEMETRY, number), sample

    def key_frame(self, instant: Instant) -> Iterator[Document]:
        """The state that a recording starting at an instant must begin with."""
        replay = self._replay
        replay.go_to(instant.position)
        if replay.position != instant.position:
            raise BadInput(f"{self._chunks.source.name} has lost records just before this instant")
        for kind in (ChunkType.ACCOUNTS, ChunkType.STRINGS):
            for number in range(self._until(kind, instant)):  # the later ones are in `documents`
                with suppress(BadChunk):
                    yield Document(kind, self._chunks.payload(kind, number), *instant[:2])
        document, known_at = self._context(instant)
        with suppress(Exception):  # somebody else may have written it: then it stays as it is
            accounts = self._indices(instant.position)
            now = self._brought_up(document, accounts, known_at, instant.position)
            document |= changes(None, now)
        context = from_document({"full": True, **document})
        yield Document(ChunkType.CONTEXT, context, *instant[:2])
        yield Document(ChunkType.STATE, replay.ledger.save(), *instant[:2])
        with suppress(BadChunk):
            if (sample := self.telemetry(instant)) is not None:
                yield Document(ChunkType.TELEMETRY, from_document(sample), *instant[:2])

    def next_state(self, instant: Instant) -> Instant:
        """The instant itself if its state is known; else, where records are missing before it, the next key frame."""
        replay = self._replay
        replay.go_to(instant.position)
        number = self._chunks.until_position(ChunkType.STATE, instant.position)
        if replay.position == instant.position or number >= self._chunks.count(ChunkType.STATE):
            return instant
        return self.after(self._chunks.position(ChunkType.STATE, number))

    def documents(self, start: Instant, end: Instant) -> Iterator[Document]:
        """Everything but records and markers that was written between two instants, in its order."""
        found = []
        for kind in COPIED:
            numbers = range(self._until(kind, start), self._until(kind, end))
            found += [(self._chunks.position(kind, number), kind, number) for number in numbers]
        for position, kind, number in sorted(found):
            with suppress(BadChunk):
                payload = self._chunks.payload(kind, number)
                yield Document(kind, payload, position, self._chunks.time(kind, number))

    def dropped_events(self) -> int:
        """Events that were lost before they could be recorded: by their program, its probe or a reader."""
        # What was alive when the recording began is in its first state, whatever a probe's reader had missed by then.
        first = self.snapshot(self.after(self._start), Question())
        before = sum(one.dropped_events for one in first.processes if "probe" in one.sources)
        return self.at("end").losses.dropped_events - before

    def lost_by_process(self) -> dict[int, Lost]:
        """Of those that lost something, by serial number of the process, as far as contexts tell.

        NO_SERIAL: processes that reported nothing else.
        """
        serials: dict[Identity, int] = {}
        for document in self._documents(ChunkType.ACCOUNTS):
            for serial, process in numbered(document):
                if isinstance(process, dict):
                    serials[identity(process.get("index"), process)] = serial
        found: dict[int, Lost] = {}
        for who, lost in self._told().lost.items():
            if any(lost):
                serial = serials.get(who, NO_SERIAL)
                known = found.get(serial, Lost(0, 0))
                found[serial] = Lost(known.events + lost.events, known.buffers + lost.buffers)
        return found

    def probed(self) -> frozenset[int]:
        """The pids of processes that the probe watched."""
        return frozenset(self._told().probed)

    def messages(self) -> dict[int, str]:
        """The runtime's messages about failed allocations, by the time of their event."""
        found: dict[int, str] = {}
        for document in self._documents(ChunkType.CONTEXT):
            found |= _messages_in(document)
        return found

    def banks(self, device: str, kind: MemoryKind) -> Banks:
        """The banks of a device for a kind of memory, as far as they were declared."""
        found = self.declaration(device)
        return found.banks(kind) if found else Banks(None, None, None)

    def declaration(self, device: str) -> DeviceDeclaration | None:
        """The last declaration of a device, by unique id."""
        found = (one for one in self._devices() if one.unique_id == device)
        return next((one.declaration for one in found), None)

    def devices(self) -> list[DeviceContext]:
        """Every device that it knows at the end or knew before."""
        found, wanted = self._devices(), self.selection
        return [
            one for one in found if not wanted or is_chosen(one.unique_id, one.logical_id, wanted)
        ]

    def _devices(self) -> tuple[DeviceContext, ...]:
        document, _ = self._context(self.after(self._chunks.end))
        try:
            return context_from(document, {}).devices
        except Exception:  # somebody else may have written it
            return ()


def _messages_in(document: Any) -> dict[int, str]:
    """The messages in the document of a context, of all processes."""
    found = document.get("messages") if isinstance(document, dict) else None
    return {time: text for _, texts in numbered(found) for time, text in _texts(texts).items()}


def _texts(document: Any) -> dict[int, str]:
    """The runtime's messages about failed allocations, by time."""
    return {time: str(text) for time, text in numbered(document)}
