"""The details of a snapshot, for all devices or narrowed to what one view shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import islice
from typing import Protocol

from ttmem._native import Ledger
from ttmem.events import EVENT_SIZE, BinaryStatus, Event, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.events.record import OF_NO_DEVICE, OP_NAMES
from ttmem.fast_dataclasses import NamedTuple, dataclass, field, replace
from ttmem.snapshots import (
    Anomaly,
    Cores,
    CoreSet,
    LoggedEvent,
    MemoryHistory,
    Question,
    ResidentBuffer,
    Snapshot,
)
from ttmem.snapshots.native_rows import COLUMNS, Names, listed

LAST_EVENTS = 4096  # that lists show
LAST_BYTES = LAST_EVENTS * EVENT_SIZE
# Rows of one list of one other user: a view needs 10 us for each, and a user may have two million.
MOST_OF_OTHERS = 50_000


class Reporter(Protocol):
    """The sender of an event, alive or recorded; the mappings resolve the numbers in it."""

    @property
    def pid(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def devices(self) -> Mapping[int, str]: ...  # logical id -> unique id
    @property
    def strings(self) -> Mapping[int, str]: ...
    @property
    def messages(self) -> Mapping[int, str]: ...  # of failed allocations, by time


class Arrival(NamedTuple):
    """Events of one process that arrived together."""

    reporter: Reporter
    time_ns: int
    events: bytes | memoryview


class RecentEvents:
    """The latest events of all processes, for lists: LAST_EVENTS, and what arrived with the first of them."""

    def __init__(self) -> None:
        self._arrivals: deque[Arrival] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._arrivals)

    def __reversed__(self) -> Iterator[Arrival]:
        """The latest first."""
        return reversed(self._arrivals)

    def add(self, reporter: Reporter, events: bytes | memoryview, now: int) -> None:
        """Drops the oldest events if there are too many."""
        kept = events[-LAST_BYTES:]
        if not kept:
            return
        arrivals = self._arrivals
        arrivals.append(Arrival(reporter, now, kept))
        held = self._bytes + len(kept)
        while held - len(arrivals[0].events) >= LAST_BYTES:
            held -= len(arrivals.popleft().events)
        self._bytes = held


_BUFFERS = (Op.ALLOC, Op.FREE)  # their `cores` field is a phase
_FLAGS = [(int(flag), str(flag.name)) for flag in Flag if flag is not Flag.SAME_SLOT]
_KINDS: dict[int, type[IntEnum]] = {
    Op.ALLOC: MemoryKind,
    Op.FREE: MemoryKind,
    Op.KERNEL_LOAD: KernelType,
    Op.BINARY_STATUS: BinaryStatus,
    Notice.PROGRAM_CREATED: KernelType,
    Notice.ALLOCATION_FAILED: MemoryKind,
}


def logged_event(reporter: Reporter, event: Event, arrived: int) -> LoggedEvent:
    """The event with the names of its process; `arrived` replaces a time that is missing or in the future."""
    of_buffer, failed = event.op in _BUFFERS, event.op == Notice.ALLOCATION_FAILED
    return LoggedEvent(
        max(event.time_by(arrived), 0),
        reporter.pid,
        event_device(reporter, event),
        OP_NAMES.get(event.op, event.op),
        _kind(event),
        tuple(name for flag, name in _FLAGS if event.flags & flag),
        event.id,
        # A program whose circular buffers do not fit asks for addresses, not for a number of bytes.
        event.size or None if failed else event.size,
        event.extra,
        event.address,
        event.number,
        0 if of_buffer else event.cores,
        reporter.strings.get(event.cores) if of_buffer else None,
        reporter.messages.get(event.time) if failed else None,
        reporter.strings.get(event.name),
        reporter.strings.get(event.site),
    )


def event_device(reporter: Reporter, event: Event) -> str | None:
    return None if event.op in OF_NO_DEVICE else reporter.devices.get(event.device)


def _kind(event: Event) -> str | None:
    """What `kind` means depends on the event; None if it means nothing."""
    if event.op == Op.FREE and not event.flags & Flag.KIND_KNOWN:
        return None
    try:
        return _KINDS[event.op](event.kind).name
    except (KeyError, ValueError):
        return None


NO_DEVICE = 0xFFFF  # never used as an index by the ledger
MOST_ROWS = 1 << 40
_STRINGS = ("name", "site", "last_site", "phase")


@dataclass(frozen=True, slots=True)
class Details:
    """What `Feed.read` adds to a snapshot: the lists that the question names, made of the native ledger and names."""

    native: Ledger
    names: Names
    question: Question
    recent: RecentEvents | None = None
    history: Mapping[str, MemoryHistory] = field(default_factory=dict)  # by unique id
    others: Mapping[int, str] = field(default_factory=dict)  # users with limits, by process

    def add_all(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the details that are wanted."""
        rows, remarks = {}, list(snapshot.remarks)
        for key, found in self.attachments().items():
            rows[key], counts = largest_of(key, found, self.others, MOST_OF_OTHERS)
            for user, count in counts.items():
                what = f"the {MOST_OF_OTHERS:,} largest of {count:,} {key.replace('_', ' ')}"
                remarks.append(Anomaly("limit", f"user {user}: only {what} are listed"))
        snapshot = replace(self.add(snapshot), remarks=tuple(remarks))
        return replace(snapshot, **listed(self.names_in(rows), rows))

    def add(self, snapshot: Snapshot) -> Snapshot:
        """Without the rows of `attachments`, which a server sends as they are."""
        if "cores" in self.question.detail:
            devices = self._devices()
            snapshot = replace(
                snapshot,
                cores={unique_id: self._cores(index) for index, unique_id in devices.items()},
                resident={unique_id: self._resident(index) for index, unique_id in devices.items()},
            )
        if "events" in self.question.detail:
            snapshot = replace(snapshot, events=self._events())
        if "history" in self.question.detail:
            snapshot = replace(snapshot, history=self.history)
        return snapshot

    def attachments(self) -> dict[str, bytes]:
        """Native rows; `ttmem.snapshots.native_rows` makes typed rows of them."""
        native, wanted = self.native, self.question.detail
        limit = min(self.question.limit or 0, MOST_ROWS)
        device = -1 if self.question.device is None else next(iter(self._devices()), NO_DEVICE)
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

    def names_in(self, attachments: dict[str, bytes]) -> Names:
        """The names that the rows refer to. If the rows are restricted, only the strings that they use."""
        if not self.question.is_narrowed:
            return self.names
        used: dict[int, dict[int, str]] = {}
        for key, rows in attachments.items():
            for process, number in _strings_in(key, rows):
                text = self.names.texts(process).get(number)
                if text is not None:
                    used.setdefault(process, {})[number] = text
        return replace(self.names, strings=used)

    def _devices(self) -> dict[int, str]:
        """Unique ids by index."""
        wanted, known = self.question.device, self.names.devices
        return {index: device for index, device in known.items() if wanted in (None, device)}

    def _cores(self, device: int) -> tuple[CoreSet, ...]:
        """Sets of cores whose circular buffers have the same addresses."""
        return tuple(
            CoreSet(
                self.names.pids[process],
                Cores.from_mask(mask),
                covered,
                tuple((start, end) for start, end in regions),
                program or None,
            )
            for process, mask, covered, regions, program in self.native.core_map(device)
        )

    def _resident(self, device: int) -> tuple[ResidentBuffer, ...]:
        """The circular buffers of the last program on each core."""
        pids = self.names.pids
        return tuple(
            ResidentBuffer(
                pids[process], program, Cores.from_mask(mask), start, end, bool(dataflow)
            )
            for process, program, mask, start, end, dataflow in self.native.resident_map(device)
        )

    def _events(self) -> tuple[LoggedEvent, ...]:
        latest = list(islice(self._backwards(), self.question.limit))
        return tuple(latest[::-1])

    def _backwards(self) -> Iterator[LoggedEvent]:
        """The last event first: whoever wants ten unpacks ten. LAST_EVENTS are looked at, however they arrived."""
        wanted, left = self.question.device, LAST_BYTES
        for reporter, arrived, batch in reversed(self.recent or RecentEvents()):
            first, left = max(0, len(batch) - left), max(0, left - len(batch))
            for offset in range(len(batch) - EVENT_SIZE, first - 1, -EVENT_SIZE):
                event = Event.unpack(batch, offset)
                if wanted is None or event_device(reporter, event) == wanted:
                    yield logged_event(reporter, event, arrived)


def largest_of(
    key: str, rows: bytes, owners: Mapping[int, str], most: int
) -> tuple[bytes, dict[str, int]]:
    """Rows without those of a process's owner that are beyond their largest; how many those owners had."""
    columns = COLUMNS[key]._fields
    numbers = memoryview(rows).cast("Q")
    if not owners or len(numbers) <= most * len(columns):
        return rows, {}
    of_owner: dict[str, list[int]] = {}
    for at, process in enumerate(numbers[columns.index("process") :: len(columns)].tolist()):
        if process in owners:
            of_owner.setdefault(owners[process], []).append(at)
    of_owner = {owner: places for owner, places in of_owner.items() if len(places) > most}
    left_out: set[int] = set()
    size = next((name for name in ("size", "footprint") if name in columns), "process")
    sizes = numbers[columns.index(size) :: len(columns)].tolist()
    for places in of_owner.values():
        left_out.update(sorted(places, key=sizes.__getitem__)[:-most])
    width = 8 * len(columns)
    kept = (at * width for at in range(len(sizes)) if at not in left_out)
    found = b"".join(rows[start : start + width] for start in kept)
    return found, {owner: len(places) for owner, places in of_owner.items()}


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
