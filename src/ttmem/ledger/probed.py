"""Processes that the probe watches: their regions' events and tables, taken into the accounts.

Every byte of a process is counted from one source. The probe sees all threads and every allocation, so it
wins over what the same process reports over a socket, and over counters (docs/numbers.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.events import EVENT_SIZE, Event, Flag, MemoryKind, Op
from ttmem.events.probe_news import KilledProcess, ProbeCounters, ProbeNews
from ttmem.events.record import EVENT, of_source
from ttmem.ledger.accounts import Accounts
from ttmem.ledger.anomalies import FailedAllocations
from ttmem.ledger.counters import same
from ttmem.ledger.probe_counters import HeldAtTheEnd, KilledProcesses, ProbeChecks, ProbePeaks
from ttmem.ledger.processes import ProcessRecord
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow

_DEVICE, _ID, _CORES = 3, 5, 10  # places in an event


def take_table(accounts: Accounts, process: ProcessRecord, news: ProbeNews, now: int) -> None:
    """What is alive; then of the events before, which are in the table, the dispatches, which are not."""
    if news.live is None:
        return
    native = accounts.native
    accounts.recent.add(process, news.earlier, now)
    native.begin_resync(process.index)
    if news.missed:
        # All anew: what went unseen must not make a peak together with what came, nor lie on cores as resident.
        native.end_resync(process.index)
        native.begin_resync(process.index)
        process.probe.missed = True
        process.probe.uncounted |= news.live_programs
    accounts.account(process, news.live, now)
    native.end_resync(process.index)
    process.probe.uncounted &= news.live_programs
    accounts.account(process, _dispatches(news), now)


def _dispatches(news: ProbeNews) -> bytes:
    """Of programs that are alive. Where counts are unknown anyway, the last ones tell who runs on which core."""
    events, ops = news.earlier, news.earlier[::EVENT_SIZE]
    found: dict[object, int] = {}
    at = ops.find(Op.PROGRAM_DISPATCH)
    while at >= 0:
        values = EVENT.unpack_from(events, at * EVENT_SIZE)
        if values[_ID] in news.live_programs:
            key = (values[_DEVICE], values[_ID], values[_CORES]) if news.missed else at
            found.pop(key, None)
            found[key] = at
        at = ops.find(Op.PROGRAM_DISPATCH, at + 1)
    return b"".join(events[at * EVENT_SIZE : (at + 1) * EVENT_SIZE] for at in found.values())


ID = 1 << 56  # ids of the probe are shorter
NAME = 0xFFFFFFFF  # the probe numbers its strings from 1
TEXT = "buffers beyond the probe's table"
Amount = tuple[int, int]  # requested, reserved


class Unlisted:
    """One entry for each kind on each device: what the counters have, and no single entry does."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._entered: dict[tuple[int, int, MemoryKind], Amount] = {}

    def settle(
        self,
        process: ProcessRecord,
        news: ProbeNews,
        rows: dict[tuple[int, int], AccountRow],
        now: int,
    ) -> None:
        """Brings the entries of a process in line with its counters; `rows` follow."""
        if news.live is not None:  # reading the table has swept what is not in it
            self.forget(process)
        if not (news.unlisted or self.has(process)):
            return
        self._accounts.define_string(process, NAME, TEXT)
        devices = self._accounts.device_indices(process)
        for chip, counted in news.counters.items():
            row = rows.get((process.index, devices.get(chip, -1)))
            for kind in MemoryKind:
                if row is not None:
                    key = (process.index, chip, kind)
                    old = self._entered.get(key, (0, 0))
                    requested = counted.kinds[kind].requested - (row.requested[kind] - old[0])
                    reserved = counted.kinds[kind].reserved - (row.held[kind] - old[1])
                    new = (requested, reserved) if news.unlisted and requested > 0 else (0, 0)
                    self._enter(process, key, new, now)
        rows.update({(row.process, row.device): row for row in self._accounts.event_rows()})

    def has(self, process: ProcessRecord) -> bool:
        """Are there any of it?"""
        return any(key[0] == process.index for key in self._entered)

    def forget(self, process: ProcessRecord) -> None:
        """It is released."""
        for key in [key for key in self._entered if key[0] == process.index]:
            del self._entered[key]

    def _enter(
        self,
        process: ProcessRecord,
        key: tuple[int, int, MemoryKind],
        amount: Amount,
        now: int,
    ) -> None:
        if amount == self._entered.get(key, (0, 0)):
            return
        _, chip, kind = key
        blank = Event(Op.FREE, kind, Flag.KIND_KNOWN | Flag.RESENT, chip, id=ID)
        self._accounts.account(process, blank.pack(), now)
        self._entered.pop(key, None)
        if amount[0]:
            entry = blank._replace(op=Op.ALLOC, size=amount[0], extra=max(amount[1], 0), name=NAME)
            self._accounts.account(process, entry.pack(), now)
            self._entered[key] = amount


