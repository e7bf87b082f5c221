"""What is wrong, in sentences: anomalies, failed allocations, and faults and limits of single inputs."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum

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
from ttmem.fast_dataclasses import dataclass
from ttmem.ledger.context import ProcessContext
from ttmem.ledger.processes import ProcessRecord
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, CrossCheck
from ttmem.wire.rows import FindingRow


class FindingCode(IntEnum):
    """Numbered as in `native/ledger.hpp`."""

    UNKNOWN_FREE = 1
    BUFFER_RESIZED = 2
    UNKNOWN_CB_FREE = 3
    UNKNOWN_UNLOAD = 4
    KERNEL_RESIZED = 5
    TABLE_FULL = 6
    STATUS_BACKWARDS = 7
    CB_MAP_FULL = 8
    REJECTED = 9
    DOUBLE_FREE = 10
    DOUBLE_CB_FREE = 11
    DOUBLE_UNLOAD = 12


_SENTENCES = {
    FindingCode.UNKNOWN_FREE: "buffers freed that were never seen allocated (older than the server, or freed long ago)",
    FindingCode.BUFFER_RESIZED: "buffer ids reused with another size while alive (the old buffers were ended)",
    FindingCode.UNKNOWN_CB_FREE: "circular buffers freed that were never seen allocated",
    FindingCode.UNKNOWN_UNLOAD: "kernels or programs unloaded that were never seen loaded",
    FindingCode.KERNEL_RESIZED: "kernel ids reused with another size while alive (the old kernels were ended)",
    FindingCode.TABLE_FULL: "reports for which the table of live entries had no room (they are in no sum)",
    FindingCode.STATUS_BACKWARDS: "programs whose binary status went backwards",
    FindingCode.CB_MAP_FULL: "circular-buffer maps beyond the limit (the demand counts, not the union)",
    FindingCode.DOUBLE_FREE: "buffers freed that were freed already, and not allocated since",
    FindingCode.DOUBLE_CB_FREE: "circular buffers freed that were freed already, and not allocated since",
    FindingCode.DOUBLE_UNLOAD: "kernels or programs unloaded that were unloaded already, and not loaded since",
    FindingCode.REJECTED: "reports with impossible values (they are in no sum)",
}


def finding_anomaly(row: FindingRow, who: str, pid: int) -> Anomaly:
    """One sort of trouble that one process made on one device."""
    finding = FindingCode(row.anomaly)
    times = "once" if row.times == 1 else f"{row.times:,} times"
    text = f"{who}: {_SENTENCES[finding]}: {times}, last id {row.last_id:#x}"
    return Anomaly(finding.name.lower(), text, pid, row.bytes or None)


def remark_anomaly(remark: Remark) -> Anomaly:
    """What the reader of a source found."""
    return Anomaly(remark.kind, remark.text, remark.pid, remark.bytes)


def cross_check_anomaly(check: CrossCheck, process: ProcessContext) -> Anomaly | None:
    """Counters miss a lot, and events may be ahead of them. More than the events have is odd."""
    # Without circular buffers: counters keep their highest value, or mean something else by them.
    amounts = check.difference._replace(cb=0).by_label()
    more = {kind: amount for kind, amount in amounts.items() if amount > 0}
    if not more:
        return None
    listed = ", ".join(f"{human(amount)} {kind}" for kind, amount in more.items())
    text = (
        f"{process.title}: {check.source} says {listed} more than its events, which count;"
        " it may hold buffers that are older than the server, or that its client does not report"
    )
    return Anomaly("cross_check", text, process.pid, sum(more.values()))


def over_capacity(
    what: str, used: int, capacity: int, culprit: tuple[str, int, int] | None, demand: int
) -> Anomaly:
    """Reports that add up to more than the hardware has. `demand`: bytes of CBs that were counted by demand."""
    text = (
        f"{what}: reports add up to {human(used)}, {human(used - capacity)} more than the"
        f" {human(capacity)} that can be allocated"
    )
    if culprit:
        text += f"; {culprit[0]} holds most of it, {human(culprit[2])}"
    if demand:
        text += (
            f"; {human(demand)} of it are circular buffers whose cores are unknown, so that all cached programs are"
            " added up although they share addresses"
        )
    return Anomaly("over_capacity", text, culprit[1] if culprit else None, used - capacity)


def peak_over_capacity(what: str, peak: int, capacity: int, largest: int = 0) -> Anomaly:
    """They did so once, or less can be allocated since: `largest` was in force before."""
    if peak <= largest:
        text = (
            f"{what}: the peak of {human(peak)} is of a time when {human(largest)} could be allocated;"
            f" who has the device open now set aside {human(capacity)}"
        )
    else:
        text = (
            f"{what}: the peak of {human(peak)} is {human(peak - capacity)} above the {human(capacity)} that can be"
            " allocated now"
        )
    return Anomaly("peak_over_capacity", text, bytes=peak - capacity)


_REASONS = {
    1: "its type is unknown",
    2: "its kind is unknown",
    3: "its size is 0",
    4: "its size is larger than 1 TiB",
    5: "its core set was never declared, or does not divide its size",
}


def rejection(reason: int, record: bytes, who: str) -> str:
    """The log line for an event that was not accounted."""
    event = Event.unpack(record)
    op = Op(event.op).name if event.op in set(Op) else f"type {event.op}"
    advice = ""
    if reason == 3 and event.op == Op.KERNEL_LOAD:
        advice = (
            " (the runtime reports the size in the config buffer; the size of the binary is wanted)"
        )
    elif reason == 2:
        known = KernelType if event.op == Op.KERNEL_LOAD else MemoryKind
        advice = f" ({event.kind}; known are {', '.join(f'{k.value} {k.name}' for k in known)})"
    return f"{op} on device {event.device} of {event.size} bytes rejected: {_REASONS[reason]}{advice}; from {who}"


KEPT_NS = 600 * 1_000_000_000
MOST_FAILED = 64  # processes and devices
MOST_OF_A_LOOK = 4096
MOST_COUNTED = 1024  # devices


@dataclass(slots=True)
class _Failed:
    """The failures of one process on one device; of the last one what was asked for."""

    process: ProcessRecord
    device: str
    seen_ns: int
    last: Event
    times: int = 1


class FailedAllocations:
    """What the watched processes could not get in the last ten minutes."""

    def __init__(self) -> None:
        self._failed: OrderedDict[tuple[int, str], _Failed] = OrderedDict()
        self._awaited: set[int] = set()
        self._counts: dict[str, int] = {}  # by device, since it was first watched

    def look(self, process: ProcessRecord, news: ProbeNews, now: int) -> None:
        """Failures are rare: events are searched only if a message came with them, or just before."""
        for unique_id in process.devices.values():
            if unique_id not in self._counts and len(self._counts) < MOST_COUNTED:
                self._counts[unique_id] = 0
        if news.messages or process.index in self._awaited:
            self._take(process, news.earlier + news.events, now)
        # The probe writes the message first, so that its event may come with the next look.
        self._awaited.discard(process.index)
        if news.messages and not news.ended:
            self._awaited.add(process.index)

    def _take(self, process: ProcessRecord, events: bytes, now: int) -> None:
        for event in _failures_in(events):
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
        """How many there were on a device; None if no process on it was watched."""
        return self._counts.get(unique_id)

    def forget_old(self, now: int) -> None:
        """Of what happened long ago nobody needs to hear."""
        while self._failed and now - next(iter(self._failed.values())).seen_ns > KEPT_NS:
            self._failed.popitem(last=False)

    def of(
        self, unique_id: str, device: DeviceDeclaration, l1_base: int | None = None
    ) -> Iterator[Anomaly]:
        """Those on one device; the memory that can be allocated in its cores begins at `l1_base`."""
        for one in self._failed.values():
            if one.device == unique_id:
                yield _anomaly(one, device, l1_base)


def _failures_in(events: bytes) -> list[Event]:
    """In their order; a runtime that fails takes 100 us, so that more than the last of them come from no runtime."""
    ops, found = events[::EVENT_SIZE], list[Event]()
    at = ops.rfind(Notice.ALLOCATION_FAILED)
    while at >= 0 and len(found) < MOST_OF_A_LOOK:
        found.append(Event.unpack(events, at * EVENT_SIZE))
        at = ops.rfind(Notice.ALLOCATION_FAILED, 0, at)
    return found[::-1]


def _anomaly(failed: _Failed, device: DeviceDeclaration, l1_base: int | None) -> Anomaly:
    """What was asked for stands first, since views cut lines at their end."""
    event, strings = failed.last, failed.process.strings
    times = "an allocation" if failed.times == 1 else f"{failed.times:,} allocations"
    last = "" if failed.times == 1 else "the last one "
    message = failed.process.messages.get(event.time, "")
    said = bank_figures(message)
    size = said.asked if said else event.size
    asked = _asked(event.kind, size, message, l1_base)
    origin = ", ".join(filter(None, (strings.get(event.name), strings.get(event.site))))
    where = f" for {origin}" if origin else ""
    why = _why(event, message, device)
    text = f"{times} FAILED: {last}{asked}{where}; {why}{failed.process.title}"
    time_ns = event.time if 0 < event.time < 1 << 63 else None  # beyond it: a clock before 1970
    return Anomaly("allocation_failed", text, failed.process.pid, size or None, time_ns)


def _why(event: Event, message: str, device: DeviceDeclaration) -> str:
    """What is known from the runtime's own figures, ending in '; '."""
    if clash(message):
        return "its circular buffers reach into L1 buffers; "
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


