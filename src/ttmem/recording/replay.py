"""The ledger at any position of a journal: restored from the key frame before it, then replayed.

And so what changed from one position of a recording to another: by events, by counters, and by samples of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from ttmem.clock import LATEST_NS
from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Amounts, Event, Flag, Op
from ttmem.events.record import Control, places
from ttmem.ledger.journal import JournaledLedger
from ttmem.recording.chunks import Chunks, Source
from ttmem.recording.context import CountedReading
from ttmem.recording.format import MASK_RECORDS, BadChunk, ChunkType, numbered, runs
from ttmem.recording.reader import Reader
from ttmem.recording.stretch import BufferChange, Logged, Stretch, Totals, UniqueIds
from ttmem.wire.rows import BufferChangeRow, BufferRow, DeviceRow, flat_rows, grouped_rows, packed

SAMPLED = ("dram", "l1", "l1_small", "trace", "cb", "l1_used")  # in a sample, after its time
LOWER_FLAGS = 2  # offset in an event
Records = Callable[[int, int], Iterator[tuple[int, bytes]]]  # as `Recording.records`


class Replay:
    """Continues from its current position, unless a key frame is nearer."""

    def __init__(self, chunks: Chunks, records: Records) -> None:
        self.ledger = JournaledLedger()
        self.position = -1  # of `ledger`; none yet
        # Records up to here were read. A definition of cores is three, and takes effect with the third.
        self._read = -1
        self._chunks = chunks
        self._records = records

    def go_to(self, position: int) -> None:
        """BadInput if no state before it can be read. Stops where records are missing."""
        frame = self._chunks.until_position(ChunkType.STATE, position) - 1
        nearest = self._chunks.position(ChunkType.STATE, frame) if frame >= 0 else -1
        if not max(0, nearest) <= self.position <= position:
            self._restore(frame)
        self._read = self.position
        for at, data in self._records(self.position, position):
            if at != self.position:
                return  # a gap
            if not self._advance(data):
                if at < position:
                    self.go_to(at)
                return
            self._read = at + len(data) // EVENT_SIZE

    def reaches(self, position: int) -> bool:
        """Whether it has arrived, where it was told to go: no record before it is missing."""
        return self._read >= position

    def changes(self, end: int) -> Iterator[tuple[int, Logged]]:
        """(position, changes) for the initial state, then for each chunk, up to `end`.

        After a gap it continues at the next key frame, first with what has ended since, then with what is new.
        """
        yield self.position, self._present(self._alive())
        while True:
            for at, data in self._records(self.position, end):
                if at != self.position:
                    break
                try:
                    found = Logged(*self.ledger.replay_logged(data), _opened(data))
                except ValueError:  # a part of it was applied
                    self.position = -1
                    self.go_to(at)
                    break
                yield at, found
                self.position += found.records
            later = list(self._after_gap(end))
            if not later:
                return
            yield from later

    def _after_gap(self, end: int) -> Iterator[tuple[int, Logged]]:
        """What differs in the next key frame that can be read; nothing if there is none up to `end`."""
        count = self._chunks.until_position
        frames = range(count(ChunkType.STATE, self.position), count(ChunkType.STATE, end))
        before = self._alive() if frames else set()
        if any(map(self._restores, frames)):
            after = self._alive()
            yield self.position, Logged(0, b"", _logged(before - after, begins=0), b"")
            yield self.position, self._present(after - before)

    def _alive(self) -> set[BufferRow]:
        rows = flat_rows(BufferRow, self.ledger.buffers())
        return {row._replace(references=1) for row in rows}  # their number is no change

    def _present(self, buffers: set[BufferRow]) -> Logged:
        totals = [
            (0, 0, index, *Amounts.of_kinds(row.held, row.cb_used))
            for index, row in enumerate(grouped_rows(DeviceRow, self.ledger.devices()))
        ]
        return Logged(0, packed(totals), _logged(buffers, begins=1), b"")

    def _restore(self, frame: int) -> None:
        if any(map(self._restores, range(frame, -1, -1))):
            return
        name = self._chunks.source.name
        raise BadInput(f"{name} has no key frame before this instant that can be read")

    def _restores(self, frame: int) -> bool:
        """False if the key frame cannot be read."""
        try:
            ledger = JournaledLedger()
            ledger.restore(self._chunks.payload(ChunkType.STATE, frame))
        except (BadChunk, ValueError):
            return False
        self.ledger, self.position = ledger, self._chunks.position(ChunkType.STATE, frame)
        return True

    def find_peak(self, peak: Callable[[JournaledLedger], int], end: int) -> tuple[int, int]:
        """The peak that `ledger` has at `end`: (position after the record that reached it, bytes).

        If that record is missing, or from before the recording, the position is where the search ended.
        """
        self.go_to(end)
        highest = peak(self.ledger)
        low, high = 0, self._chunks.until_position(ChunkType.STATE, end)
        while low < high:  # the first key frame that already has the peak
            middle = (low + high) // 2
            self._restore(middle)
            low, high = (low, middle) if peak(self.ledger) >= highest else (middle + 1, high)
        self._restore(max(0, low - 1))
        at = self.position
        for at, data in self._records(self.position, end):
            before = self.ledger.save()
            if at != self.position or not self._advance(data):
                break
            if peak(self.ledger) >= highest:
                return at + self._first_within(before, data, peak, highest), highest
        return (self.position if self.position >= 0 else at), highest

    def _advance(self, data: bytes) -> bool:
        """False: the ledger has applied a part of the chunk, and nobody knows how much."""
        try:
            self.position += self.ledger.replay(data)
        except ValueError:
            self.position = -1
        return self.position >= 0

    @staticmethod
    def _first_within(
        state: bytes, data: bytes, peak: Callable[[JournaledLedger], int], highest: int
    ) -> int:
        """How many records of a chunk it takes."""
        low, high = 0, len(data) // EVENT_SIZE
        while low < high:
            middle = (low + high) // 2
            ledger = JournaledLedger()
            ledger.restore(state)
            ledger.replay(data[: middle * EVENT_SIZE])
            low, high = (low, middle) if peak(ledger) >= highest else (middle + 1, high)
        return low


def _logged(buffers: set[BufferRow], begins: int) -> bytes:
    rows = sorted(buffers, key=lambda row: (row.time, row.id))
    return packed(BufferChangeRow(0, 0, begins, *row[:8], *row[9:]) for row in rows)


def _opened(records: bytes) -> tuple[tuple[int, int, int], ...]:
    """(record, index, serial number) of the processes that were opened in a chunk."""
    if bytes([Control.OPEN_PROCESS]) not in records[::EVENT_SIZE]:
        return ()
    return tuple(
        (run.first - 1, run.control.device, run.control.extra)
        for run in runs(records)
        if run.control.op == Control.OPEN_PROCESS
    )


class Changes(Reader):
    """The contents of a recording, with the ledger that they make."""

    def __init__(self, source: str | Source) -> None:
        super().__init__(source)
        self.gaps: dict[int, int] = {}  # from position to position: missing in `stretches` so far

    @cached_property
    def _replay(self) -> Replay:
        """Goes from one wanted position to the next."""
        return Replay(self._chunks, self.records)

    def stretches(self, first: int = 0, last: int | None = None) -> Iterator[Stretch]:
        """Everything that changed from `first` up to `last`, chunk by chunk; see `Stretch`.

        The first one is the initial state. After a gap they continue at the next key frame, which tells what has
        ended and begun meanwhile; `gaps` has its positions.
        """
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

    def totals(self, first: int = 0, last: int | None = None) -> Iterator[Totals]:
        """What each device held at `first`, then every change until `last`.

        Processes known only from counters are not included, because they are unknown between two readings.
        """
        for stretch in self.stretches(first, last):
            yield from stretch.totals()

    def never_freed(self, end: int | None = None) -> Iterator[BufferChange]:
        """What programs never freed: the end of each buffer that went away with its device or its process.

        Of the processes that had ended before the position `end`. Only the part in which there are any is replayed.
        """
        last = self._chunks.end if end is None else end
        ends = [one for one in self.markers if one.kind == "end" and one.position < last]
        if not ends:
            return
        ended = {one.pid: one.position for one in ends}
        with_process = {(one.pid, one.position) for one in ends}
        with_device = {
            position
            for pid, position in self.freed_with_device(last)
            if position < ended.get(pid, -1)
        }
        first = min([*with_device, *(position for _, position in with_process)])
        for stretch in self.stretches(first, last):
            for change in stretch.buffers():
                by_process = (change.origin.process.pid, change.position) in with_process
                if not change.begins and (by_process or change.position in with_device):
                    yield change

    def freed_with_device(self, last: int) -> Iterator[tuple[int, int]]:
        """(pid, position) of the frees that closing a device did."""
        for batch in self.batches(last=last):
            events = bytes(batch.events)
            if max(events[LOWER_FLAGS::EVENT_SIZE], default=0) < Flag.WITH_DEVICE:
                continue
            for number in places(events, Op.FREE):
                if Event.unpack(events, number * EVENT_SIZE).is_freed_with_device:
                    yield batch.process.pid, batch.position + number

    def _indices(self, position: int) -> dict[int, int]:
        """The serial numbers of accounts by their ledger index at a position."""
        found: dict[int, int] = {}
        numbers = range(self._chunks.until_position(ChunkType.ACCOUNTS, position))
        for document in self._documents(ChunkType.ACCOUNTS, numbers):
            for serial, entry in numbered(document):
                if isinstance(entry, dict) and type(entry.get("index")) is int:
                    found[entry["index"]] = serial  # the last account that had the index
        return found

    @cached_property
    def counted(self) -> tuple[CountedReading, ...]:
        """Every reading that changed what processes without events hold; empty if there was no such process."""
        watched = {process.pid for process in self.processes}
        found: list[CountedReading] = []
        for reading in self._told().readings:
            held = {key: sums for key, sums in reading.held.items() if key[0] not in watched}
            if held != (found[-1].held if found else {}):
                found.append(reading._replace(held=held))
        return tuple(found)

    def samples(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """(device, time, what it held as in SAMPLED), one each second: from all sources, counters included."""
        for document in self._documents(ChunkType.HISTORY):
            for device, samples in document.items() if isinstance(document, dict) else ():
                for sample in samples if isinstance(samples, list) else ():
                    if isinstance(sample, list) and _is_sample(sample):
                        yield device, sample[0], tuple(sample[1:])


def _is_sample(found: list[Any]) -> bool:
    known = len(found) == 1 + len(SAMPLED) and all(type(one) is int for one in found)
    return known and 0 < found[0] <= LATEST_NS and all(0 <= one < 1 << 63 for one in found)
