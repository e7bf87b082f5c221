"""What changed in a part of a recording: totals of devices, buffers allocated and freed, anomalies."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from ttmem.events import Amounts, MemoryKind
from ttmem.recording.reader import RecordedProcess
from ttmem.wire.rows import BufferChangeRow, FindingCode, FindingRow, TotalsRow, flat_rows


class Totals(NamedTuple):
    """The bytes allocated on one device after a record that changed them, by events."""

    position: int
    time_ns: int
    device: str  # unique id
    amounts: Amounts


class TotalsColumns(NamedTuple):
    """Many `Totals`, as columns of numbers."""

    position: array[int]
    time_ns: array[int]
    device: list[str]
    amounts: tuple[array[int], ...]  # in the order of `Amounts`


class AllocatedBy(NamedTuple):
    """The code that allocated a buffer. None: unknown, or none."""

    process: RecordedProcess
    op: str | None
    site: str | None  # with stacks: one line per caller below it
    phase: str | None


class BufferChange(NamedTuple):
    """A buffer that started or stopped being counted."""

    position: int  # of the record; the state after it is at position + 1
    time_ns: int
    begins: bool  # otherwise it ends
    device: str  # unique id
    kind: str  # DRAM, L1, L1_SMALL or TRACE
    id: int
    requested: int
    reserved: int | None  # in all banks
    address: int | None
    since_ns: int  # when it was allocated
    origin: AllocatedBy

    @property
    def held(self) -> int:
        """Reserved where it is known, else requested, as in all totals."""
        return self.reserved or self.requested


class Logged(NamedTuple):
    """Rows of `Ledger.replay_logged`.

    The ledger reuses the index of a process that has ended, so `opened` has (record, index, serial number) of those
    that started here.
    """

    records: int
    totals: bytes
    buffers: bytes
    findings: bytes
    opened: tuple[tuple[int, int, int], ...] = ()


class UniqueIds:
    """Of devices, by their indices: the ledger reuses that of one that nobody has open any more."""

    def __init__(self, given: Iterable[tuple[int, int, str]]) -> None:
        """(position, index, unique id), as contexts tell, in their order."""
        self._names: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for position, index, name in given:
            names = self._names[index]
            if not names or names[-1][1] != name:
                names.append((position, name))

    def at(self, index: int, position: int) -> str | None:
        """Of a record; None: unknown. A device may be older than the first context."""
        names = self._names.get(index)
        if names is None:
            return None
        if len(names) == 1:
            return names[0][1]
        number = bisect_right(names, position, key=lambda name: name[0])
        return names[max(0, number - 1)][1]

    def all_at(self, indices: Sequence[int], positions: Sequence[int]) -> list[str | None]:
        """The same for many records."""
        if any(len(names) > 1 for names in self._names.values()):
            return list(map(self.at, indices, positions))
        only = {index: names[0][1] for index, names in self._names.items()}
        return list(map(only.get, indices))


_KINDS = {
    int(kind): kind.name for kind in MemoryKind if kind is not MemoryKind.SYSTEM_MEMORY
}  # host memory belongs to no device


class Stretch:
    """Everything that changed with the records of one chunk, as the ledger accounted it: references are counted, memory
    is freed when its process ends, and rejected events are left out. Rows are made on demand.
    """

    def __init__(
        self,
        position: int,
        time_ns: int,
        changes: Logged,
        names: UniqueIds,
        processes: Mapping[int, RecordedProcess],
        accounts: dict[int, int],
    ) -> None:
        self.first = position
        self.end = position + changes.records  # the position after the last record
        self._time, self._changes = time_ns, changes
        self._names, self._processes = names, processes
        self._accounts = dict(accounts)  # serial numbers by index, as the stretch begins
        for _, index, serial in changes.opened:
            accounts[index] = serial

    @property
    def ended_ns(self) -> int:
        """The latest time in it. Control records may have no time, and clocks may lag: time never goes back."""
        return max(self._time, max(self._column("time"), default=0))

    def _column(self, name: str) -> memoryview:
        words = memoryview(self._changes.totals).cast("Q")
        return words[TotalsRow._fields.index(name) :: len(TotalsRow._fields)]

    def totals(self) -> Iterator[Totals]:
        """In the order of the records."""
        found = self.columns()
        amounts = map(Amounts._make, zip(*found.amounts, strict=True))
        yield from map(Totals, found.position, found.time_ns, found.device, amounts)

    def columns(self) -> TotalsColumns:
        """The same as `totals`."""
        columns = [array("Q", self._column(name).tobytes()) for name in TotalsRow._fields]
        columns[0] = array("Q", map(self.first.__add__, columns[0]))
        columns[1] = array("Q", accumulate(columns[1], max, initial=self._time))[1:]
        names = self._names.all_at(columns[2], columns[0])
        if None in names:  # devices that somebody else's file does not describe
            kept = [at for at, name in enumerate(names) if name is not None]
            columns = [array("Q", map(column.__getitem__, kept)) for column in columns]
        devices = [name for name in names if name is not None]
        position, times, _, *amounts = columns
        return TotalsColumns(position, times, devices, tuple(amounts))

    def highest(self, memory: str) -> tuple[int, int]:
        """(position after the record, bytes) of the most that one device held of a kind, or of `l1_used`."""
        kinds = ("l1", "l1_small", "cb") if memory == "l1_used" else (memory,)
        amounts = [*map(sum, zip(*map(self._column, kinds), strict=True))]
        most = max(amounts, default=0)
        record = self._column("record")[amounts.index(most)] if most else 0
        return min(self.first + record + 1, self.end), most

    def buffers(self) -> Iterator[BufferChange]:
        """In the order of the records."""
        time, names, first, kinds = self._time, self._names, self.first, _KINDS
        accounts, opened = dict(self._accounts), [*reversed(self._changes.opened)]
        origins: dict[tuple[int, ...], AllocatedBy] = {}
        for row in flat_rows(BufferChangeRow, self._changes.buffers):
            record, at, begins, by, index, kind, id_, size, reserved, address, since, *key = row
            while opened and opened[-1][0] <= record:
                _, account, serial = opened.pop()
                accounts[account] = serial
            time = max(time, at)
            device = names.at(index, first + record)
            if device is None or kind not in kinds:
                continue
            known = (accounts.get(by, 0), *key)
            origin = origins.get(known)
            if origin is None:
                origin = origins[known] = self._origin(*known)
            yield BufferChange(
                first + record,
                time,
                begins == 1,
                device,
                kinds[kind],
                id_,
                size,
                reserved or None,
                address or None,
                since,
                origin,
            )

    def _origin(self, serial: int, name: int, site: int, phase: int) -> AllocatedBy:
        process = self._processes.get(serial) or RecordedProcess(serial, 0, None, None, None)
        text = process.strings.get
        return AllocatedBy(process, text(name), text(site), text(phase))

    def findings(self) -> Iterator[tuple[int, str]]:
        """(serial number of the process, name of the anomaly): unknown_free, double_free, rejected, ...

        An index that was reused in this stretch stands for all of its processes.
        """
        for row in flat_rows(FindingRow, self._changes.findings):
            serials = {serial for _, index, serial in self._changes.opened if index == row.process}
            if row.process in self._accounts or not serials:
                serials.add(self._accounts.get(row.process, 0))
            for serial in serials:
                yield serial, FindingCode(row.anomaly).name.lower()