def _asked(kind_number: int, size: int, message: str, l1_base: int | None) -> str:
    """A program asks for no sum, but for the same addresses in each core; only the runtime's message has them."""
    known = kind_number in set(MemoryKind)
    kind = MemoryKind(kind_number).name if known else "unknown memory"
    if size:
        return f"{human(size)} of {kind}"
    end = end_in_each_core(message)
    if end is None or l1_base is None or end <= l1_base:
        return f"in {kind}"
    return f"{human(end - l1_base)} of {kind} on each core"


MOST = 64  # things that are told apart
LONGEST = 200  # letters of an error


class Faults:
    """Counts them by what was handled, and tells of each."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._times: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def note(self, what: str, problem: Exception) -> None:
        """`what` names the connection, region or device."""
        if what not in self._times and len(self._times) >= MOST:
            what = "others"
        self._times[what] += 1
        self._last[what] = f"{type(problem).__name__}: {problem}"[:LONGEST]
        self._say(f"fault/{what}", self._sentence(what))

    def anomalies(self) -> list[Anomaly]:
        """For every picture, because something is missing in it."""
        return [Anomaly("fault", self._sentence(what)) for what in self._times]

    def _sentence(self, what: str) -> str:
        times = self._times[what]
        often = "" if times == 1 else f", {times:,} times"
        return f"ttmem could not handle {what} and leaves it out ({self._last[what]}{often})"
