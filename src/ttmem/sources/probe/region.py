"""One process as its region describes it, while it runs and after it has died."""

from __future__ import annotations

import os
import re
import time
from struct import Struct

from ttmem.fast_dataclasses import dataclass
from ttmem.probe import _records, layout
from ttmem.probe.layout import RegionState, Section
from ttmem.procfs import is_alive, maps, pid_outside, program, user_id, user_name
from ttmem.sources.containers import Container
from ttmem.sources.probe.region_file import (
    BadRegion,
    ForeignRegion,
    NotReady,
    RegionHeader,
)
from ttmem.sources.probe.ring import MOST_BYTES, Cursor, RingBatch
from ttmem.sources.probe.tables import RegionTables
from ttmem.wire.frames import Rectangle

_LIVE_COUNTS = Struct("<QQQ")
CHECK_MAPS_S = 5.0  # how often, for a process whose code and stack have not moved


@dataclass(frozen=True, slots=True)
class RingLosses:
    """What the probe could not keep. Counters include it all the same."""

    given_up: int  # events whose slot in the ring was taken
    live_not_listed: int
    live_uncounted: int  # of those, buffers that are alive now
    strings_dropped: int
    tables_dropped: int
    unpaired_frees: int  # of things allocated while tracking was off, or before a fork
    unseen: int  # buffers allocated while tracking was off
    forgotten: int  # buffers that were freed with their device, and replaced in the table by others


class ProbeRegion(RegionTables):
    """Declarations, counters, live entries, strings and new events. Every call reads the file again.

    The owner of the file, `uid`, is believed only about processes of that user.
    """

    def __init__(self, path: str, container: Container | None = None) -> None:
        super().__init__(path, container)
        self._container = container
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        header = super().header()
        self._named_pid, self.start_ticks = header.pid, header.start_ticks
        found = self._find_process()
        self.pid = found or self._named_pid
        self._over = found is None
        self.created_ns = header.created_ns
        compact = header.version == layout.COMPACT_VERSION
        # A compact region may have no events, but has the time of the last one.
        self.last_event_ns = self.word(layout.LAST_EVENT_AT) or None if compact else None
        self._mark: tuple[bytes, ...] = ()
        self._checked = 0.0
        self._strings = 1  # number 0 means none
        self._cores = 1
        self._text_left = self.count(Section.TEXT)
        self._cursor = Cursor(self)
        self._check_owner()

    @property
    def container_pid(self) -> int | None:
        """The pid by which the process knows itself, if it is not the one it has here."""
        return self._named_pid if self._named_pid != self.pid else None

    def _find_process(self) -> int | None:
        """The pid that the process has here: in a container it has another. None: it has ended for sure.

        A region inside a container is believed only about processes there, whatever pid it names.
        """
        pid = self._named_pid
        if self._container is not None:
            found = self._container.process(pid, self.start_ticks)
            if found is None and self.changed_ns >= self._container.looked_ns:
                raise NotReady(f"{self.path} is younger than what is known of its container")
            return found
        running = program(pid)
        here = running is not None and running.start_ticks == self.start_ticks
        if here and user_id(pid) in (None, self.uid):
            return pid
        return pid_outside(pid, self.start_ticks, self.uid, self.changed_ns) or pid

    def _check_owner(self) -> None:
        """Anybody can write a file that names another user's process."""
        if self._over:
            return
        uid = user_id(self.pid)
        # After the uid, which is thus of this process or an earlier one.
        running = program(self.pid)
        if running is None or running.start_ticks != self.start_ticks or uid in (None, self.uid):
            return
        raise ForeignRegion(
            f"{self.path} belongs to user {user_name(self.uid)}, but process {self.pid}, which it "
            f"names, to user {user_name(uid)}; it is not counted"
        )

    def header(self) -> RegionHeader:
        header = super().header()
        if (header.pid, header.start_ticks) != (self._named_pid, self.start_ticks):
            raise BadRegion(f"{self.path} belongs to another process now")
        return header

    def process_alive(self) -> bool:
        """False if the process has ended or runs another program, or if its pid is another process's now."""
        if self._over:
            return False
        running = program(self.pid)
        if running is None:  # gone, unless only this process has no free descriptor to read /proc
            return is_alive(self.pid, None)
        if running.start_ticks != self.start_ticks:
            return False
        # A process cannot map memory while its maps are read, so they are read only if something suggests an `exec`.
        now = time.monotonic()
        if running.mark != self._mark or now - self._checked > CHECK_MAPS_S:
            mapped = maps(self.pid)
            if mapped is not None and not self._is_in(mapped):
                return False
            self._mark, self._checked = running.mark, now
        return True

    def _is_in(self, mapped: bytes) -> bool:
        """A line of the maps ends with the path, followed by ' (deleted)' if the file was deleted."""
        name = re.escape(os.path.basename(self.path).encode())
        return re.search(rb"/" + name + rb"(?: \(deleted\))?$", mapped, re.MULTILINE) is not None

    def in_order(self) -> bool:
        """Whether the process itself reported its end."""
        return self.header().state is RegionState.ENDED

    def note_death(self, time_ns: int) -> None:
        """Records when a process died that was killed before it could do so itself."""
        header = self.header()
        if header.state is RegionState.IN_USE and header.ended_ns is None:
            self.set_word(layout.ENDED_AT, time_ns)

    def losses(self) -> RingLosses:
        _, live_not_listed, uncounted = _LIVE_COUNTS.unpack(
            self.read(layout.LIVE_AT, _LIVE_COUNTS.size)
        )
        return RingLosses(
            given_up=self.word(layout.GIVEN_UP_AT),
            live_not_listed=live_not_listed,
            live_uncounted=uncounted,
            strings_dropped=self.word(layout.STRINGS_AT + 8),
            tables_dropped=self.table_counts()[3],
            unpaired_frees=self.word(layout.UNPAIRED_AT),
            unseen=self.word(layout.UNSEEN_AT),
            forgotten=self.word(layout.FORGOTTEN_AT),
        )

    def new_strings(self) -> dict[int, str]:
        """Those interned since the last call."""
        word = self.word(layout.STRINGS_AT)
        count = min(word & 0xFFFFFFFF, self.count(Section.STRINGS))
        used = min(word >> 32, self.count(Section.TEXT))
        first, self._strings = self._strings, max(count, self._strings)
        if count <= first:
            return {}
        records = self.records(Section.STRINGS, first, count - first)
        text = self.records(Section.TEXT, 0, used)
        texts, taken = _records.whole_strings(records, text, self._text_left)
        self._text_left -= taken
        return {first + i: text for i, text in enumerate(texts) if text is not None}

    def new_cores(self) -> dict[int, list[Rectangle]]:
        """Core sets added since the last call."""
        count = min(self.table_counts()[2], self.count(Section.CORES))
        first, self._cores = self._cores, max(count, self._cores)
        return self.cores(first, count) if count > first else {}

    def new_events(self) -> RingBatch:
        """Events since the last call, up to a limit; `RingBatch.more` says whether there are others.

        Read strings and cores afterwards: they are written before the events that use them.
        """
        return self._cursor.drain(self._set_records(), not self.process_alive())

    def latest_events(self, limit: int = MOST_BYTES) -> RingBatch:
        """The last events, about `limit` bytes of them. `RingBatch.skipped` counts those before."""
        return self._cursor.latest(self._set_records(), not self.process_alive(), limit)

    def _set_records(self) -> bytes:
        return self.records(Section.SETS, 0, self.table_counts()[1])

    @property
    def position(self) -> int:
        """How many slots of the ring were written before the one that is read next."""
        return self._cursor.ticket
