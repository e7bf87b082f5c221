"""Anomalies, in sentences: findings of the ledger, failed allocations, and faults and limits of single inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ttmem.events import (
    EVENT_SIZE,
    DeviceDeclaration,
    Event,
    KernelType,
    MemoryKind,
    Notice,
    Op,
    Remark,
)
from ttmem.events.probe_news import ProbeNews
from ttmem.events.runtime_messages import (
    Verdict,
    bank_figures,
    clash,
    end_in_each_core,
    too_large,
    verdict,
)
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.ledger.context import Context, DeviceContext, ProcessContext, l1_capacity, l1_map
from ttmem.ledger.details import Reporter
from ttmem.ledger.processes import ProcessRecord
from ttmem.ledger.rows import held
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, CrossCheck, L1Map, Memory
from ttmem.wire.rows import AccountRow, DeviceRow, FindingCode, FindingRow, Reject

_SENTENCES = {
    FindingCode.UNKNOWN_FREE: "buffers freed that were never seen allocated (older than the server, or freed long ago)",
    FindingCode.BUFFER_RESIZED: "buffer ids reused with another size while alive (the old buffers count as freed)",
    FindingCode.UNKNOWN_CB_FREE: "circular buffers freed that were never seen allocated",
    FindingCode.UNKNOWN_UNLOAD: "kernels or programs unloaded that were never seen loaded",
    FindingCode.KERNEL_RESIZED: "kernel ids reused with another size while alive (the old kernels count as unloaded)",
    FindingCode.TABLE_FULL: "reports that did not fit into the table of live entries (they are not counted)",
    FindingCode.STATUS_BACKWARDS: "programs whose binary status went backwards",
    FindingCode.CB_MAP_FULL: "circular-buffer maps beyond the limit (their demand is counted, not the union)",
    FindingCode.DOUBLE_FREE: "buffers freed twice",
    FindingCode.DOUBLE_CB_FREE: "circular buffers freed twice",
    FindingCode.DOUBLE_UNLOAD: "kernels or programs unloaded twice",
    FindingCode.REJECTED: "reports with impossible values (they are not counted)",
}


def finding_anomaly(row: FindingRow, who: str, pid: int) -> Anomaly:
    """An anomaly of one kind that one process caused on one device."""
    finding = FindingCode(row.anomaly)
    times = "once" if row.times == 1 else f"{row.times:,} times"
    text = f"{who}: {_SENTENCES[finding]}: {times}, last id {row.last_id:#x}"
    return Anomaly(finding.name.lower(), text, pid, row.bytes or None)


def remark_anomaly(remark: Remark) -> Anomaly:
    """An anomaly that the reader of a source found."""
    return Anomaly(remark.kind, remark.text, remark.pid, remark.bytes)


def cross_check_anomaly(check: CrossCheck, process: ProcessContext) -> Anomaly | None:
    """Counters that exceed the events. The other way round is normal: counters miss a lot, and may lag behind."""
    # Circular buffers are left out: counters keep their maximum, or count something else.
    amounts = check.difference._replace(cb=0).by_label()
    more = {kind: amount for kind, amount in amounts.items() if amount > 0}
    if not more:
        return None
    listed = ", ".join(f"{human(amount)} {kind}" for kind, amount in more.items())
    text = (
        f"{process.title}: {check.source} says {listed} more than its events; the events are used;"
        " it may hold buffers that are older than the server, or that its client does not report"
    )
    return Anomaly("cross_check", text, process.pid, sum(more.values()))


def over_capacity(
    what: str, used: int, capacity: int, culprit: tuple[str, int, int] | None, demand: int
) -> Anomaly:
    """Reports that add up to more than the hardware has.

    `demand`: bytes of circular buffers that were counted by demand.
    """
    text = (
        f"{what}: reports add up to {human(used)}, {human(used - capacity)} more than the"
        f" {human(capacity)} that can be allocated"
    )
    if culprit:
        text += f"; {culprit[0]} holds most of it, {human(culprit[2])}"
    if demand:
        text += (
            f"; {human(demand)} of it are circular buffers whose cores are unknown, so all cached programs are"
            " added up although they share addresses"
        )
    return Anomaly("over_capacity", text, culprit[1] if culprit else None, used - capacity)


def _peak_over_capacity(what: str, peak: int, capacity: int, largest: int = 0) -> Anomaly:
    """A peak above the capacity: the reports once exceeded it, or the capacity, once `largest`, has shrunk since."""
    if peak <= largest:
        text = (
            f"{what}: the peak of {human(peak)} is from a time when {human(largest)} could be allocated;"
            f" the processes that have the device open now left {human(capacity)}"
        )
    else:
        text = (
            f"{what}: the peak of {human(peak)} is {human(peak - capacity)} above the {human(capacity)} that can be"
            " allocated now"
        )
    return Anomaly("peak_over_capacity", text, bytes=peak - capacity)


_L1_USED = "L1 with L1_SMALL and circular buffers"
_BOTH_COUNT = (
    "; L1 buffers may lie where cached programs that are not running have circular buffers, which is legal, and both"
    " count"
)


def _running(memory: Memory, capacity: int) -> str:
    """What L1 is in use with the circular buffers of the programs that ran last alone, if that fits."""
    if memory.cb.resident is None:
        return ""
    used = memory.l1.held + memory.l1_small.held + memory.cb.resident
    return (
        f"; with those of programs that ran last alone it is {human(used)}"
        if used <= capacity
        else ""
    )


def capacity_anomalies(
    device: DeviceContext,
    memory: Memory,
    sums: DeviceRow,
    l1_peak: int | None,
    rows: list[AccountRow],
    processes: Mapping[int, ProcessContext],
) -> list[Anomaly]:
    """What is held, or once was, above what can be allocated."""

    def culprit(shares: Sequence[int]) -> tuple[str, int, int]:
        most, row = max(zip(shares, rows, strict=True), key=lambda pair: pair[0])
        process = processes[row.process]
        return process.title, process.pid, most

    out = []
    for kind, use in (
        (MemoryKind.DRAM, memory.dram),
        (MemoryKind.TRACE, memory.trace),
        (MemoryKind.L1_SMALL, memory.l1_small),
        (MemoryKind.L1, memory.l1),
    ):
        if use.capacity is None:
            continue
        if use.held > use.capacity:
            holder = culprit([row.held[kind] for row in rows])
            out.append(over_capacity(kind.name, use.held, use.capacity, holder, 0))
        elif use.peak is not None and use.peak > use.capacity:
            largest = device.largest[kind]
            out.append(_peak_over_capacity(kind.name, use.peak, use.capacity, largest))
    # If it is unknown how the device was opened, the total is still an upper bound.
    l1 = l1_capacity(device.declaration)
    l1 = device.declaration.l1_most if l1 is None else l1
    if l1 is not None and sums.l1_used > l1:
        by_demand = sum(row.cb_demand for row in rows if row.cb_unplaced or row.cb_map_full)
        holder = culprit([held(row).l1_used for row in rows])
        anomaly = over_capacity(_L1_USED, sums.l1_used, l1, holder, by_demand)
        if not by_demand and memory.cb.used and memory.l1.held:
            anomaly = replace(anomaly, text=anomaly.text + _BOTH_COUNT + _running(memory, l1))
        out.append(anomaly)
    elif l1 is not None and l1_peak is not None and l1_peak > l1:
        anomaly = _peak_over_capacity(_L1_USED, l1_peak, l1)
        out.append(replace(anomaly, text=anomaly.text + _BOTH_COUNT))
    return out


def disputed(who: str, user: str | None, pid: int, what: str) -> Anomaly:
    """A declaration that does not count, because another user's does."""
    text = (
        f"{who} of user {user} describes this device differently ({what}) from the host or the user who had it open"
        " before; that is ignored"
    )
    return Anomaly("declaration", text, pid)


