"""The details of a snapshot, for all devices or narrowed to what one view shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING

from ttmem.events import EVENT_SIZE, BinaryStatus, Event, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.ledger.processes import ProcessRecord
from ttmem.snapshots import Cores, CoreSet, LoggedEvent, ResidentBuffer, Snapshot
from ttmem.snapshots.detail import COLUMNS, Names, listed

if TYPE_CHECKING:
    from ttmem.ledger.books import Books
    from ttmem.ledger.devices import DeviceRecord


_OPS = {int(op): op.name for op in (*Op, *Notice)}
_OF_NO_DEVICE = {int(notice) for notice in Notice if not notice.of_device}
_BUFFERS = (Op.ALLOC, Op.FREE)  # their `cores` is a phase
_FLAGS = [(int(flag), str(flag.name)) for flag in Flag]
_KINDS: dict[int, type[IntEnum]] = {
    Op.ALLOC: MemoryKind,
    Op.FREE: MemoryKind,
    Op.KERNEL_LOAD: KernelType,
    Op.BINARY_STATUS: BinaryStatus,
    Notice.PROGRAM_CREATED: KernelType,
    Notice.ALLOCATION_FAILED: MemoryKind,
}


def logged_event(process: ProcessRecord, event: Event, arrived: int) -> LoggedEvent:
    """The event with the names of its process; `arrived` replaces a time that is missing, or in the future."""
    of_buffer = event.op in _BUFFERS
    return LoggedEvent(
        event.time if 0 < event.time <= arrived else max(arrived, 0),
        process.pid,
        event_device(process, event),
        _OPS.get(event.op, event.op),
        _kind(event),
        tuple(name for flag, name in _FLAGS if event.flags & flag),
        event.id,
        _size(event),
        event.extra,
        event.address,
        event.number,
        0 if of_buffer else event.cores,
        process.strings.get(event.cores) if of_buffer else None,
        _text(process, event),
        process.strings.get(event.name),
        process.strings.get(event.site),
    )


def event_device(process: ProcessRecord, event: Event) -> str | None:
    """The unique id of the device on which it happened."""
    return None if event.op in _OF_NO_DEVICE else process.devices.get(event.device)


def _size(event: Event) -> int | None:
    """A program whose circular buffers found no room asked for no sum."""
    return event.size or None if event.op == Notice.ALLOCATION_FAILED else event.size


def _text(process: ProcessRecord, event: Event) -> str | None:
    """What the runtime said."""
    failed = event.op == Notice.ALLOCATION_FAILED
    return process.messages.get(event.time) if failed else None


def _kind(event: Event) -> str | None:
    """What `kind` means depends on the sort of event; None where it means nothing."""
    if event.op == Op.FREE and not event.flags & Flag.KIND_KNOWN:
        return None
    try:
        return _KINDS[event.op](event.kind).name
    except (KeyError, ValueError):
        return None


NO_DEVICE = 0xFFFF  # the ledger never hands out this index
MOST_ROWS = 1 << 40
_STRINGS = ("name", "site", "last_site", "phase")


@dataclass(frozen=True, slots=True)
class Narrow:
    """Rows of one device only, and at most so many of each sort; None: all."""

    device: str | None = None  # a unique id; rows of a device that nobody knows are none
    limit: int | None = None


EVERYTHING = Narrow()


class Details:
    """What `Feed.read` adds to a snapshot."""

    def __init__(self, books: Books, narrow: Narrow = EVERYTHING) -> None:
        self._books = books
        self._narrow = narrow
        self._devices = [d for d in books.devices if narrow.device in (None, d.unique_id)]

    def add_all(self, snapshot: Snapshot, wanted: list[str]) -> Snapshot:
        """The snapshot with the details that are wanted."""
        rows = self.attachments(wanted)
        return replace(self.add(snapshot, wanted), **listed(self.names(rows), rows))

    def add(self, snapshot: Snapshot, wanted: list[str]) -> Snapshot:
        """Without the rows of `attachments`, which a server sends as they are."""
        if "cores" in wanted:
            snapshot = replace(
                snapshot,
                cores={device.unique_id: self._cores(device) for device in self._devices},
                resident={device.unique_id: self._resident(device) for device in self._devices},
            )
        if "events" in wanted:
            snapshot = replace(snapshot, events=self._events())
        if "history" in wanted:
            snapshot = replace(snapshot, history=self._books.history(self._narrow.device))
        return snapshot

    def attachments(self, wanted: list[str]) -> dict[str, bytes]:
        """Native rows; `ttmem.snapshots.detail` makes typed rows of them."""
        native, narrow = self._books.native, self._narrow
        limit = min(narrow.limit or 0, MOST_ROWS)
        device = -1
        if narrow.device is not None:
            device = self._devices[0].index if self._devices else NO_DEVICE
        out: dict[str, bytes] = {}
        if "buffers" in wanted:
            out["buffers"] = native.buffers(limit, device)
        if "programs" in wanted:
            out["programs"] = native.programs(limit, device)
            out["kernels"] = native.kernels(limit, device)
            out["circular_buffers"] = native.circular_buffers(limit, device)
        if "cores" in wanted:
            out["l1_buffers"] = native.l1_buffers(limit, device)
        return out

    def names(self, attachments: dict[str, bytes]) -> Names:
        """What the numbers in the rows stand for: of strings only those that narrowed rows use."""
        processes = self._books.processes
        everything = Names(
            {p.index: p.pid for p in processes.values()},
            {d.index: d.unique_id for d in self._books.devices},
            {p.index: p.strings for p in processes.values()},
            {
                p.index: frozenset(p.probe.uncounted)
                for p in processes.values()
                if p.probe.uncounted
            },
        )
        if self._narrow == EVERYTHING:
            return everything
        used: dict[int, dict[int, str]] = {}
        for key, rows in attachments.items():
            for index, number in _strings_in(key, rows):
                if number in processes[index].strings:
                    used.setdefault(index, {})[number] = processes[index].strings[number]
        return replace(everything, strings=used)

    def _cores(self, device: DeviceRecord) -> tuple[CoreSet, ...]:
        """Sets of cores whose circular buffers lie at the same addresses."""
        processes = self._books.processes
        return tuple(
            CoreSet(
                processes[index].pid,
                Cores.from_mask(mask),
                covered,
                tuple((start, end) for start, end in regions),
                program or None,
            )
            for index, mask, covered, regions, program in self._books.native.core_map(device.index)
        )

    def _resident(self, device: DeviceRecord) -> tuple[ResidentBuffer, ...]:
        """The circular buffers of the program that ran last on each core."""
        processes, found = self._books.processes, self._books.native.resident_map(device.index)
        return tuple(
            ResidentBuffer(
                processes[index].pid, program, Cores.from_mask(mask), start, end, bool(dataflow)
            )
            for index, program, mask, start, end, dataflow in found
        )

    def _events(self) -> tuple[LoggedEvent, ...]:
        latest = list(islice(self._backwards(), self._narrow.limit))
        return tuple(latest[::-1])

    def _backwards(self) -> Iterator[LoggedEvent]:
        """The last event first: whoever wants ten unpacks ten."""
        wanted = self._narrow.device
        for process, arrived, batch in reversed(list(self._books.recent_events())):
            for offset in range(len(batch) - EVENT_SIZE, -1, -EVENT_SIZE):
                event = Event.unpack(batch, offset)
                if wanted is None or event_device(process, event) == wanted:
                    yield logged_event(process, event, arrived)


def _strings_in(key: str, rows: bytes) -> set[tuple[int, int]]:
    """(process, number) of each name and call site in the rows."""
    columns = {name: at for at, name in enumerate(COLUMNS[key]._fields)}
    numbers = memoryview(rows).cast("Q")
    processes = numbers[columns["process"] :: len(columns)].tolist()
    return {
        pair
        for name in columns.keys() & _STRINGS
        for pair in zip(processes, numbers[columns[name] :: len(columns)].tolist(), strict=True)
    }
