"""Sizes to choose, from what a run needed: the regions of `open_device`, and the tokens that fit into a KV cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.analysis.composition import Holder, composition
from ttmem.analysis.failures import Explanation, explain
from ttmem.analysis.history import L1_USED, History, Loss, PeakInstant
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.events import EVENT_SIZE, Event, MemoryKind, Op
from ttmem.events.runtime_messages import Verdict
from ttmem.snapshots import Device, Snapshot

TRACE_PAGE = 8192  # of each bank
RUN_AHEAD = (
    10_000  # records from the allocation of circular buffers to the dispatch of their program
)
L1_ALIGNMENT = 64  # of DRAM on Blackhole; on Wormhole it is 32
SEEN_ONLY = "other batch sizes, sequence lengths and inputs than those of this run"
HOLD_LESS = (
    "hold less in L1 (`ttmem peak` says what), unless worker_l1_size was set below its default"
)
SKUS = {
    "n150": "wh_n150",
    "n300": "wh_n300",
    "t3k": "wh_llmbox_perf",
    "galaxy": "wh_galaxy_perf",
    "p150": "bh_p150",
    "p300": "bh_p300",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One setting. None: unknown; `reason` says why."""

    name: str
    unit: str
    configured: int | None
    observed: int | None
    at_least: bool  # an allocation was refused: more than `observed` may be needed
    advised: int | None
    not_observed: str
    reason: str | None = None

    @property
    def over(self) -> float | None:
        """How much more than configured was needed: 0.006 is 0.6 %."""
        if not self.configured or self.observed is None or self.observed <= self.configured:
            return None
        return self.observed / self.configured - 1


@dataclass(frozen=True, slots=True)
class KvCache:
    """The caller's description of the KV cache."""

    site: str | None = None  # part of a call site, op or label
    bytes_per_token: int | None = None
    phase: str | None = None  # in which it was allocated

    @property
    def is_named(self) -> bool:
        return self.site is not None or self.phase is not None

    def includes(self, holder: Holder) -> bool:
        if self.phase is not None and holder.phase != self.phase:
            return False
        return self.site is None or self.site in f"{holder.op or ''} {holder.site or ''}"


@dataclass(frozen=True, slots=True)
class Sizes:
    board: str | None
    sku: str | None
    advice: tuple[Advice, ...]
    set_aside: tuple[str, ...] = ()  # processes whose devices are not considered, as sentences


def sizes(history: History, margin: float = 0.25, kv: KvCache | None = None) -> Sizes:
    """`margin` is added to what was observed. Loss if the recording is incomplete."""
    failed = [explain(failure) for failure in recorded_failures(history.recording)]
    part = history
    if history.losses or not failed:
        part = history.complete_part("advice")
    device = _busiest(part, failed)
    small = _l1_small(history, device, margin, failed)
    found = (
        small,
        _trace(history, device, margin, failed),
        _worker_l1(history, device, margin, small, failed),
        _tokens(history, device, margin, kv or KvCache()),
    )
    board = device.board
    return Sizes(board, SKUS.get(board or "", board), found, part.set_aside)


def _busiest(history: History, failed: Iterable[Explanation]) -> Device:
    """The device with the highest peak of all kinds: sizes are the same for every device of a mesh."""
    if not history.peaks:  # the first allocation failed
        return next(one for one in history.devices.values() if any(_is_on(f, one) for f in failed))
    unknown = {device for process in history.left_out for device in process.devices.values()}
    sums: dict[str, int] = {}
    for peak in history.peaks:
        if peak.device in history.devices and peak.device not in unknown:
            sums[peak.device] = sums.get(peak.device, 0) + peak.bytes
    if not sums:
        raise Loss(
            f"every device in {history.name} was used by a process whose events are not complete, so ttmem gives no"
            f" advice: {'; '.join(history.set_aside)}"
        )
    return history.devices[max(sums, key=lambda unique_id: (sums[unique_id], unique_id))]


def _peak(history: History, device: Device, memory: str) -> PeakInstant | None:
    found = (
        peak for peak in history.peaks if (peak.device, peak.memory) == (device.unique_id, memory)
    )
    return next(found, None)


