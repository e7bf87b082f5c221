"""Notes below a table: losses, anomalies, hints, and what a source misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ttmem.events import GHOSTS, Amounts
from ttmem.sizes import human, several
from ttmem.snapshots import Anomaly, Device, Snapshot
from ttmem.views.devices import cb_measure
from ttmem.views.ink import Line, Style, clip_line, indent, ink, paragraph
from ttmem.views.kernels import partial_sentence
from ttmem.views.names import DeviceNames, age, pids_text, used_devices
from ttmem.views.selection import DISAGREE, is_empty, is_quiet, is_recorded


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence after its sign."""

    sign: str
    style: Style
    text: str

    def lines(self, width: int) -> list[Line]:
        by = len(self.sign) + 2
        return indent(paragraph(self.text, width - by), by, ink(f" {self.sign}", self.style))

    def line(self, width: int) -> Line:
        """Cut to one line."""
        return clip_line((*ink(f" {self.sign} ", self.style), *ink(self.text)), width)


def note_lines(notes: Iterable[Note], width: int, whole: bool = True) -> list[Line]:
    """The notes, one under the other; unless `whole`, each cut to one line."""
    if not whole:
        return [note.line(width) for note in notes]
    return [line for note in notes for line in note.lines(width)]


def device_notes(
    sign: str, style: Style, found: Iterable[tuple[str, Device]], names: DeviceNames
) -> list[Note]:
    """One for each text, with the devices that it is about."""
    where: dict[str, list[str]] = {}
    for text, device in found:
        where.setdefault(text, []).append(device.unique_id)
    return [Note(sign, style, f"{names.sentence(ids)}: {text}") for text, ids in where.items()]


MANY_DISAGREE = (
    "the totals stored by the runtime differ from the sum of the live processes; the sum is used"
)
COUNTERS = "shared memory"
THREADS_SEEN = "shared memory v4"
BLIND = "dataflow buffers, kernel code"
SEE = "(docs/shared-memory.md)"
BY_COUNTERS = "requested bytes, from the counters of stock ttnn, which miss:"


def remark_notes(snapshot: Snapshot) -> list[Note]:
    """About the host: files that were skipped, processes that publish nothing."""
    return [Note("!", Style.WARN, remark.text) for remark in snapshot.remarks]


def instant_notes(snapshot: Snapshot) -> list[Note]:
    """If nothing is allocated at this time of a recording, as after its program has exited: which times show more."""
    held = (Amounts.total(process.devices.values()).all for process in snapshot.processes)
    if not is_recorded(snapshot) or any(held):
        return []
    devices = snapshot.devices
    refused = any(remark.kind == "instant" for remark in snapshot.remarks)  # there is no such peak
    peaks = {
        "peak:dram": not (devices or refused) or any(one.memory.dram.peak for one in devices),
        "peak:l1": not devices or any(one.memory.l1.peak for one in devices),
        "oom": any(one.failed_allocations for one in devices),
    }
    found = [f"--at {name}" for name, worthwhile in peaks.items() if worthwhile]
    text = f"nothing is allocated at this instant; try {' or '.join(found)}"
    return [Note("hint:", Style.GOOD, text)] if found else []


def quiet_notes(snapshot: Snapshot, names: DeviceNames) -> list[Note]:
    """About devices: oddities in a region that change no total."""
    left = {left.pid for left in snapshot.left_behind}
    found, disagreeing = [], []
    for device in snapshot.devices:
        for anomaly in device.anomalies:
            if anomaly.kind in DISAGREE:
                disagreeing.append((anomaly.text, device))
            elif is_quiet(anomaly) and not (anomaly.kind in GHOSTS and anomaly.pid in left):
                found.append((anomaly.text, device))
    if len({device.unique_id for _, device in disagreeing}) > 1:
        apart = {device.unique_id: device for _, device in disagreeing}
        disagreeing = [(MANY_DISAGREE, device) for device in apart.values()]
    return device_notes("-", Style.FAINT, [*found, *disagreeing], names)


def _watched(snapshot: Snapshot) -> list[Device]:
    """Without unused ones among others that are in use: what is unknown about them matters to nobody."""
    used = used_devices(snapshot)
    return [
        one for one in snapshot.devices if not used or one.unique_id in used or not is_empty(one)
    ]


