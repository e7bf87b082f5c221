"""How an instant of a recording is found: by time, position, failure or peak."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Any, NamedTuple

from ttmem.clock import LATEST_NS
from ttmem.errors import BadInput
from ttmem.events import Amounts, MemoryKind
from ttmem.events.record import end_of
from ttmem.recording.context import CountedReading
from ttmem.recording.format import BadChunk, ChunkType, records_until
from ttmem.recording.reader import Marker
from ttmem.recording.replay import SAMPLED, Changes
from ttmem.recording.stretch import Totals
from ttmem.recording.times import PEAKS, SECOND_NS, clock_text, parse_clock, parse_duration
from ttmem.sizes import human, several
from ttmem.wire.rows import DeviceRow, grouped_rows


class Instant(NamedTuple):
    """A position in the journal, and a time: what is not in the journal changes between two records, too."""

    position: int
    time_ns: int
    # Such changes are included up to this time, if the instant was given as a time.
    until_ns: int = LATEST_NS
    remark: str = ""  # if it is not quite the instant that was asked for, or one of several


ALWAYS = Instant(0, 0), Instant(1 << 63, LATEST_NS)


class Held(NamedTuple):
    """What one device holds at an instant, by events and counters together."""

    instant: Instant
    device: str  # unique id
    amounts: Amounts
    counted: bool  # the instant is that of a reading of counters, not of an event


class Instants(Changes):
    """Adds instants to the changes of a recording."""

    def instant(self, when: str | float) -> Instant:
        """Resolves an instant.

        A number, or "12.5s", "2m30s": since the start. "start", "end". "#1234": that position. "41#1234": when process
        41 had reported 1,234 events (`position` in a snapshot). "oom", "oom:2", "oom:last": when the first, second or
        last allocation failed. "peak:l1", "peak:dram", ...: when one device held the most. "14:05:30",
        "2026-11-18T14:05:30", "@1794996330000000000" (ns since 1970): by the clock.
        """
        text = when if isinstance(when, str) else repr(float(when))
        kind, _, which = text.partition(":")
        started, ended = self._chunks.span
        if text == "end":
            return Instant(self._chunks.end, ended)
        if kind == "oom" and re.fullmatch(r"|last|[1-9]\d{0,8}", which):
            return self._failure(-1 if which == "last" else int(which or 1))
        if kind == "peak" and which in PEAKS:
            return self._peak(which)
        if re.fullmatch(r"#\d{1,18}", text):
            return self._by_position(int(text[1:]))
        if re.fullmatch(r"@\d{1,19}", text):
            return self._at_time(int(text[1:]))
        if found := re.fullmatch(r"(\d{1,10})#(\d{1,18})", text):
            return self.after(self._position_of(int(found[1]), int(found[2])))
        try:
            since = 0 if text == "start" else parse_duration(text)
        except BadInput:
            return self._by_clock(parse_clock(text, started, ended), clock_text)
        return self._by_clock(
            started + since, lambda time: f"{(time - started) / SECOND_NS:,.3f} s"
        )

    def after(self, position: int, remark: str = "") -> Instant:
        """The instant after the record before a position."""
        return Instant(position, self.time_at(position), remark=remark)

    def _at_time(self, time: int, remark: str = "") -> Instant:
        return Instant(self.position_at(time), time, time, remark)

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

    def _by_clock(self, asked: int, written: Callable[[int], str]) -> Instant:
        """Outside the recording it is the start or the end, and says so."""
        started, ended = self._chunks.span
        time = max(started, min(asked, ended))
        if time == asked:
            return self._at_time(time)
        edge = "begins" if asked < started else "ends"
        remark = f"the recording has no instant {written(asked)}: it {edge} at {written(time)}, which is shown"
        if asked > ended:
            return Instant(self._chunks.end, ended, remark=remark)
        return self._at_time(time, remark)

    def _by_position(self, asked: int) -> Instant:
        position = max(self._start, min(asked, self._chunks.end))
        if position == asked:
            return self.after(position)
        edge = "begins" if asked < position else "ends"
        remark = f"the recording has no instant #{asked}: it {edge} at #{position}, which is shown"
        return self.after(position, remark)

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
            return self._at_time(time, text)
        if not reached:
            text = f"nothing was allocated in {kind.upper()}, so it has no peak: this is the start"
        return self.after(self.mesh_end(position), text)

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

        replay = self._replay
        position, highest = replay.find_peak(peak, self._chunks.end)
        replay.go_to(position)
        reached = held(replay.ledger)
        if reached < highest:  # that is from before the recording, or from missing records
            position, reached = self._highest(kind)
        return position, reached, highest

    def _highest_with_counters(
        self, kind: str, first: Instant = ALWAYS[0], last: Instant = ALWAYS[1]
    ) -> Instant | None:
        """Between two instants; None if no process is known from counters alone."""
        if not self.counted:
            return None
        best, highest = None, 0
        for held in self.held():
            at = held.instant
            if not (first.position <= at.position <= last.position):
                continue
            if (
                first.time_ns <= at.time_ns <= last.time_ns
                and getattr(held.amounts, kind) > highest
            ):
                best, highest = held, getattr(held.amounts, kind)
        if best is None:
            return None
        pids = sorted({pid for one in self.counted for pid, at in one.held if at == best.device})
        if not pids:
            return best.instant
        text = (
            f"of pid {', '.join(map(str, pids))} only counters are known, which are read now and then: more than"
            f" {human(highest)} may have been held in between"
        )
        return best.instant._replace(remark=text)

    def held(self) -> Iterator[Held]:
        """What devices hold after every event and every reading of counters, both together."""
        by_events: dict[str, Amounts] = {}
        by_counters: Mapping[str, Amounts] = {}

        def both(device: str) -> Amounts:
            parts = (held.get(device, Amounts()) for held in (by_events, by_counters))
            return Amounts.total(parts)

        readings: Iterable[CountedReading | Totals] = self.counted
        events = self.totals()
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
            if found := self._highest_with_counters(kind, first, last):
                return found
            position, held, _ = self._reached(kind)
            if held and not span[0] <= position <= span[1]:
                position, held = self._highest(kind, *span)
            if held:
                return self.after(min(self.mesh_end(position), span[1]))
            if time := self._sampled_peak(kind, first.time_ns, last.time_ns):
                return self._at_time(time)
        return last

    def _sampled_peak(self, kind: str, first_ns: int = 0, last_ns: int = LATEST_NS) -> int:
        """The first time at which the history has the most on one device; 0 if it has nothing."""
        column, highest, when = SAMPLED.index(kind), 0, 0
        for _, time, amounts in self.samples():
            if first_ns <= time <= last_ns and amounts[column] > highest:
                highest, when = amounts[column], time
        return when

    @property
    def failures(self) -> list[Marker]:
        """One marker for each failed allocation, the last of those that a mesh has for its chips."""
        found = {
            (marker.pid, marker.time_ns, marker.text): marker
            for marker in self.markers
            if marker.kind == "failure"
        }
        return list(found.values())

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

    def _failure(self, number: int) -> Instant:
        """`number`: the first is 1, the last -1."""
        failures, name = self.failures, self._chunks.source.name
        if len(failures) < abs(number):
            few = several(len(failures), "allocation") if failures else "no allocation"
            why = self.failures_unknown
            raise BadInput(f"{name}: {why}" if why else f"{few} failed in {name}")
        shown = number if number > 0 else len(failures)
        text = ""
        if len(failures) > 1:
            text = (
                f"this is failed allocation {shown:,} of {len(failures):,};"
                " --at oom:NUMBER and --at oom:last show the others"
            )
        return self.after(failures[shown - 1].position + 1, text)
