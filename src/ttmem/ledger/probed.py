"""Processes watched by the probe: accounts the events and tables of their regions.

Every byte of a process is counted from one source. The probe sees all threads and every allocation, so it takes
precedence over what the same process reports over a socket, and over counters (docs/numbers.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.events import EVENT_SIZE, Event, Flag, MemoryKind, Op
from ttmem.events.probe_news import KilledProcess, ProbeCounters, ProbeNews
from ttmem.events.record import EVENT, of_source, places
from ttmem.ledger.accounts import Accounts
from ttmem.ledger.anomalies import FailedAllocations
from ttmem.ledger.counters import same
from ttmem.ledger.probe_counters import HeldAtTheEnd, KilledProcesses, look_for_doubts, take_peaks
from ttmem.ledger.processes import ProcessRecord
from ttmem.ledger.rows import AccountKey
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow

_DEVICE, _ID, _CORES = 3, 5, 10  # offsets in an event


def take_table(accounts: Accounts, process: ProcessRecord, news: ProbeNews, now: int) -> None:
    """Accounts the live table, and the dispatches among the earlier events, which the table does not contain."""
    if news.live is None:
        return
    native = accounts.native
    accounts.recent.add(process, news.earlier, now)
    native.begin_resync(process.index)
    if news.missed:
        # Starts from nothing: old entries must neither add to the new ones in a peak, nor stay resident on cores.
        native.end_resync(process.index)
        native.begin_resync(process.index)
        process.probe.missed = True
        process.probe.uncounted |= news.live_programs
    accounts.account(process, news.live, now)
    native.end_resync(process.index)
    process.probe.uncounted &= news.live_programs
    accounts.account(process, _dispatches(news), now)


def _dispatches(news: ProbeNews) -> bytes:
    """Dispatches of live programs. If the counts are unknown anyway, the last ones tell what runs on which core."""
    events = news.earlier
    found: dict[object, int] = {}
    for at in places(events, Op.PROGRAM_DISPATCH):
        values = EVENT.unpack_from(events, at * EVENT_SIZE)
        if values[_ID] in news.live_programs:
            key = (values[_DEVICE], values[_ID], values[_CORES]) if news.missed else at
            found.pop(key, None)
            found[key] = at
    return b"".join(events[at * EVENT_SIZE : (at + 1) * EVENT_SIZE] for at in found.values())


UNLISTED_ID = 1 << 56  # the probe's own ids are shorter
UNLISTED_NAME = 0xFFFFFFFF  # the probe numbers its strings from 1
UNLISTED_TEXT = "buffers beyond the probe's table"


def settle_unlisted(
    accounts: Accounts,
    process: ProcessRecord,
    news: ProbeNews,
    rows: dict[AccountKey, AccountRow],
    now: int,
) -> None:
    """Has one entry per kind and device for what the counters include and no single entry shows; updates `rows`."""
    entered = process.probe.entered
    if news.live is not None:  # reading the table removed everything that is not in it
        entered.clear()
    if not (news.unlisted or entered):
        return
    accounts.define_string(process, UNLISTED_NAME, UNLISTED_TEXT)
    devices = accounts.device_indices(process)
    for chip, counted in news.counters.items():
        row = rows.get((process.index, devices.get(chip, -1)))
        if row is None:
            continue
        for kind in MemoryKind:
            before = entered.get((chip, kind), (0, 0))
            requested = counted.kinds[kind].requested - (row.requested[kind] - before[0])
            reserved = counted.kinds[kind].reserved - (row.held[kind] - before[1])
            amount = (requested, reserved) if news.unlisted and requested > 0 else (0, 0)
            if amount == before:
                continue
            entry = Event(Op.FREE, kind, Flag.KIND_KNOWN | Flag.RESENT, chip, id=UNLISTED_ID)
            accounts.account(process, entry.pack(), now)
            entered.pop((chip, kind), None)
            if amount[0]:
                entry = entry._replace(
                    op=Op.ALLOC, size=amount[0], extra=max(amount[1], 0), name=UNLISTED_NAME
                )
                accounts.account(process, entry.pack(), now)
                entered[chip, kind] = amount
    rows.update({(row.process, row.device): row for row in accounts.event_rows()})


SOURCE = "probe"
U32 = 0xFFFFFFFF
MOST_REFUSED = 4096


class RegionTooLarge(Exception):
    """One region, or all regions of one user, would take the space of everybody else's."""