def _up(value: float, step: int) -> int:
    return -(-int(-(-value // 1)) // step) * step


def _refused(refused: Iterable[Explanation], device: Device, kind: MemoryKind) -> list[Explanation]:
    """The buffers that did not fit into a region whose size users choose."""
    return [
        one
        for one in refused
        if one.failure.what == "buffer" and one.failure.kind == kind and _is_on(one, device)
    ]


def _is_on(one: Explanation, device: Device) -> bool:
    found = one.failure.device
    return found is not None and found.unique_id == device.unique_id


def _region(
    history: History, device: Device, kind: MemoryKind, failed: Iterable[Explanation]
) -> tuple[int, int | None, int, bool] | None:
    """Banks, and in each of them the size, what was needed, and whether that is a lower bound; None: unknown."""
    number, size, _ = history.recording.banks(device.unique_id, kind)
    if not number:
        return None
    refused = _refused(failed, device, kind)
    peak = _peak(history, device, kind.name.lower())
    needed = max(
        [-(-peak.bytes // number) if peak else 0, *(one.region_size or 0 for one in refused)]
    )
    return number, size, needed, bool(refused)


def _l1_small(
    history: History, device: Device, margin: float, failed: Iterable[Explanation]
) -> Advice:
    unit = "bytes per core"
    region = _region(history, device, MemoryKind.L1_SMALL, failed)
    if region is None:
        return _unknown("l1_small_size", unit, "the banks of the device are not recorded")
    _, size, observed, at_least = region
    advised = _up(observed * (1 + margin), L1_ALIGNMENT)
    return Advice("l1_small_size", unit, size, observed, at_least, advised, SEEN_ONLY)


def _trace(
    history: History, device: Device, margin: float, failed: Iterable[Explanation]
) -> Advice:
    name, unit = "trace_region_size", "bytes in all banks together"
    region = _region(history, device, MemoryKind.TRACE, failed)
    if region is None:
        return _unknown(name, unit, "the banks of the device are not recorded")
    number, size, needed, at_least = region
    peak = _peak(history, device, "trace")
    asked = peak.bytes if peak else 0  # banks may be rounded up
    observed = asked if needed * number < asked + number else needed * number
    advised = _up(observed * (1 + margin), TRACE_PAGE * number)
    missing = SEEN_ONLY if observed else "a trace: none was captured in this run"
    configured = None if size is None else size * number
    return Advice(name, unit, configured, observed, at_least, advised, missing)


def _worker_l1(
    history: History, device: Device, margin: float, small: Advice, failed: Iterable[Explanation]
) -> Advice:
    """The runtime takes l1_small_size out of it: the larger of what is configured and what is advised."""
    reserved = small.configured or 0
    name, unit = "worker_l1_size", f"bytes per core, with l1_small_size={reserved} in it"
    number, size, _ = history.recording.banks(device.unique_id, MemoryKind.L1)
    peak = _peak(history, device, L1_USED)
    if not number or size is None:
        return _unknown(name, unit, "the banks of the device are not recorded")
    if peak is None:
        return _unknown(name, unit, "no L1 was used")
    then = _l1_of_a_core(history, peak.position, device, number)
    # The peak may be reached by the circular buffers of a program that has not run yet.
    run = _next_run(history, peak.position, device)
    at_run = then if run is None else _l1_of_a_core(history, run, device, number)
    if then is None or at_run is None:
        return _unknown(name, unit, "which cores circular buffers lie on is not recorded")
    buffers, running, highest = max(then, at_run, key=lambda one: one.buffers + one.running)
    available = size + reserved
    peak_needs = running + buffers + reserved
    if worst := _worst_in_l1(failed, device):
        short = 0 if worst.verdict is Verdict.FRAGMENTED else worst.short_by or 0
        observed = max(peak_needs, available + short if short else 0)
        reason = f"{_why_refused(worst)}; {HOLD_LESS}"
        return Advice(name, unit, available, observed, True, None, SEEN_ONLY, reason)
    observed = peak_needs
    if observed > available:
        reason = (
            f"at the peak, buffers take {buffers} and circular buffers {running} of the {size} of each core;"
            f" {HOLD_LESS}"
        )
        return Advice(name, unit, available, observed, False, None, SEEN_ONLY, reason)
    missing = f"{SEEN_ONLY}; instants other than the peak of L1 used"
    room = max(reserved, small.advised or 0)
    advised = min(_up((highest + buffers) * (1 + margin) + room, L1_ALIGNMENT), available)
    return Advice(name, unit, available, observed, False, advised, missing)


class _CoreL1(NamedTuple):
    """Bytes of L1 on a core at an instant."""

    buffers: int
    running: int  # circular buffers of the program that ran last there, on the core that has most
    cached: int  # those of all cached programs, likewise


def _l1_of_a_core(history: History, position: int, device: Device, banks: int) -> _CoreL1 | None:
    """None: which cores circular buffers lie on is unknown."""
    then = history.at(position, "cores")
    now = then.device(device.unique_id)
    sets = (then.cores or {}).get(device.unique_id, ())
    if now is None or (now.memory.cb.used and not sets):
        return None
    cached = max((core_set.cached for core_set in sets), default=0)
    running = cached if now.memory.cb.resident is None else _fullest_core(then, device)
    return _CoreL1(-(-now.memory.l1.held // banks), running, cached)


def _next_run(history: History, position: int, device: Device) -> int | None:
    """The position after the next dispatch of a program on the device; None if none is near."""
    for batch in history.recording.batches(position, position + RUN_AHEAD):
        for at in range(0, len(batch.events), EVENT_SIZE):
            event = Event.unpack(batch.events, at)
            on = batch.process.devices.get(event.device)
            if event.op == Op.PROGRAM_DISPATCH and on == device.unique_id:
                return batch.position + at // EVENT_SIZE + 1
    return None


def _fullest_core(then: Snapshot, device: Device) -> int:
    """Bytes of circular buffers on the core that has most, of the program that ran last there."""
    held: Counter[tuple[int, int]] = Counter()
    for buffer in (then.resident or {}).get(device.unique_id, ()):
        for core in buffer.cores:
            held[core] += buffer.end - buffer.start
    return max(held.values(), default=0)


def _worst_in_l1(failed: Iterable[Explanation], device: Device) -> Explanation | None:
    """The refused request that each core was most too small for; None: there was none."""
    refused = [
        one
        for one in failed
        if (one.failure.what != "buffer" or one.failure.kind == MemoryKind.L1)
        and _is_on(one, device)
        and one.verdict is not Verdict.UNKNOWN
    ]
    return max(refused, key=lambda one: one.short_by or 0, default=None)


def _why_refused(one: Explanation) -> str:
    """Of one bank, which is the L1 of one core."""
    if one.failure.what != "buffer":
        return f"{one.failure.what} were refused that lacked {one.short_by} on each core"
    held = "N/A" if one.size is None or one.free is None else one.size - one.free
    refused = (
        f"a buffer of {one.needed} on each core was refused while {held} of {one.size} were held"
    )
    if one.verdict is Verdict.FRAGMENTED:
        return (
            f"{refused}: L1 was fragmented, its largest free block was {one.largest}, and a larger worker_l1_size is no"
            " remedy for that"
        )
    return f"{refused}: {one.short_by} were missing"


def _tokens(history: History, device: Device, margin: float, kv: KvCache) -> Advice:
    """So many that the cache could be larger by the margin, beside everything else."""
    name, unit = "KV-cache tokens that fit", "tokens of all users together"
    if kv.bytes_per_token is None and not kv.is_named:
        reason = "give --kv-bytes-per-token, and --kv-site or --kv-phase if the run has a KV cache already"
        return _unknown(name, unit, reason)
    peak, capacity = _peak(history, device, "dram"), device.memory.dram.capacity
    if peak is None or capacity is None:
        return _unknown(name, unit, "the capacity of DRAM is not recorded, or none was used")
    holders = composition(history, peak).holders
    cached = [holder for holder in holders if kv.is_named and kv.includes(holder)]
    if kv.is_named and not cached:
        what = " in phase ".join(repr(part) for part in (kv.site, kv.phase) if part is not None)
        return _unknown(name, unit, f"nothing of {what} was alive at the peak of DRAM")
    phases = sorted({holder.phase or "no phase" for holder in cached})
    if len(phases) > 1:
        reason = (
            f"what --kv-site names was allocated in several phases: {', '.join(phases)}; say with"
            " --kv-phase in which of them the cache was allocated"
        )
        return _unknown(name, unit, reason)
    held = sum(holder.bytes for holder in cached)
    if kv.bytes_per_token is None:
        reason = (
            f"the cache holds {held} B at the peak; --kv-bytes-per-token converts that to tokens"
        )
        return _unknown(name, unit, reason)
    others = peak.bytes - held
    return Advice(
        name,
        unit,
        None,
        held // kv.bytes_per_token if kv.is_named else None,
        False,
        int(max(0, capacity - others) / (1 + margin) // kv.bytes_per_token),
        f"{SEEN_ONLY}: activations of longer prompts need space, too",
    )


def _unknown(name: str, unit: str, reason: str) -> Advice:
    return Advice(name, unit, None, None, False, None, SEEN_ONLY, reason)