def blind_notes(snapshot: Snapshot, names: DeviceNames) -> list[Note]:
    """What the counters of the stock runtime miss; provenance has it in full."""
    found = []
    for device in _watched(snapshot):
        dram = device.provenance.get("dram")
        if dram is not None and COUNTERS in dram.source:
            blind = BLIND if device.kernels.counted is None else BLIND.partition(",")[0]
            if THREADS_SEEN not in dram.source:
                blind = f"buffers of other threads, {blind}"
            found.append((f"{BY_COUNTERS} {blind} {SEE}", device))
    return device_notes("-", Style.FAINT, found, names)


PAGE = "docs/circular-buffers.md"
SMALLEST = 1 << 20  # bytes; below that there is nothing to gain
SHARE = 4  # a quarter of the capacity; a device that is nearly empty needs no advice


def hint_notes(snapshot: Snapshot, earlier: Snapshot | None = None) -> list[Note]:
    """Advice; none if circular buffers are neither most of L1 nor growing."""
    names = DeviceNames.of(snapshot)
    growth = {d.unique_id: _growth(d, earlier) for d in snapshot.devices}
    growing = [unique_id for unique_id, more in growth.items() if more > 0]
    large = [device for device in snapshot.devices if _is_large(device)]
    shared = [device for device in snapshot.devices if _shares_beyond_capacity(device)]
    out = []
    if growing:
        more = human(sum(growth[unique_id] for unique_id in growing))
        since = age(snapshot.time_ns - earlier.time_ns) if earlier else ""
        out.append(
            f"circular buffers grew by {more} in {since} on {names.sentence(growing)}: programs for"
            f" new shapes are being cached; it stops once all shapes are known ({PAGE})"
        )
    if large:
        amount = human(sum(device.memory.cb.used for device in large))
        where = names.sentence(device.unique_id for device in large)
        flat = earlier is not None and not growing
        by_demand = any(cb_measure(device.memory.cb) != "cached" for device in large)
        out.append(
            f"circular buffers of cached programs hold {amount} of L1 on {where}"
            f"{' and stay flat: all shapes are cached' if flat else ''}"
            f"{' (a plain sum: shared addresses are counted more than once)' if by_demand else ''}"
            f"; fewer distinct shapes, or clearing the program cache, frees them ({PAGE})"
        )
    if shared:
        demand = human(sum(device.memory.cb.demand or 0 for device in shared))
        cached = human(sum(device.memory.cb.cached or 0 for device in shared))
        where = names.sentence(device.unique_id for device in shared)
        out.append(
            f"the circular buffers of all cached programs on {where} add up to {demand}, more than L1 has;"
            f" they share addresses and occupy {cached} ({PAGE})"
        )
    return [Note("hint:", Style.GOOD, sentence) for sentence in out]


def _growth(device: Device, earlier: Snapshot | None) -> int:
    before = earlier.device(device.unique_id) if earlier else None
    if before is None or not _matters(device):
        return 0
    now, then = device.memory.cb, before.memory.cb
    if now.demand is None or then.demand is None:
        return now.used - then.used
    return now.demand - then.demand


def _is_large(device: Device) -> bool:
    used = device.memory.cb.used
    return used >= SMALLEST and 2 * used > device.l1_used and _matters(device)


def _matters(device: Device) -> bool:
    """An unknown capacity may be a small one."""
    capacity = _capacity(device)
    return capacity is None or SHARE * device.memory.cb.used >= capacity


def _shares_beyond_capacity(device: Device) -> bool:
    """Explains a plain sum that exceeds L1, since other tools show it."""
    cb = device.memory.cb
    if cb.cached is None or cb.demand is None:
        return False
    return cb.demand > max(cb.cached, _capacity(device) or cb.demand)


def _capacity(device: Device) -> int | None:
    """For advice, the default capacity is good enough."""
    return device.l1_capacity if device.l1_capacity is not None else device.l1_capacity_default


WORST = ("over_capacity", "allocation_failed")  # impossible sums, then what broke an application
PROBE = "probe"  # what is beyond its table is in all sums, and said by an anomaly


def anomaly_notes(snapshot: Snapshot, names: DeviceNames) -> list[Note]:
    """One for each anomaly, with the devices it is on; the worst first."""
    found = [
        (anomaly, device)
        for device in snapshot.devices
        for anomaly in device.anomalies
        if not is_quiet(anomaly)
    ]
    texts = []
    for anomaly, device in sorted(found, key=lambda pair: _rank(pair[0])):
        ago = "" if anomaly.time_ns is None else f", {age(snapshot.time_ns - anomaly.time_ns)} ago"
        texts.append((anomaly.text + ago, device))
    return device_notes("!", Style.ALARM, texts, names)