class ProbedProcesses:
    """One account for each region, by path."""

    def __init__(self, accounts: Accounts, held_at_the_end: HeldAtTheEnd) -> None:
        self._accounts = accounts
        self._held_at_the_end = held_at_the_end
        self._by_path: dict[str, ProcessRecord] = {}
        self.failures = FailedAllocations()
        self._killed = KilledProcesses()
        self._faulty: list[str] = []
        self._refused: set[str] = set()  # partly read: what comes next continues it

    def take(
        self, news: Iterable[ProbeNews], now: int, killed: Iterable[KilledProcess] = ()
    ) -> list[tuple[ProcessRecord, LeftBehind]]:
        """Accounts everything; returns the processes that have ended, with what they held.

        `killed`: those whose regions still exist, and whose end nobody observed.
        """
        self._killed.take(killed)
        self.failures.forget_old(now)
        alive, over = [], []
        for update in news:
            if update.first:
                self._refused.discard(update.path)
            if update.refused or update.path in self._refused:
                self._leave_out(update.path, now)
                continue
            try:
                process = self._account(update, now)
            except Exception as problem:
                self._set_aside(update.path, problem, now)
                continue
            if update.ended:  # at once: what follows may belong to the next program, after `exec`
                over.append((process, self._end(update.path, now)))
            elif not update.more:
                alive.append((process, update))
        rows = (
            {(row.process, row.device): row for row in self._accounts.event_rows()} if alive else {}
        )
        for process, update in alive:
            try:
                settle_unlisted(self._accounts, process, update, rows, now)
                devices = self._accounts.device_indices(process)
                self._find_gaps(process, update)
                look_for_doubts(process, update, devices, rows)
            except Exception as problem:
                self._set_aside(update.path, problem, now)
        return [(process, left) for process, left in over if left is not None]

    def give_up(self, paths: Iterable[str], now: int) -> None:
        """Gives up regions with more events than can be read."""
        for path in paths:
            self._set_aside(path, RegionTooLarge("it has more events than can be read"), now)

    def take_faulty(self) -> list[str]:
        """Regions that could not be accounted, once: they should not be read for a while."""
        faulty, self._faulty = self._faulty, []
        return faulty

    def _set_aside(self, path: str, problem: Exception, now: int) -> None:
        self._accounts.omissions.fault(f"the region {path}", problem)
        self._faulty.append(path)
        if len(self._refused) >= MOST_REFUSED:  # of those that never came back
            self._refused.clear()
        self._refused.add(path)
        self._leave_out(path, now)

    def _leave_out(self, path: str, now: int) -> None:
        """Leaves out a region that is not read. Its process may be alive, and what it holds is unknown."""
        left = self._end(path, now) if path in self._by_path else None
        if left is not None:
            self._accounts.left_behind.remove(left)

    def _check_size(self, news: ProbeNews) -> None:
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
                f"user {user} has {own:,} live entries in it; the limit for a region of its size is {news.most_live:,}"
            )
        most = self._accounts.max_live // 2
        if own + others > most and news.most_live is not None:
            raise RegionTooLarge(
                f"user {user} has {own + others:,} live entries in all regions; the limit per user is {most:,}"
            )

    def _find_gaps(self, process: ProcessRecord, news: ProbeNews) -> None:
        # A reader that has seen every event needs no table. A reader of the past has no counters to compare with.
        lacking = bool(process.probe.entered) or not news.counters
        process.overflow = process.probe.unlisted = news.unlisted if lacking else 0
        process.probe.alive.clear()
        for chip, counted in news.counters.items():
            if chip in process.devices:
                process.probe.compare(process.devices[chip], counted)
                if process.probe.unlisted:
                    counts = tuple(kind.alive for kind in counted.kinds)
                    process.probe.alive[process.devices[chip]] = counts

    def better(self, ghost: LeftBehind) -> LeftBehind:
        """What a dead process held that counters still list, from its region if there is one."""
        return self._killed.better(ghost, self._held_at_the_end)

    def watches(self, pid: int | None) -> bool:
        """Whether a probe reports what that process holds."""
        return any(process.pid == pid for process in self._by_path.values())

    def doubted(self) -> list[str]:
        """Regions whose counters disagree with their events: their live tables must be read."""
        found = [path for path, process in self._by_path.items() if process.probe.is_doubted]
        for path in found:
            self._by_path[path].probe.is_doubted = False
        return found

    def overruled_by(self, facts: ProcessFacts) -> ProcessRecord | None:
        """The account that counts for a process which also reports in another way."""
        for process in self._by_path.values():
            if same(process.facts, facts.pid, facts.start_time_ns):
                return process
        return None

    def _account(self, news: ProbeNews, now: int) -> ProcessRecord:
        self._check_size(news)
        process = self._by_path.get(news.path) or self._open(news)
        for declaration in news.devices:
            try:
                self._accounts.declare(process, declaration, SOURCE)
            except ValueError as problem:
                user = process.facts.user
                self._accounts.reject(f"declare/{news.path}", f"{news.path}: {problem}", user)
        for number, text in news.strings.items():
            self._accounts.define_string(process, number, text)
        for number, mask in news.cores.items():
            self._accounts.define_cores(process, number, mask)
        process.keep_messages(news.messages)
        process.missing = news.missing
        process.probe.take(news)
        if not news.more:
            process.binaries = {
                process.devices[chip]: counted.binaries
                for chip, counted in news.counters.items()
                if chip in process.devices
            }
        self._accounts.count_lost(process, process.dropped + news.lost, 0, now)
        take_table(self._accounts, process, news, now)
        if news.position is not None:  # a reader that starts late begins in the middle
            process.position = max(0, news.position - of_source(news.events))
        self._accounts.apply(process, news.events, 0, len(news.events), now)
        if news.position is not None:  # one slot of the ring may have become several events
            process.position = news.position
        self.failures.look(process, news, now)
        counted = b"".join(_counters(chip, counters) for chip, counters in news.counters.items())
        # What the ledger has already would fill the recordings of idle programs, ten times a second.
        idle = not (news.events or news.devices or news.live is not None)
        if not (idle and counted == process.probe.counters):
            process.probe.counters = counted
            self._accounts.account(process, counted, now)
        indices = self._accounts.device_indices(process)
        take_peaks(process, news, indices, self._accounts.devices, now)
        return process

    def _open(self, news: ProbeNews) -> ProcessRecord:
        process = self._accounts.open_process(news.facts, SOURCE)
        process.container_pid = news.container_pid
        self._accounts.native.follow_table(process.index)
        self._by_path[news.path] = process
        self._accounts.overrule(process)
        return process

    def _end(self, path: str, now: int) -> LeftBehind | None:
        return self._accounts.release(self._by_path.pop(path), now)


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
