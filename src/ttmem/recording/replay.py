"""The ledger at any position of a journal: restored from the key frame before it, then replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, Amounts
from ttmem.events.record import Control
from ttmem.ledger.journal import JournaledLedger
from ttmem.recording.chunks import Chunks
from ttmem.recording.format import BadChunk, ChunkType
from ttmem.recording.journal import MASK_RECORDS, runs
from ttmem.recording.stretch import Logged
from ttmem.wire.rows import BufferChangeRow, BufferRow, DeviceRow, flat_rows, grouped_rows, packed

Records = Callable[[int, int], Iterator[tuple[int, bytes]]]  # as `Recording.records`


class Replay:
    """Goes forward from where it is, if no key frame is nearer."""

    def __init__(self, chunks: Chunks, records: Records) -> None:
        self.ledger = JournaledLedger()
        self.position = -1  # of `ledger`; none yet
        self._chunks = chunks
        self._records = records

    def go_to(self, position: int) -> None:
        """BadInput if no state before it can be read. Where records are missing it stops before them."""
        frame = self._chunks.until_position(ChunkType.STATE, position) - 1
        nearest = self._chunks.position(ChunkType.STATE, frame) if frame >= 0 else -1
        if not max(0, nearest) <= self.position <= position:
            self._restore(frame)
        for at, data in self._records(self.position, position):
            if at != self.position:
                return  # a gap
            try:
                self.position += self.ledger.replay(data)
            except ValueError:
                # The ledger has taken a part of the chunk, nobody knows how much.
                self.position = -1
                if at < position:
                    self.go_to(at)
                return

    def reaches(self, position: int) -> bool:
        """Whether it has arrived. A definition of cores is three records, and takes effect with the third."""
        return position - self.position <= MASK_RECORDS

    def changes(self, end: int) -> Iterator[tuple[int, Logged]]:
        """(position, what changed) of what is there already, then of each chunk, up to `end` or the next gap."""
        yield self.position, self._present()
        for at, data in self._records(self.position, end):
            if at != self.position:
                return
            try:
                found = Logged(*self.ledger.replay_logged(data), _opened(data))
            except ValueError:
                self.position = -1
                return
            yield at, found
            self.position += found.records

    def _present(self) -> Logged:
        totals = [
            (0, 0, index, *Amounts.of_kinds(row.held, row.cb_used))
            for index, row in enumerate(grouped_rows(DeviceRow, self.ledger.devices()))
        ]
        buffers = [
            BufferChangeRow(
                0,
                0,
                1,
                row.process,
                row.device,
                row.kind,
                row.id,
                row.size,
                row.reserved,
                row.address,
                row.time,
                row.name,
                row.site,
                row.phase,
            )
            for row in flat_rows(BufferRow, self.ledger.buffers())
        ]
        return Logged(0, packed(totals), packed(buffers), b"")

    def _restore(self, frame: int) -> None:
        while frame >= 0:
            try:
                ledger = JournaledLedger()
                ledger.restore(self._chunks.payload(ChunkType.STATE, frame))
                self.ledger = ledger
                self.position = self._chunks.position(ChunkType.STATE, frame)
                return
            except (BadChunk, ValueError):
                frame -= 1
        name = self._chunks.source.name
        raise BadInput(f"{name} has no key frame before this instant that can be read")

    def find_peak(self, peak: Callable[[JournaledLedger], int], end: int) -> int:
        """The position after the record with which a peak that `ledger` has at `end` was reached."""
        self.go_to(end)
        highest = peak(self.ledger)
        low, high = 0, self._chunks.until_position(ChunkType.STATE, end)
        while low < high:  # the first key frame that has the peak already
            middle = (low + high) // 2
            self._restore(middle)
            low, high = (low, middle) if peak(self.ledger) >= highest else (middle + 1, high)
        self._restore(max(0, low - 1))
        for at, data in self._records(self.position, end):
            before = self.ledger.save()
            if at != self.position or not self._advance(data):
                break
            if peak(self.ledger) >= highest:
                return at + self._first_within(before, data, peak, highest)
        return self.position

    def _advance(self, data: bytes) -> bool:
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


def _opened(records: bytes) -> tuple[tuple[int, int, int], ...]:
    """(record, index, serial number) of the processes that were opened in a chunk."""
    if bytes([Control.OPEN_PROCESS]) not in records[::EVENT_SIZE]:
        return ()
    return tuple(
        (run.first - 1, run.control.device, run.control.extra)
        for run in runs(records)
        if run.control.op == Control.OPEN_PROCESS
    )