def _rank(anomaly: Anomaly) -> int:
    return WORST.index(anomaly.kind) if anomaly.kind in WORST else len(WORST)


def late_notes(snapshot: Snapshot) -> list[Note]:
    """Of which processes the beginning is unknown. Nothing is lost: everything that was alive then is counted."""
    late = [process.pid for process in snapshot.processes if process.earlier_unknown]
    if not late:
        return []
    text = (
        f"what {pids_text(late)} did before ttmem began to read is unknown: totals are right, but how often some"
        " programs ran and the peak of L1 used may be N/A"
    )
    return [Note("-", Style.FAINT, text)]


def loss_notes(snapshot: Snapshot, chosen: bool = False) -> list[Note]:
    """What was lost; `chosen`: only by the processes shown."""
    watched = [p for p in snapshot.processes if PROBE in p.sources]
    clients = [p for p in snapshot.processes if PROBE not in p.sources]
    overwritten = {p.pid: p.dropped_events for p in watched if p.dropped_events}
    dropped = {p.pid: p.dropped_events for p in clients if p.dropped_events}
    beyond = {p.pid: p.overflow for p in clients if p.overflow}
    overflow = sum(beyond.values())
    if chosen:
        unseen, rejected = sum(dropped.values()), 0
    else:
        # The server's own count has all three, and those of processes that are dead by now.
        known = overflow + sum(overwritten.values())
        unseen = max(snapshot.losses.dropped_events - known, 0)
        rejected = snapshot.losses.rejected_records
    events = ("event was", "events were")
    losses = (
        (
            sum(overwritten.values()),
            events,
            f"overwritten before being read{_pids(overwritten)}; totals are right, but dispatch counts and the peak of"
            " L1 used may be N/A (`ttmem run --events` keeps more)",
        ),
        (
            unseen,
            events,
            f"dropped{_pids(dropped)}; a resend corrects the totals, but peaks in between may be missing",
        ),
        (
            overflow,
            ("live buffer is", "live buffers are"),
            f"beyond what a client can resend{_pids(beyond)}; the next resend drops them from the totals",
        ),
    )
    out = [f"lost: {several(count, *what)} {how}" for count, what, how in losses if count]
    if rejected:
        records = several(rejected, "record was", "records were")
        out.append(f"{records} rejected and not counted (the server's log says why)")
    return [Note("!", Style.WARN, sentence) for sentence in out]


def unlisted_notes(counts: Mapping[int, int]) -> list[Note]:
    """Buffers that ended processes never freed and no list contains, by pid."""
    if not counts:
        return []
    buffers = several(sum(counts.values()), "more buffer was", "more buffers were")
    text = (
        f"{buffers} never freed{_pids(counts)}, but did not fit into the probe's table"
        " (`ttmem run --live` enlarges it)"
    )
    return [Note("!", Style.WARN, text)]


def _pids(counts: Mapping[int, int]) -> str:
    """' (pid 41235)': those with most of it, and how many others."""
    pids = sorted(counts, key=lambda pid: (-counts[pid], pid))
    return f" ({pids_text(pids)})" if pids else ""


def missing_notes(snapshot: Snapshot, names: DeviceNames) -> list[Note]:
    """Why capacities are N/A."""
    why: dict[tuple[str, str], list[str]] = {}
    for device in _watched(snapshot):
        capacities = {"DRAM": device.memory.dram.capacity, "L1": device.l1_capacity}
        missing = [name for name, capacity in capacities.items() if capacity is None]
        if missing:
            what = "capacity" if len(missing) > 1 else f"{missing[0]} capacity"
            origin = device.provenance.get("capacity")
            reason = (origin and origin.misses) or "its source does not report it"
            why.setdefault((what, reason), []).append(device.unique_id)
    return [
        Note("-", Style.FAINT, f"{what} N/A on {names.sentence(devices)}: {reason}")
        for (what, reason), devices in why.items()
    ]


def partial_notes(snapshot: Snapshot, names: DeviceNames) -> list[Note]:
    """What the kernel figures miss on devices that are only partly watched."""
    found = ((partial_sentence(device), device) for device in snapshot.devices)
    said = [(sentence, device) for sentence, device in found if sentence]
    return device_notes("-", Style.FAINT, said, names)


def dead_notes(snapshot: Snapshot) -> list[Note]:
    """One line instead of the table of what dead processes left behind."""
    if not snapshot.left_behind:
        return []
    who = several(len(snapshot.left_behind), "dead process", "dead processes")
    return [Note("-", Style.FAINT, f"{who} left memory behind")]
