"""Events and counters together: every byte of a process on a device is taken from one of them.

Events win: they are exact, and know more than sums. What the counters say of the same process on
the same device is a cross-check.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import sub

from ttmem.events import Amounts
from ttmem.ledger.process_record import ProcessRecord
from ttmem.ledger.samples import Account, CounterRow, Samples, same, source_of
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, CrossCheck
from ttmem.wire.rows import AccountRow, DeviceRow

Place = tuple[int, int]  # process index, device index
PATIENCE = 3  # looks in a row: events and counters are not read at the same instant


def owners(
    samples: Samples, processes: Mapping[int, ProcessRecord]
) -> Iterator[tuple[Account, ProcessRecord | None]]:
    """Each account of the counters, with the process if it sends events too."""
    if not processes:
        yield from ((account, None) for account in samples.accounts)
        return
    by_pid: dict[int, list[ProcessRecord]] = defaultdict(list)
    for process in processes.values():
        if process.counted_as is None and process.part_of is None:
            by_pid[process.pid].append(process)
    for account in samples.accounts:
        facts = account.process.facts
        found = (
            p
            for p in (by_pid.get(facts.pid, ()) if account.here else ())
            if same(p.facts, facts.pid, facts.start_time_ns)
        )
        yield account, next(found, None)


def counter_rows(
    samples: Samples, processes: Mapping[int, ProcessRecord], rows: Iterable[AccountRow]
) -> list[CounterRow]:
    """What only the counters tell."""
    if not processes:
        return [account.row(account.process.index) for account in samples.accounts]
    told = {(row.process, row.device) for row in rows}
    out = []
    for account, process in owners(samples, processes):
        owner = account.process if process is None else process
        if (owner.index, account.device.index) not in told:
            out.append(account.row(owner.index))
    return out


def with_counters(row: DeviceRow, counted: Iterable[CounterRow]) -> DeviceRow:
    """The sums of a device, with what only the counters tell."""
    rows = list(counted)
    held = [sum(column) for column in zip(row.held, *(more.held for more in rows), strict=True)]
    cb_used = row.cb_used + sum(more.cb_used for more in rows)
    l1 = Amounts.of_kinds(held, cb_used).l1_used
    return row._replace(held=tuple(held), cb_used=cb_used, l1_used=l1)


class CrossChecks:
    """Where both tell of a process on a device: what the counters say, and whether that is odd."""

    def __init__(self) -> None:
        self._above: Counter[Place] = Counter()

    def look(
        self,
        samples: Samples,
        processes: Mapping[int, ProcessRecord],
        rows: Iterable[AccountRow],
    ) -> None:
        """One more reading: counts how long the counters have said more than the events."""
        above: Counter[Place] = Counter()
        for place, account, row in _both(samples, processes, rows):
            if any(
                amount > 0 for amount in _difference(account, row)[:-1]
            ):  # without circular buffers
                above[place] = self._above[place] + 1
        self._above = above

    def of(
        self,
        samples: Samples,
        processes: Mapping[int, ProcessRecord],
        rows: Iterable[AccountRow],
    ) -> dict[Place, CrossCheck]:
        """The cross-checks of this instant."""
        return {
            place: CrossCheck(
                source_of(account.sample),
                account.counters,
                _difference(account, row),
                account.updated_ns,
            )
            for place, account, row in _both(samples, processes, rows)
        }

    def anomaly(self, place: Place, check: CrossCheck, process: ProcessRecord) -> Anomaly | None:
        """Counters miss a lot, and events may be ahead of them. More than the events have is odd."""
        if self._above[place] < PATIENCE:
            return None
        # Without circular buffers: counters keep their highest value, or mean something else by them.
        amounts = check.difference._replace(cb=0).by_label()
        more = {kind: amount for kind, amount in amounts.items() if amount > 0}
        listed = ", ".join(f"{human(amount)} {kind}" for kind, amount in more.items())
        if not more:
            return None
        text = (
            f"{process.title}: {check.source} says {listed} more than its events, which count;"
            " it may hold buffers that are older than the server, or that its client does not report"
        )
        return Anomaly("cross_check", text, process.pid, sum(more.values()))


def _both(
    samples: Samples,
    processes: Mapping[int, ProcessRecord],
    rows: Iterable[AccountRow],
) -> Iterator[tuple[Place, Account, AccountRow]]:
    told = {(row.process, row.device): row for row in rows if not isinstance(row, CounterRow)}
    for account, process in owners(samples, processes):
        if process is not None:
            place = (process.index, account.device.index)
            if place in told:
                yield place, account, told[place]


def _difference(account: Account, row: AccountRow) -> Amounts:
    asked = Amounts.of_kinds(row.requested, row.cb_used)
    return Amounts._make(map(sub, account.counters, asked))