SOURCE = "probe"
U32 = 0xFFFFFFFF
MOST_REFUSED = 4096
MOST_MESSAGES = 256  # of failed allocations, for each process; a region has the last 64


class RegionTooLarge(Exception):
    """One region, or all of one user, would take the place of everybody else's."""


class ProbedProcesses:
    """One account for each region, by its path."""

    def __init__(self, accounts: Accounts, held_at_the_end: HeldAtTheEnd) -> None:
        self._accounts = accounts
        self._held_at_the_end = held_at_the_end
        self._by_path: dict[str, ProcessRecord] = {}
        self.checks = ProbeChecks()
        self.failures = FailedAllocations()
        self._unlisted = Unlisted(accounts)
        self._peaks = ProbePeaks()
        self._killed = KilledProcesses()
        self._faulty: list[str] = []
        self._refused: set[str] = set()  # what was read of these meanwhile is the rest of something

    def take(
        self, news: Iterable[ProbeNews], now: int, killed: Iterable[KilledProcess] = ()
    ) -> list[tuple[ProcessRecord, LeftBehind]]:
        """Accounts everything; the processes that have ended, with what they held.

        `killed`: all whose regions are there still, and whose end nobody has seen.
        """
        self._killed.take(killed)
        self.failures.forget_old(now)
        alive, over = [], []
        for one in news:
            if one.first:
                self._refused.discard(one.path)
            if one.refused or one.path in self._refused:
                self._leave_out(one.path, now)
                continue
            try:
                process = self._account(one, now)
            except Exception as problem:
                self._set_aside(one.path, problem, now)
                continue
            if one.ended:  # at once: what follows may be of its next life, after `exec`
                over.append((process, self._end(one.path, now)))
            elif not one.more:
                alive.append((process, one))
        rows = (
            {(row.process, row.device): row for row in self._accounts.event_rows()} if alive else {}
        )
        for process, one in alive:
            try:
                self._unlisted.settle(process, one, rows, now)
                devices = self._accounts.device_indices(process)
                self._find_gaps(process, one)
                self.checks.look(process, one, devices, rows)
            except Exception as problem:
                self._set_aside(one.path, problem, now)
        return [(process, left) for process, left in over if left is not None]

    def give_up(self, paths: Iterable[str], now: int) -> None:
        """These have more to tell than anybody has time to read."""
        for path in paths:
            self._set_aside(path, RegionTooLarge("it has more to tell than can be read"), now)

    def take_faulty(self) -> list[str]:
        """Regions whose news could not be accounted, once: they are to be read no more for a while."""
        faulty, self._faulty = self._faulty, []
        return faulty

    def _set_aside(self, path: str, problem: Exception, now: int) -> None:
        self._accounts.faults.note(f"the region {path}", problem)
        self._faulty.append(path)
        if len(self._refused) >= MOST_REFUSED:  # of those that never came again
            self._refused.clear()
        self._refused.add(path)
        self._leave_out(path, now)

    def _leave_out(self, path: str, now: int) -> None:
        """Of a region that is not read: its process may live, and what it holds is unknown."""
        left = self._end(path, now) if path in self._by_path else None
        if left is not None:
            self._accounts.left_behind.remove(left)

    def _check_room(self, news: ProbeNews) -> None:
        """RegionTooLarge if this region, or all of its user's, would have more entries than are kept."""
        user, own, others = news.facts.user, 0, 0
        for path, process in self._by_path.items():
            if path == news.path:
                own = self._accounts.native.process_live(process.index)
            elif process.facts.user == user:
                others += self._accounts.native.process_live(process.index)
        own = own if news.live is None else len(news.live) // EVENT_SIZE
        if news.most_live is not None and own > news.most_live:
            raise RegionTooLarge(
                f"user {user} has {own:,} live entries in it, and {news.most_live:,} are kept of a region of its size"
            )
        most = self._accounts.max_live // 2
        if own + others > most and news.most_live is not None:
            raise RegionTooLarge(
                f"user {user} has {own + others:,} live entries in all regions, and {most:,} are kept of one user"
            )

    def _find_gaps(self, process: ProcessRecord, news: ProbeNews) -> None:
        # A reader that has seen every event needs no table. One of the past has no counters to compare with.
        lacking = self._unlisted.has(process) or not news.counters
        process.overflow = process.probe.unlisted = news.unlisted if lacking else 0
        process.probe.alive.clear()
        for chip, counted in news.counters.items():
            if chip in process.devices:
                process.probe.compare(process.devices[chip], counted)
                if process.probe.unlisted:
                    counts = tuple(kind.alive for kind in counted.kinds)
                    process.probe.alive[process.devices[chip]] = counts

    def better(self, ghost: LeftBehind) -> LeftBehind:
        """What counters still name of a dead process, as its region has it where there is one."""
        return self._killed.better(ghost, self._held_at_the_end)

    def watches(self, pid: int | None) -> bool:
        """Does a probe tell what that process holds?"""
        return any(process.pid == pid for process in self._by_path.values())

    def doubted(self) -> list[str]:
        """Regions whose counters say something else than their events: their live tables must be read."""
        indices = self.checks.take_doubts()
        return [path for path, process in self._by_path.items() if process.index in indices]

    def overruled_by(self, facts: ProcessFacts) -> ProcessRecord | None:
        """The account that counts for a process which also reports in another way."""
        for process in self._by_path.values():
            if same(process.facts, facts.pid, facts.start_time_ns):
                return process
        return None

    def _account(self, news: ProbeNews, now: int) -> ProcessRecord:
        self._check_room(news)
        process = self._by_path.get(news.path) or self._open(news)
        for declaration in news.devices:
            try:
                self._accounts.declare(process, declaration, SOURCE)
            except ValueError as problem:
                self._accounts.reject(f"declare/{news.path}", f"{news.path}: {problem}")
        for number, text in news.strings.items():
            self._accounts.define_string(process, number, text)
        for number, mask in news.cores.items():
            self._accounts.define_cores(process, number, mask)
        process.messages.update(news.messages)
        while len(process.messages) > MOST_MESSAGES:
            del process.messages[next(iter(process.messages))]
        process.missing = news.missing
        process.probe.take(news)
        if not news.more:
            process.binaries = {
                process.devices[chip]: counted.binaries
                for chip, counted in news.counters.items()
                if chip in process.devices
            }
        self._accounts.count_lost(process, process.dropped + news.lost, 0)
        take_table(self._accounts, process, news, now)
        if news.position is not None:  # a reader that comes late begins in the middle
            process.position = max(0, news.position - of_source(news.events))
        self._accounts.apply(process, news.events, 0, len(news.events), now)
        if news.position is not None:  # one slot of the ring may have become several events
            process.position = news.position
        self.failures.look(process, news, now)
        counted = b"".join(_counters(chip, one) for chip, one in news.counters.items())
        self._accounts.account(process, counted, now)
        indices = self._accounts.device_indices(process)
        self._peaks.take(process, news, indices, self._accounts.devices, now)
        return process

    def _open(self, news: ProbeNews) -> ProcessRecord:
        process = self._accounts.open_process(news.facts, SOURCE)
        process.container_pid = news.container_pid
        self._accounts.native.follow_table(process.index)
        self._by_path[news.path] = process
        self._accounts.overrule(process)
        return process

    def _end(self, path: str, now: int) -> LeftBehind | None:
        process = self._by_path.pop(path)
        self.checks.forget(process)
        self._unlisted.forget(process)
        self._peaks.forget(process)
        return self._accounts.release(process, now)


def _counters(chip: int, counted: ProbeCounters) -> bytes:
    figures = Event(
        Op.COUNTERS,
        flags=Flag.RESENT,
        device=chip,
        id=counted.loads,
        size=counted.unloads,
        extra=counted.dispatches,
        address=counted.cache_hits,
        number=min(counted.cache_misses, U32),
    ).pack()
    if counted.cache_entries is None:
        return figures
    return figures + Event(Op.CACHE_ENTRIES, device=chip, size=counted.cache_entries).pack()
