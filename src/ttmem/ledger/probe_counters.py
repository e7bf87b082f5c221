"""The probe's own counters: peaks, checks against its events, and what killed processes held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ttmem.events import Amounts, MemoryKind
from ttmem.events.probe_news import KilledProcess, ProbeCounters, ProbeNews
from ttmem.fast_dataclasses import replace
from ttmem.ledger.devices import DeviceRecord
from ttmem.ledger.peaks import L1
from ttmem.ledger.processes import Difference, Doubt, ProcessRecord
from ttmem.ledger.rows import AccountKey
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, LeftBehind
from ttmem.wire.rows import AccountRow

HeldAtTheEnd = Callable[[ProbeNews], dict[str, Amounts] | None]  # by a process, on each device
PATIENCE = 3  # polls in a row: counters and events are not read at the same instant


def look_for_doubts(
    process: ProcessRecord,
    news: ProbeNews,
    devices: Mapping[int, int],
    rows: Mapping[AccountKey, AccountRow],
) -> None:
    """A lasting difference is first repaired from the live table; if it remains, it is an anomaly."""
    doubts = process.probe.doubts
    for chip, counted in news.counters.items():
        device = devices.get(chip, -1)
        difference = _difference(counted, rows.get((process.index, device)))
        if not any(difference):
            doubts.pop(device, None)
            continue
        doubt = doubts.get(device)
        if doubt is None or doubt.difference != difference:
            rebuilt = doubt is not None and doubt.rebuilt
            doubts[device] = Doubt(difference, rebuilt=rebuilt)
            continue
        doubt.looks += 1
        if doubt.looks == PATIENCE and not doubt.rebuilt:
            process.probe.is_doubted = True
            doubts[device] = Doubt(difference, rebuilt=True)


def unexplained(process: ProcessRecord) -> Iterator[tuple[int, Anomaly]]:
    """What reading the live table did not explain, by device."""
    for device, doubt in process.probe.doubts.items():
        if doubt.rebuilt and doubt.looks >= PATIENCE:
            yield device, _anomaly(process, doubt.difference)


def _difference(counted: ProbeCounters, row: AccountRow | None) -> Difference:
    held = row.held if row is not None else (0,) * len(MemoryKind)
    demand = row.cb_demand if row is not None else 0
    kinds = [counted.kinds[kind].reserved - held[kind] for kind in MemoryKind]
    return (*kinds, counted.cb_demand - demand)


def _anomaly(process: ProcessRecord, difference: Difference) -> Anomaly:
    names = [*(kind.name for kind in MemoryKind), "circular buffers"]
    parts = [
        f"{human(abs(amount))} {'more' if amount > 0 else 'less'} {name}"
        for name, amount in zip(names, difference, strict=True)
        if amount
    ]
    text = (
        f"{process.title}: the probe's counters have {', '.join(parts)} than its events and its table, which are"
        " used; please report this"
    )
    return Anomaly("probe_counters", text, process.pid, sum(map(abs, difference)))


class KilledProcesses:
    """What killed processes held. A region is read once, and only if counters list its process."""

    def __init__(self) -> None:
        self._regions: dict[tuple[int, str | None], KilledProcess] = {}
        self._held: dict[str, dict[str, Amounts] | None] = {}

    def take(self, killed: Iterable[KilledProcess]) -> None:
        """Replaces the list of killed processes."""
        # If two have the same pid, the later counts; the region from before an `exec` has the longer name.
        last = sorted(killed, key=lambda killed: killed.path, reverse=True)
        self._regions = {(killed.pid, killed.user): killed for killed in last}
        paths = {killed.path for killed in self._regions.values()}
        self._held = {path: held for path, held in self._held.items() if path in paths}

    def better(self, ghost: LeftBehind, held_at_the_end: HeldAtTheEnd) -> LeftBehind:
        """The region's figures, if it is of the same process and complete; they include the time of death."""
        region = self._regions.get((ghost.pid, ghost.user))
        if region is None:
            return ghost
        if region.path not in self._held:
            self._held[region.path] = _held(region, held_at_the_end)
        held = self._held[region.path]
        if held is None or not held.keys() >= ghost.devices.keys():
            return ghost
        return replace(ghost, devices=held, died_ns=region.ended_ns)


def _held(region: KilledProcess, held_at_the_end: HeldAtTheEnd) -> dict[str, Amounts] | None:
    """None: the region cannot be read, or is incomplete."""
    news = region.last_words()
    if news is None or news.unseen or not news.tracking:
        return None
    held = held_at_the_end(replace(news, ended=True))
    return _counted(held, news) if held and news.unlisted else held


def _counted(held: dict[str, Amounts], news: ProbeNews) -> dict[str, Amounts]:
    """The counters also include buffers that did not fit into the table."""
    out = dict(held)
    for device in news.devices:
        counted = news.counters.get(device.logical_id)
        if counted is not None and device.unique_id in out:
            reserved = [kind.reserved for kind in counted.kinds]
            out[device.unique_id] = Amounts.of_kinds(reserved, out[device.unique_id].cb)
    return out


def take_peaks(
    process: ProcessRecord,
    news: ProbeNews,
    indices: Mapping[int, int],
    devices: Sequence[DeviceRecord],
    now: int,
) -> None:
    """A peak counts when it is new, so that one from before `reset_peak` does not come back."""
    seen = process.probe.peaks
    for chip, counted in news.counters.items():
        if chip not in indices:
            continue
        device = devices[indices[chip]]
        for kind in MemoryKind:
            counter = counted.kinds[kind]
            if counter.peak > seen.get((device.index, kind), 0):
                seen[device.index, kind] = counter.peak
                device.polled.raise_kind(kind, counter.peak, _known(counter.peak_ns, now))
        if news.missed:
            _take_l1(device, counted, now)


def _known(time_ns: int, now: int) -> int:
    """0 for a time in the future: the clock was set, or was before 1970."""
    return time_ns if time_ns <= now else 0


def _take_l1(device: DeviceRecord, counted: ProbeCounters, now: int) -> None:
    """There is no counter of L1 used: its peak is known if all but one of its parts were never used."""
    l1, small = counted.kinds[MemoryKind.L1], counted.kinds[MemoryKind.L1_SMALL]
    if counted.cb_peak or (l1.peak and small.peak):
        device.l1_peak_missed = True
    else:
        peak, peak_ns = max((l1.peak, l1.peak_ns), (small.peak, small.peak_ns))
        device.polled.raise_kind(L1, peak, _known(peak_ns, now))