_REASONS = {
    Reject.OP: "its type is unknown",
    Reject.KIND: "its kind is unknown",
    Reject.SIZE_ZERO: "its size is 0",
    Reject.SIZE_HUGE: "its size is larger than 1 TiB",
    Reject.CORES: "its core set was never declared, or does not divide its size",
}


def rejection(reason: int, record: bytes, who: str) -> str:
    """The log line for an event that the ledger rejected."""
    event = Event.unpack(record)
    op = Op(event.op).name if event.op in set(Op) else f"type {event.op}"
    advice = ""
    if reason == Reject.SIZE_ZERO and event.op == Op.KERNEL_LOAD:
        advice = " (the runtime reports the size in the config buffer; the size of the binary is expected)"
    elif reason == Reject.KIND:
        known = KernelType if event.op == Op.KERNEL_LOAD else MemoryKind
        advice = f" ({event.kind}; known are {', '.join(f'{k.value} {k.name}' for k in known)})"
    what = f"{op} on device {event.device} of {event.size} bytes"
    return f"{what} rejected: {_REASONS[Reject(reason)]}{advice}; from {who}"


FAILED = "allocation_failed"
KEPT_NS = 600 * 1_000_000_000
MOST_FAILED = 64  # processes and devices
MOST_OF_A_LOOK = 4096
MOST_COUNTED = 1024  # devices


