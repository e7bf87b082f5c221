"""A recording that can be queried at any instant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.clock import LATEST_NS
from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Amounts, Banks, DeviceDeclaration, Event, MemoryKind
from ttmem.events.record import end_of, of_source
from ttmem.recording.chunks import Source
from ttmem.recording.context import CountedReading, Identity, Lost, identity
from ttmem.recording.format import BadChunk, ChunkType, from_document, numbered, to_document
from ttmem.recording.journal import MASK_RECORDS, records_until
from ttmem.recording.reader import Batch, Marker, Reader, RecordedProcess
from ttmem.recording.selected import is_chosen
from ttmem.recording.stretch import Stretch, Totals, UniqueIds
from ttmem.recording.when import LAST, SECOND_NS, clock_text, parse_when
from ttmem.sizes import human, several
from ttmem.snapshots import Anomaly, MemoryHistory, Question, Snapshot
from ttmem.wire.rows import DeviceRow, grouped_rows

if TYPE_CHECKING:
    from ttmem.ledger.context import Context, DeviceContext
    from ttmem.ledger.details import Details, RecentEvents
    from ttmem.recording.replay import Replay

COPIED = (
    ChunkType.ACCOUNTS,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.STATE,
    ChunkType.HISTORY,
    ChunkType.TELEMETRY,
)
SAMPLED = (
    "dram",
    "l1",
    "l1_small",
    "trace",
    "cb",
    "l1_used",
)  # the columns of a sample, after its time
HISTORY_SAMPLES = 3600
NO_SERIAL = -1


class Instant(NamedTuple):
    """A position in the journal, and a time: what is not in the journal changes between two records, too."""

    position: int
    time_ns: int
    until_ns: int = (
        LATEST_NS  # include such changes up to this time, if the instant was given as a time
    )
    remark: str = ""  # if it is not quite the instant that was asked for, or one of several


class Held(NamedTuple):
    """What one device holds at an instant, by events and counters together."""

    instant: Instant
    device: str  # unique id
    amounts: Amounts
    counted: bool  # the instant is that of a reading of counters, not of an event


class Document(NamedTuple):
    """Anything in a file other than records."""

    kind: ChunkType
    payload: bytes
    position: int
    time_ns: int


class Recording(Reader):
    """A recording at any instant: the ledger is replayed from the key frame before it."""

    def __init__(self, source: str | Source) -> None:
        super().__init__(source)
        self._replayed: Replay | None = None
        # Documents of the last context, by chunk: most are read again.
        self._chain: dict[int, Any] = {}
        self._counted: tuple[CountedReading, ...] | None = None
        self.gaps: dict[int, int] = {}  # from position to position: missing in `stretches` so far

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def instant(self, when: str | float) -> Instant:
        """Resolves an instant.

        A number, or "12.5s", "2m30s": since the start. "start", "end". "#1234": that position. "41#1234": when process
        41 had reported 1,234 events (`position` in a snapshot). "oom", "oom:2", "oom:last": when the first, second or
        last allocation failed. "peak:l1", "peak:dram", ...: when one device held the most. "14:05:30",
        "2026-11-18T14:05:30", "@1794996330000000000" (ns since 1970): by the clock.
        """
        started, ended = self._chunks.span
        wanted = parse_when(when, started, ended)
        if wanted.time_ns is not None:
            return Instant(self.position_at(wanted.time_ns), wanted.time_ns, wanted.time_ns)
        if wanted.clock_ns is not None:
            return self._by_time(wanted.clock_ns, clock_text)
        if wanted.since_start_ns is not None:
            time = started + wanted.since_start_ns
            return self._by_time(time, lambda time: f"{(time - started) / SECOND_NS:,.3f} s")
        if wanted.position is not None and wanted.pid is not None:
            position = self._position_of(wanted.pid, wanted.position)
        elif wanted.position is not None:
            position = max(self._start, min(wanted.position, self._chunks.end))
        elif wanted.failure is not None:
            return self._failure(wanted.failure)
        elif wanted.peak is not None:
            return self._peak(wanted.peak)
        else:
            return Instant(self._chunks.end, ended)
        return Instant(position, self.time_at(position))

    def since_start(self, position: int, time_ns: int) -> str:
        """'9.7598s': the shortest time since the start that leads back to a position, as far as a time can."""
        start = self._chunks.span[0]
        passed = max(0, time_ns - start)
        for digits in range(3, 10):
            unit = 10 ** (9 - digits)
            shown = -(-passed // unit)  # rounded up: what happened then has happened
            if digits == 9 or self.position_at(start + shown * unit) == position:
                break
        return f"{shown // 10**digits}.{shown % 10**digits:0{digits}}s"

    def _by_time(self, asked: int, written: Callable[[int], str]) -> Instant:
        """Outside the recording it is the start or the end, and says so."""
        started, ended = self._chunks.span
        time = max(started, min(asked, ended))
        if time == asked:
            return Instant(self.position_at(time), time, time)
        edge = "begins" if asked < started else "ends"
        remark = f"the recording has no instant {written(asked)}: it {edge} at {written(time)}, which is shown"
        if asked > ended:
            return Instant(self._chunks.end, ended, remark=remark)
        return Instant(self.position_at(time), time, time, remark)

    def position_at(self, time: int) -> int:
        """The position after the last record that is not later."""
        number = self._chunks.until_time(ChunkType.RECORDS, time) - 1
        if number < 0:
            return self._start
        position = self._chunks.position(ChunkType.RECORDS, number)
        try:
            data = self._chunks.payload(ChunkType.RECORDS, number)
            before = self._chunks.time(ChunkType.RECORDS, number)
            return position + records_until(data, before, time)
        except BadChunk:
            # The last key frame until then, or else where its records are missing: before the last of them.
            frame = self._chunks.until_time(ChunkType.STATE, time) - 1
            known = self._chunks.position(ChunkType.STATE, frame) if frame >= 0 else 0
            return known if known > position else self._chunks.next_position(number) - 1

    def _position_of(self, pid: int, count: int) -> int:
        """The position after that many events of a process, as in `processes[].position` of a snapshot."""
        latest = None
        for batch in self.batches(blank=True):
            if batch.process.pid == pid and batch.source_position is not None:
                if batch.source_position >= count:
                    break
                latest = batch
        if latest is None or latest.source_position is None:
            raise BadInput(f"{self._chunks.source.name} has no event of process {pid} before that")
        return latest.position + end_of(latest.events, count - latest.source_position)

    def _peak(self, kind: str) -> Instant:
        """By events; if there are none, by the samples of the history."""
        if found := self._highest_with_counters(kind):
            return found
        position, reached, highest = self._reached(kind)
        text = ""
        if reached < highest:
            text = (
                f"the highest in this recording, {human(reached)}: the peak of {human(highest)} is from before it,"
                " or from records that are missing"
            )
        if not reached and (time := self._sampled_peak(kind)):
            text = "this peak is not from events: it is the highest sample of the counters, one each second"
            return Instant(self.position_at(time), time, time, text)
        if not reached:
            text = f"nothing was allocated in {kind.upper()}, so it has no peak: this is the start"
        position = self.mesh_end(position)
        return Instant(position, self.time_at(position), remark=text)

    def _reached(self, kind: str) -> tuple[int, int, int]:
        """(position after the record, bytes) of the most that one device held, by events; and its peak before that."""

        def peak(ledger: Any) -> int:
            rows = grouped_rows(DeviceRow, ledger.devices())
            if kind == "l1_used":
                return max((row.l1_peak for row in rows), default=0)
            return max((row.peak[MemoryKind[kind.upper()]] for row in rows), default=0)

        def held(ledger: Any) -> int:
            rows = grouped_rows(DeviceRow, ledger.devices())
            found = (Amounts.of_kinds(row.held, row.cb_used) for row in rows)
            return max((getattr(amounts, kind) for amounts in found), default=0)

        replay = self._replay()
        position, highest = replay.find_peak(peak, self._chunks.end)
        replay.go_to(position)
        reached = held(replay.ledger)
        if (
            reached < highest
        ):  # the ledger's peak is from before the recording, or from missing records
            position, reached = self._highest(kind)
        return position, reached, highest

    def _highest_with_counters(self, kind: str) -> Instant | None:
        """None if no process is known from counters alone."""
        if not self.counted():
            return None
        best, highest = None, 0
        for held in self.held():
            if getattr(held.amounts, kind) > highest:
                best, highest = held, getattr(held.amounts, kind)
        if best is None:
            return None
        pids = sorted({pid for one in self.counted() for pid, at in one.held if at == best.device})
        if not pids:
            return best.instant
        text = (
            f"of pid {', '.join(map(str, pids))} only counters are known, which are read now and then: more than"
            f" {human(highest)} may have been held in between"
        )
        return best.instant._replace(remark=text)

    def counted(self) -> tuple[CountedReading, ...]:
        """Every reading that changed what processes without events hold; empty if there was no such process."""
        if self._counted is None:
            watched = {process.pid for process in self.processes}
            found: list[CountedReading] = []
            for reading in self._told().readings:
                held = {key: sums for key, sums in reading.held.items() if key[0] not in watched}
                if held != (found[-1].held if found else {}):
                    found.append(reading._replace(held=held))
            self._counted = tuple(found)
        return self._counted

    def held(self) -> Iterator[Held]:
        """What devices hold after every event and every reading of counters, both together."""
        by_events: dict[str, Amounts] = {}
        by_counters: Mapping[str, Amounts] = {}

        def both(device: str) -> Amounts:
            parts = (held.get(device, Amounts()) for held in (by_events, by_counters))
            return Amounts.total(parts)

        readings: Iterable[CountedReading | Totals] = self.counted()
        events = self.totals(0, self._chunks.end)
        for one in merge(readings, events, key=lambda one: one.position):
            if isinstance(one, Totals):
                by_events[one.device] = one.amounts
                end = self.mesh_end(one.position + 1)  # devices of a mesh change together
                instant = Instant(end, one.time_ns, one.time_ns)
                yield Held(instant, one.device, both(one.device), counted=False)
            else:
                by_counters = one.amounts
                instant = Instant(one.position, one.time_ns, one.time_ns)
                for device in by_counters:
                    yield Held(instant, device, both(device), counted=True)

    def _highest(self, kind: str, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """(position after the record, bytes) of the most that one device held; reads the whole range."""
        position, highest = max(first, self._start), 0
        for stretch in self.stretches(first, last):
            at, bytes_ = stretch.highest(kind)
            if bytes_ > highest:
                position, highest = at, bytes_
        return position, highest

    def busiest(self, first: Instant, last: Instant) -> Instant:
        """Between two instants: when one device used the most L1. If none did, the same of DRAM; else the end."""
        span = first.position, last.position
        for kind in ("l1_used", "dram"):
            position, held, _ = self._reached(kind)
            if held and not span[0] <= position <= span[1]:
                position, held = self._highest(kind, *span)
            if held:
                position = min(self.mesh_end(position), span[1])
                return Instant(position, self.time_at(position))
            if time := self._sampled_peak(kind, first.time_ns, last.time_ns):
                return Instant(self.position_at(time), time, time)
        return last

    def _sampled_peak(self, kind: str, first_ns: int = 0, last_ns: int = LATEST_NS) -> int:
        """The first time at which the history has the most on one device; 0 if it has nothing."""
        column, highest, when = SAMPLED.index(kind), 0, 0
        for _, time, amounts in self.samples():
            if first_ns <= time <= last_ns and amounts[column] > highest:
                highest, when = amounts[column], time
        return when

    def samples(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """(device, time, what it held as in SAMPLED), one each second: from all sources, counters included."""
        for document in self._documents(ChunkType.HISTORY):
            for device, samples in document.items() if isinstance(document, dict) else ():
                for sample in samples if isinstance(samples, list) else ():
                    if isinstance(sample, list) and _is_sample(sample):
                        yield device, sample[0], tuple(sample[1:])

    def at(
        self,
        when: str | float = "end",
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """What the live views showed at that instant; see `instant` and `Question`."""
        question = Question(tuple(sorted(set(detail))), device, limit)
        return self.snapshot(self.instant(when), question)

    def snapshot(self, instant: Instant, question: Question) -> Snapshot:
        from ttmem.ledger.build import build

        replay = self._replay()
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
                messages = document.get("messages", {})
                details = self._details(instant, context, accounts, messages, question)
                found = details.add_all(found)
        except Exception as problem:  # somebody else may have written it
            name = self._chunks.source.name
            what = f"{type(problem).__name__}: {problem}"[:200]
            raise BadInput(
                f"{name} has no state that can be used at this instant ({what})"
            ) from problem
        if not complete:
            found = replace(found, remarks=(*found.remarks, self._gap(replay.position)))
        if text := self.unfinished:
            found = replace(found, remarks=(*found.remarks, Anomaly("recording_unfinished", text)))
        if wanted := self.selection:
            ids = [(one.unique_id, one.logical_id) for one in found.devices]
            found = found.on_devices({one for one, number in ids if is_chosen(one, number, wanted)})
        if instant.remark:
            found = replace(found, remarks=(*found.remarks, Anomaly("instant", instant.remark)))
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

    def _details(
        self,
        instant: Instant,
        context: Context,
        accounts: Mapping[int, int],
        messages: Mapping[str, Any],
        question: Question,
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
            question,
            self._recent(alive, replay.position) if "events" in question.detail else None,
            self._history(instant, context, question.device)
            if "history" in question.detail
            else {},
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

        A document written before a record belongs to it, even if the event is older than the recording.
        """
        chunks, position, until_ns = self._chunks, instant.position, instant.until_ns
        if kind is ChunkType.TELEMETRY:  # no record depends on it
            return chunks.until_time(kind, instant.time_ns)
        later = min(chunks.until_position(kind, position), chunks.until_time(kind, until_ns))
        return max(later, chunks.until_position(kind, position - 1) if position else 0)

    def _positions(self, accounts: Mapping[int, int], first: int, last: int) -> dict[int, int]:
        """How many events accounts reported between two positions, by index."""
        reached = {
            batch.process.serial: batch.source_position + of_source(batch.events)
            for batch in self.batches(first, last, blank=True)
            if batch.source_position is not None
        }
        return {index: reached[serial] for index, serial in accounts.items() if serial in reached}

    def _brought_up(
        self, document: Mapping[str, Any], accounts: Mapping[int, int], first: int, last: int
    ) -> Context:
        """A context that was written at `first`, as it is at `last`. Any exception: the document is not a context."""
        from ttmem.ledger.anomalies import with_failures
        from ttmem.recording.context import context_from

        context = context_from(document, self._positions(accounts, first, last))
        known = _messages_in(document)
        return with_failures(context, self._failures(context, accounts, known, first, last))

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
        from ttmem.ledger.anomalies import failures_in

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
        times = {event.time for _, _, event in found} - known.keys()
        said = known | self._messages_after(number, times)
        return [
            (replace(process, messages=said), device, event) for process, device, event in found
        ]

    def _context(self, instant: Instant) -> tuple[dict[str, dict[str, Any]], int]:
        """The document, and the position at which it was written."""
        from ttmem.recording.context import apply_changes

        # An instant may be before the first context, which has the devices and processes of the start.
        known, chain = self._chain, dict[int, Any]()
        for number in range(max(1, self._until(ChunkType.CONTEXT, instant)) - 1, -1, -1):
            try:
                if number in known:
                    chain[number] = known[number]
                else:
                    payload = self._chunks.payload(ChunkType.CONTEXT, number)
                    chain[number] = to_document(payload)
            except (BadChunk, IndexError):
                continue  # what it changed stays as it was
            if isinstance(chain[number], dict) and chain[number].get("full"):
                break
        self._chain = chain
        found: dict[str, dict[str, Any]] = {}
        for changed in reversed(chain.values()):
            try:
                apply_changes(found, changed)
            except AttributeError:
                continue  # a document of another shape
        last = max(1, self._until(ChunkType.CONTEXT, instant)) - 1
        count = self._chunks.count(ChunkType.CONTEXT)
        return found, self._chunks.position(ChunkType.CONTEXT, last) if count else 0

    def key_frame(self, instant: Instant) -> Iterator[Document]:
        """The state that a recording starting at an instant must begin with."""
        from ttmem.recording.context import changes

        replay = self._replay()
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
        replay = self._replay()
        replay.go_to(instant.position)
        number = self._chunks.until_position(ChunkType.STATE, instant.position)
        if replay.position == instant.position or number >= self._chunks.count(ChunkType.STATE):
            return instant
        position = self._chunks.position(ChunkType.STATE, number)
        return Instant(position, self.time_at(position))

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

    def _indices(self, position: int) -> dict[int, int]:
        """The serial numbers of accounts by their ledger index at a position."""
        found: dict[int, int] = {}
        count = self._chunks.until_position(ChunkType.ACCOUNTS, position)
        for document in self._documents(ChunkType.ACCOUNTS, count):
            for serial, entry in numbered(document):
                if isinstance(entry, dict) and type(entry.get("index")) is int:
                    found[entry["index"]] = serial  # the last account that had the index
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
                    if not history or sample[0] > history.last()[0]:  # a sample may occur twice
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
        from ttmem.ledger.details import LAST_EVENTS

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

    @property
    def failures_unknown(self) -> str:
        """Why nothing is known about failed allocations; empty: each of them has a marker."""
        if any(marker.kind == "failure" for marker in self.markers):
            return ""
        sources = self._told().sources
        if "probe" in sources:
            return ""
        if not sources and self._chunks.closed:
            return ""  # there was no process
        if not sources:
            return "the part of this recording that would tell of failed allocations is missing"
        return (
            "no failed allocation is recorded, but not every source reports them; `ttmem run` does"
        )

    def probed(self) -> frozenset[int]:
        """The pids of processes that the probe watched."""
        return frozenset(self._told().probed)

    @property
    def failures(self) -> list[Marker]:
        """One marker for each failed allocation, the last of those that a mesh has for its chips."""
        found = {
            (marker.pid, marker.time_ns, marker.text): marker
            for marker in self.markers
            if marker.kind == "failure"
        }
        return list(found.values())

    def _failure(self, number: int) -> Instant:
        failures = self.failures
        if len(failures) < abs(number) and (why := self.failures_unknown):
            raise BadInput(f"{self._chunks.source.name}: {why}")
        if len(failures) < abs(number):
            few = several(len(failures), "allocation") if failures else "no allocation"
            raise BadInput(f"{few} failed in {self._chunks.source.name}")
        shown = len(failures) if number == LAST else number
        position = failures[shown - 1].position + 1
        text = ""
        if len(failures) > 1:
            text = (
                f"this is failed allocation {shown:,} of {len(failures):,};"
                " --at oom:NUMBER and --at oom:last show the others"
            )
        return Instant(position, self.time_at(position), remark=text)

    def totals(self, first: int, last: int) -> Iterator[Totals]:
        """What each device held at `first`, then every change until `last`.

        Processes known only from counters are not included, because they are unknown between two readings.
        """
        for stretch in self.stretches(first, last):
            yield from stretch.totals()

    def stretches(self, first: int = 0, last: int | None = None) -> Iterator[Stretch]:
        """Everything that changed from `first` up to `last`, chunk by chunk; see `Stretch`.

        The first one is the initial state. After a gap they continue at the next key frame, which tells what has
        ended and begun meanwhile; `gaps` has its positions.
        """
        from ttmem.recording.replay import Replay

        replay = Replay(self._chunks, self.records)
        replay.go_to(max(first, self._start))
        end = self._chunks.end if last is None else last
        known = self._told().devices
        until = max(end, known[0][0] if known else 0)
        names = UniqueIds(one for one in known if one[0] <= until)
        processes = self._processes()
        accounts = self._indices(replay.position)
        reached, time = replay.position, self.time_at(replay.position)
        for position, changes in replay.changes(end):
            missing = position > reached
            if missing:
                self.gaps[reached] = position
                frame = self._chunks.until_position(ChunkType.STATE, position) - 1
                time = max(time, self._chunks.time(ChunkType.STATE, frame))
            found = Stretch(position, time, changes, names, processes, accounts)
            yield found
            if missing:  # what ended had the old indices
                accounts.update(self._indices(position))
            reached, time = found.end, found.ended_ns
        if reached + MASK_RECORDS < end:
            self.gaps[reached] = end

    def dropped_events(self) -> int:
        """Events that were lost before they could be recorded: by their program, its probe or a reader."""
        # What was alive when the recording began is in its first state, whatever a probe's reader had missed by then.
        first = self.snapshot(Instant(self._start, self.time_at(self._start)), Question())
        before = sum(one.dropped_events for one in first.processes if "probe" in one.sources)
        return self.at("end").losses.dropped_events - before

    def banks(self, device: str, kind: MemoryKind) -> Banks:
        """The banks of a device for a kind of memory, as far as they were declared."""
        found = self.declaration(device)
        return found.banks(kind) if found else Banks(None, None, None)

    def devices(self) -> list[DeviceContext]:
        """Every device that it knows at the end or knew before."""
        found, wanted = self._devices(self._chunks.end), self.selection
        return [
            one for one in found if not wanted or is_chosen(one.unique_id, one.logical_id, wanted)
        ]

    def declaration(self, device: str) -> DeviceDeclaration | None:
        """The last declaration of a device, by unique id."""
        found = (one for one in self._devices(self._chunks.end) if one.unique_id == device)
        return next((one.declaration for one in found), None)

    def messages(self) -> dict[int, str]:
        """The runtime's messages about failed allocations, by the time of their event."""
        found: dict[int, str] = {}
        for document in self._documents(ChunkType.CONTEXT):
            found |= _messages_in(document)
        return found

    def _messages_after(self, number: int, times: set[int]) -> dict[int, str]:
        """Those for `times`, from the context with this number or the next ones."""
        found: dict[int, str] = {}
        while number < self._chunks.count(ChunkType.CONTEXT) and not times <= found.keys():
            with suppress(BadChunk):
                found |= _messages_in(to_document(self._chunks.payload(ChunkType.CONTEXT, number)))
            number += 1
        return found

    def lost_by_process(self) -> dict[int, Lost]:
        """Of those that lost something, by serial number of the process, as far as contexts tell.

        NO_SERIAL: processes that reported nothing else.
        """
        serials = dict[Identity, int]()
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

    def _devices(self, position: int) -> tuple[DeviceContext, ...]:
        """The known devices at a position, by ledger index."""
        from ttmem.recording.context import context_from

        document, _ = self._context(Instant(position, self.time_at(position)))
        try:
            return context_from(document, {}).devices
        except Exception:  # somebody else may have written it
            return ()


def _is_sample(found: list[Any]) -> bool:
    known = len(found) == 1 + len(SAMPLED) and all(type(one) is int for one in found)
    return known and 0 < found[0] <= LATEST_NS and all(0 <= one < 1 << 63 for one in found)


def _messages_in(document: Any) -> dict[int, str]:
    """The messages in the document of a context, of all processes."""
    found = document.get("messages") if isinstance(document, dict) else None
    return {time: str(text) for _, texts in numbered(found) for time, text in numbered(texts)}


def _messages(document: Mapping[str, Any]) -> dict[int, str]:
    """The runtime's messages about failed allocations, by time."""
    return {int(time): str(text) for time, text in document.items()}
