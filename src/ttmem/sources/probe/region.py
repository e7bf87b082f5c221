"""One process as its region tells it, while it runs and after it has died."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from struct import Struct

from ttmem.events.device import DeviceDeclaration
from ttmem.probe import _records, layout
from ttmem.probe.layout import Section, State
from ttmem.procfs import is_alive, maps, pid_outside, program, user_id, user_name
from ttmem.sources.probe import tables
from ttmem.sources.probe.region_file import BadRegion, ForeignRegion, Header, RegionFile
from ttmem.sources.probe.ring import MOST_BYTES, Batch, Cursor

_TABLE_COUNTS = Struct("<IIII")
_LIVE_COUNTS = Struct("<QQQ")
LOOK_AGAIN_S = 5.0  # at the mappings of a process whose code and stack have not moved
_NOT_ALIVE = (layout.LiveType.LEFT_BUFFER, layout.LiveType.LAID_OUT)


@dataclass(frozen=True, slots=True)
class Losses:
    """What the probe could not keep. Counters have it all the same."""

    given_up: int  # events whose place in the ring was taken
    live_without_room: int
    live_uncounted: int  # of those the buffers that are alive now
    strings_without_room: int
    tables_without_room: int
    unpaired_frees: (
        int  # of things that were never seen: made while tracking was off, or before a fork
    )
    unseen: int  # buffers that were allocated while tracking was off
    forgotten: int  # buffers that went with their device, but had to give their place to others


class ProbeRegion:
    """Declarations, counters, what is alive, strings and new events. Every call reads the file anew."""

    def __init__(self, path: str, from_start: bool = True) -> None:
        self._file = RegionFile(path)
        try:
            self._begin(path, from_start)
        except BaseException:
            self.close()
            raise

    def _begin(self, path: str, from_start: bool) -> None:
        self.path = path
        header = self._file.header()
        self._named_pid, self.start_ticks = header.pid, header.start_ticks
        self.pid = self._find_process()
        self.created_ns = header.created_ns
        self._mark: tuple[bytes, ...] = ()
        self._looked = 0.0
        self._strings = 1  # number 0 is 'none'
        self._cores = 1
        self._text_room = self._file.count(Section.TEXT)
        self._cursor = Cursor(self._file, 0 if from_start else self._file.word(layout.TICKETS_AT))
        self._check_owner()

    @property
    def uid(self) -> int:
        """Who owns the file: all that it says, it says of processes of that user."""
        return self._file.uid

    @property
    def most_entries(self) -> int:
        """Live things times chips that a reader keeps of it."""
        return self._file.most_entries

    @property
    def container_pid(self) -> int | None:
        """The pid that the process itself has, where that is another than here."""
        return self._named_pid if self._named_pid != self.pid else None

    def _find_process(self) -> int:
        """The pid that it has here: in a container it knows itself by another."""
        pid = self._named_pid
        running = program(pid)
        here = running is not None and running.start_ticks == self.start_ticks
        if here and user_id(pid) in (None, self.uid):
            return pid
        return pid_outside(pid, self.start_ticks, self.uid, self._file.made_ns) or pid

    def _check_owner(self) -> None:
        """Anybody can write a file that names somebody else's process."""
        uid = user_id(self.pid)
        running = program(self.pid)  # afterwards: then the uid is of that process, or of one before
        if running is None or running.start_ticks != self.start_ticks or uid in (None, self.uid):
            return
        raise ForeignRegion(
            f"{self.path} belongs to user {user_name(self.uid)}, but process {self.pid}, which it "
            f"names, to user {user_name(uid)}: it counts nowhere"
        )

    @property
    def key(self) -> tuple[int, int]:
        """Which file it is, whatever has its name now."""
        return self._file.key

    def close(self) -> None:
        """Done with it."""
        self._file.close()

    def header(self) -> Header:
        """State, options and the switch, as they are now."""
        header = self._file.header()
        if (header.pid, header.start_ticks) != (self._named_pid, self.start_ticks):
            raise BadRegion(f"{self.path} belongs to another process now")
        return header

    def process_alive(self) -> bool:
        """True unless the process has ended or runs another program, or another process has its pid."""
        running = program(self.pid)
        if (
            running is None
        ):  # gone, unless this is only a process without a free descriptor to look with
            return is_alive(self.pid, None)
        if running.start_ticks != self.start_ticks:
            return False
        # Whoever maps memory waits while its maps are read: they are, when something tells of an `exec`.
        now = time.monotonic()
        if running.mark != self._mark or now - self._looked > LOOK_AGAIN_S:
            mapped = maps(self.pid)
            if mapped is not None and not self._is_in(mapped):
                return False
            self._mark, self._looked = running.mark, now
        return True

    def _is_in(self, mapped: bytes) -> bool:
        """A line of the maps ends in the path; of a file that was deleted, the kernel says so after it."""
        name = re.escape(os.path.basename(self.path).encode())
        return re.search(rb"/" + name + rb"(?: \(deleted\))?$", mapped, re.MULTILINE) is not None

    def note_death(self, time_ns: int) -> None:
        """For a process that was killed before it could say so itself, by who has just seen that it is gone."""
        header = self.header()
        if header.state is State.IN_USE and header.ended_ns is None:
            self._file.set_word(layout.ENDED_AT, time_ns)

    def _table_counts(self) -> tuple[int, int, int, int]:
        devices, sets, cores, without_room = _TABLE_COUNTS.unpack(
            self._file.read(layout.TABLES_AT, _TABLE_COUNTS.size)
        )
        return devices, sets, cores, without_room

    def sets(self) -> list[tuple[int, ...]]:
        """Chips of each set of devices."""
        return tables.read_sets(self._file, self._table_counts()[1])

    def devices(self) -> list[DeviceDeclaration | None]:
        """One declaration for each row of `counters`."""
        return tables.read_devices(self._file, self._table_counts()[0])

    def counters(self) -> list[list[tables.Counter]]:
        """Absolute figures: one row for each device, one column for each kind."""
        return tables.read_counters(self._file, self._table_counts()[0])

    def activity(self) -> list[tables.Activity]:
        """Dispatches, cache hits, traces: one for each row of `counters`."""
        return tables.read_activity(self._file, self._table_counts()[0])

    def live(self) -> list[tables.LiveEntry]:
        """All that is alive, or was when the process ended."""
        return [thing for thing in self._entries() if thing.type not in _NOT_ALIVE]

    def gone_with_device(self) -> list[tables.LiveEntry]:
        """Buffers that nobody freed: they went when their device was closed."""
        return [
            replace(thing, type=layout.LiveType.BUFFER)
            for thing in self._entries()
            if thing.type is layout.LiveType.LEFT_BUFFER
        ]

    def _entries(self) -> list[tables.LiveEntry]:
        return tables.read_live(self._file, self.sets())

    def failures(self) -> list[tables.Failure]:
        """The last failed allocations."""
        return tables.read_failures(self._file, self.sets())

    def failure_count(self) -> int:
        """How many allocations failed so far; `failures` has the last of them."""
        return self._file.word(layout.FAILURES_AT)

    def features(self) -> dict[str, bool]:
        """What the probe can see of this runtime."""
        return tables.read_features(self._file)

    def losses(self) -> Losses:
        """What could not be kept."""
        _, live_without_room, uncounted = _LIVE_COUNTS.unpack(
            self._file.read(layout.LIVE_AT, _LIVE_COUNTS.size)
        )
        return Losses(
            given_up=self._file.word(layout.GIVEN_UP_AT),
            live_without_room=live_without_room,
            live_uncounted=uncounted,
            strings_without_room=self._file.word(layout.STRINGS_AT + 8),
            tables_without_room=self._table_counts()[3],
            unpaired_frees=self._file.word(layout.UNPAIRED_AT),
            unseen=self._file.word(layout.UNSEEN_AT),
            forgotten=self._file.word(layout.FORGOTTEN_AT),
        )

    def new_strings(self) -> dict[int, str]:
        """Texts that were interned since the last call."""
        word = self._file.word(layout.STRINGS_AT)
        count = min(word & 0xFFFFFFFF, self._file.count(Section.STRINGS))
        used = min(word >> 32, self._file.count(Section.TEXT))
        first, self._strings = self._strings, max(count, self._strings)
        if count <= first:
            return {}
        records = self._file.records(Section.STRINGS, first, count - first)
        text = self._file.records(Section.TEXT, 0, used)
        texts, taken = _records.whole_strings(records, text, self._text_room)
        self._text_room -= taken
        return {first + i: text for i, text in enumerate(texts) if text is not None}

    def new_cores(self) -> dict[int, list[tables.Rectangle]]:
        """Core sets that were named since the last call."""
        count = min(self._table_counts()[2], self._file.count(Section.CORES))
        first, self._cores = self._cores, max(count, self._cores)
        return tables.read_cores(self._file, first, count) if count > first else {}

    def new_events(self) -> Batch:
        """Events since the last call, as many as one look takes; `Batch.more` tells if there are others.

        Read strings and cores afterwards: they are there before their events.
        """
        return self._cursor.drain(self._set_records(), not self.process_alive())

    def latest_events(self, limit: int = MOST_BYTES) -> Batch:
        """The last events, about so many bytes; of those before them `Batch.skipped` has the count."""
        return self._cursor.latest(self._set_records(), not self.process_alive(), limit)

    def _set_records(self) -> bytes:
        return self._file.records(Section.SETS, 0, self._table_counts()[1])

    @property
    def lost(self) -> int:
        """Events that this reader came too late for, or that were never finished."""
        return self._cursor.lost


def switch(path: str, on: bool) -> None:
    """Turns tracking on or off in a running process: one word of its region."""
    file = RegionFile(path)  # only what is a region is written to
    try:
        file.write(layout.TRACKING_AT, int(on).to_bytes(4, "little"))
    finally:
        file.close()