@dataclass(slots=True)
class _Failed:
    """The failures of one process on one device, and the request of the last one."""

    process: Reporter
    device: str
    seen_ns: int
    last: Event
    times: int = 1


class FailedAllocations:
    """Allocations of watched processes that failed in the last ten minutes."""

    def __init__(self) -> None:
        self._failed: OrderedDict[tuple[int, str], _Failed] = OrderedDict()
        self._awaited: set[int] = set()
        self._counts: dict[str, int] = {}  # by device, since it was first watched

    def look(self, process: ProcessRecord, news: ProbeNews, now: int) -> None:
        """Failures are rare, so events are searched only if a message came with them or with the batch before."""
        for unique_id in process.devices.values():
            if unique_id not in self._counts and len(self._counts) < MOST_COUNTED:
                self._counts[unique_id] = 0
        if news.messages or process.index in self._awaited:
            self._take(process, news.earlier + news.events, now)
        # The probe writes the message first, so its event may only come with the next batch.
        self._awaited.discard(process.index)
        if news.messages and not news.ended:
            self._awaited.add(process.index)

    def _take(self, process: ProcessRecord, events: bytes, now: int) -> None:
        for event in failures_in(events):
            device = process.devices.get(event.device)
            if device is None:
                continue
            known = self._failed.pop((process.index, device), None)
            times = known.times + 1 if known else 1
            if device in self._counts:
                self._counts[device] += 1
            self._failed[process.index, device] = _Failed(process, device, now, event, times)
            while len(self._failed) > MOST_FAILED:
                self._failed.popitem(last=False)

    def count(self, unique_id: str) -> int | None:
        """The number of failures on a device; None if no process on it was watched."""
        return self._counts.get(unique_id)

    def forget_old(self, now: int) -> None:
        """Drops failures older than ten minutes."""
        while self._failed and now - next(iter(self._failed.values())).seen_ns > KEPT_NS:
            self._failed.popitem(last=False)

    def of(self, unique_id: str, device: DeviceDeclaration, one_layout: bool) -> Iterator[Anomaly]:
        """The failures on one device."""
        for failed in self._failed.values():
            if failed.device == unique_id:
                yield _anomaly(failed, device, one_layout)


def with_failures(context: Context, failures: Iterable[tuple[Reporter, str, Event]]) -> Context:
    """A context with what failed after it was written: (process, device, event), in order."""
    latest: dict[tuple[int, str], _Failed] = {}
    for process, device, event in failures:
        known = latest.get((process.pid, device))
        times = known.times + 1 if known else 1
        latest[process.pid, device] = _Failed(process, device, event.time, event, times)
    if not latest:
        return context
    return replace(
        context, devices=tuple(_with_failed(device, latest.values()) for device in context.devices)
    )


def _with_failed(device: DeviceContext, latest: Iterable[_Failed]) -> DeviceContext:
    mine = [failed for failed in latest if failed.device == device.unique_id]
    count = (device.failed_allocations or 0) + sum(failed.times for failed in mine)
    anomalies = list(device.anomalies)
    for failed in mine:
        for old in [
            each for each in anomalies if (each.kind, each.pid) == (FAILED, failed.process.pid)
        ]:
            failed.times += _times(old)
            anomalies.remove(old)
        anomalies.append(_anomaly(failed, device.declaration, device.one_layout))
    return replace(device, anomalies=tuple(anomalies), failed_allocations=count) if mine else device


def _times(anomaly: Anomaly) -> int:
    """How many failures it is about; see `_anomaly`."""
    number = anomaly.text.partition(" ")[0].replace(",", "")
    return int(number) if number.isdecimal() else 1


def failures_in(events: bytes) -> list[Event]:
    """The last ones, in order. A failure takes the runtime 100 us, so more in one batch do not come from a runtime."""
    ops, found = events[::EVENT_SIZE], list[Event]()
    at = ops.rfind(Notice.ALLOCATION_FAILED)
    while at >= 0 and len(found) < MOST_OF_A_LOOK:
        found.append(Event.unpack(events, at * EVENT_SIZE))
        at = ops.rfind(Notice.ALLOCATION_FAILED, 0, at)
    return found[::-1]


def _anomaly(failed: _Failed, device: DeviceDeclaration, one_layout: bool) -> Anomaly:
    """The request comes first, because views cut lines at their end."""
    event, strings = failed.last, failed.process.strings
    times = "an allocation" if failed.times == 1 else f"{failed.times:,} allocations"
    last = "" if failed.times == 1 else "the last one "
    message = failed.process.messages.get(event.time, "")
    said = bank_figures(message)
    size = said.asked if said else event.size
    asked = _asked(event.kind, size, message, l1_map(device, one_layout))
    origin = ", ".join(filter(None, (strings.get(event.name), strings.get(event.site))))
    where = f" for {origin}" if origin else ""
    why = _why(event, message, device)
    text = f"{times} FAILED: {last}{asked}{where}; {why}{failed.process.title}"
    time_ns = event.time if 0 < event.time < 1 << 63 else None  # later times: a clock before 1970
    return Anomaly(FAILED, text, failed.process.pid, size or None, time_ns)


def _why(event: Event, message: str, device: DeviceDeclaration) -> str:
    """What the runtime's own figures tell, ending in '; '."""
    if clash(message):
        return "its circular buffers overlap L1 buffers; "
    if too_large(message):
        return "more than a core has; "
    said = bank_figures(message)
    banks, size, _ = device.banks(event.kind)
    needed = said.needed if said else -(-event.size // banks) if event.size and banks else None
    free, largest = (said.free, said.largest) if said else (None, None)
    found = verdict(needed, free, largest, (said and said.bank_size) or size)
    texts = {
        Verdict.EXHAUSTED: f"exhausted: {human((needed or 0) - (free or 0))} missing in each bank; ",
        Verdict.FRAGMENTED: f"fragmented: the largest free block of a bank is {human(largest)}; ",
        Verdict.TOO_LARGE: "too large: it would not fit into an empty device; ",
    }
    return texts.get(found, "")


def _asked(kind_number: int, size: int, message: str, l1: L1Map | None) -> str:
    """A program asks for the same addresses in each core, not for a sum; only the runtime's message has them."""
    known = kind_number in set(MemoryKind)
    kind = MemoryKind(kind_number).name if known else "unknown memory"
    if size:
        return f"{human(size)} of {kind}"
    end = end_in_each_core(message)
    if end is None or l1 is None or end <= l1.base:
        return f"in {kind}"
    return f"{human(end - l1.base)} of {kind} on each core"
