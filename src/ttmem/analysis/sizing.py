"""Sizes to choose, from what a run needed: the regions of `open_device`, and the tokens that fit into a KV cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.analysis.composition import Holder, composition
from ttmem.analysis.failures import explain
from ttmem.analysis.history import L1_USED, History, PeakInstant
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.events import Event, MemoryKind, Notice
from ttmem.snapshots import Device, Snapshot

TRACE_PAGE = 8192  # of each bank
L1_ALIGNMENT = 64  # of DRAM on Blackhole; on Wormhole it is 32
SEEN_ONLY = "other batch sizes, sequence lengths and inputs than those of this run"
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


def sizes(history: History, margin: float = 0.25, kv: KvCache | None = None) -> Sizes:
    """`margin` is added to what was observed. Loss if the recording is incomplete."""
    history.need_everything("advice")
    device = _busiest(history)
    small = _l1_small(history, device, margin)
    found = (
        small,
        _trace(history, device, margin),
        _worker_l1(history, device, margin, small),
        _tokens(history, device, margin, kv or KvCache()),
    )
    board = device.board
    return Sizes(board, SKUS.get(board or "", board), found)


def _busiest(history: History) -> Device:
    """The device with the highest peak of all kinds: sizes are the same for every device of a mesh."""
    sums: dict[str, int] = {}
    for peak in history.peaks:
        sums[peak.device] = sums.get(peak.device, 0) + peak.bytes
    return history.devices[max(sums, key=lambda unique_id: (sums[unique_id], unique_id))]


def _peak(history: History, device: Device, memory: str) -> PeakInstant | None:
    found = (
        peak for peak in history.peaks if (peak.device, peak.memory) == (device.unique_id, memory)
    )
    return next(found, None)


def _up(value: float, step: int) -> int:
    return -(-int(-(-value // 1)) // step) * step


def _refused(history: History, device: Device, kind: MemoryKind) -> Iterator[int]:
    """Bytes that a region would have needed, in all banks: what it held, plus what was refused."""
    for marker in history.markers:
        if marker.kind == "failure" and marker.device in (None, device.unique_id):
            for batch in history.recording.batches(marker.position, marker.position + 1):
                event = Event.unpack(batch.events)
                if event.op == Notice.ALLOCATION_FAILED and event.kind == kind:
                    now = history.at(marker.position).device(device.unique_id)
                    held = getattr(now.memory, kind.name.lower()).held if now else 0
                    yield held + event.size


def _l1_small(history: History, device: Device, margin: float) -> Advice:
    unit = "bytes per core"
    number, size, _ = history.recording.banks(device.unique_id, MemoryKind.L1_SMALL)
    if not number:
        return _unknown("l1_small_size", unit, "the banks of the device are not recorded")
    refused = [need // number for need in _refused(history, device, MemoryKind.L1_SMALL)]
    peak = _peak(history, device, "l1_small")
    observed = max([-(-peak.bytes // number) if peak else 0, *refused])
    advised = _up(observed * (1 + margin), L1_ALIGNMENT)
    return Advice("l1_small_size", unit, size, observed, bool(refused), advised, SEEN_ONLY)


def _trace(history: History, device: Device, margin: float) -> Advice:
    unit = "bytes in all banks together"
    number, size, _ = history.recording.banks(device.unique_id, MemoryKind.TRACE)
    if not number:
        return _unknown("trace_region_size", unit, "the banks of the device are not recorded")
    refused = list(_refused(history, device, MemoryKind.TRACE))
    peak = _peak(history, device, "trace")
    observed = max([peak.bytes if peak else 0, *refused])
    advised = _up(observed * (1 + margin), TRACE_PAGE * number)
    missing = SEEN_ONLY if observed else "a trace: none was captured in this run"
    configured = None if size is None else size * number
    name = "trace_region_size"
    return Advice(name, unit, configured, observed, bool(refused), advised, missing)


def _worker_l1(history: History, device: Device, margin: float, small: Advice) -> Advice:
    """The runtime takes l1_small_size out of it: the larger of what is configured and what is advised."""
    reserved = small.configured or 0
    name, unit = "worker_l1_size", f"bytes per core, with l1_small_size={reserved} in it"
    number, size, _ = history.recording.banks(device.unique_id, MemoryKind.L1)
    peak = _peak(history, device, L1_USED)
    if not number or size is None:
        return _unknown(name, unit, "the banks of the device are not recorded")
    if peak is None:
        return _unknown(name, unit, "no L1 was used")
    then = history.at(peak.position, "cores")
    now = then.device(device.unique_id)
    sets = (then.cores or {}).get(device.unique_id, ())
    if now is None or (now.memory.cb.used and not sets):
        return _unknown(name, unit, "which cores circular buffers lie on is not recorded")
    highest = max((core_set.cached for core_set in sets), default=0)
    running = highest if now.memory.cb.resident is None else _fullest_core(then, device)
    buffers = -(-now.memory.l1.held // number)
    available = size + reserved
    short = _short_of_l1(history, device)
    observed = max(running + buffers + reserved, available + short if short else 0)
    if observed > available:
        reason = (
            f"at the peak, buffers take {buffers} and circular buffers {running} of the {size} of each core, and what"
            f" was refused needs {short} more; hold less in L1 (`ttmem peak` says what), unless worker_l1_size was set"
            " below its default"
        )
        return Advice(name, unit, available, observed, bool(short), None, SEEN_ONLY, reason)
    missing = f"{SEEN_ONLY}; instants other than the peak of L1 used"
    room = max(reserved, small.advised or 0)
    advised = min(_up((highest + buffers) * (1 + margin) + room, L1_ALIGNMENT), available)
    return Advice(name, unit, available, observed, False, advised, missing)


def _fullest_core(then: Snapshot, device: Device) -> int:
    """Bytes of circular buffers on the core that has most, of the program that ran last there."""
    held: Counter[tuple[int, int]] = Counter()
    for buffer in (then.resident or {}).get(device.unique_id, ()):
        for core in buffer.cores:
            held[core] += buffer.end - buffer.start
    return max(held.values(), default=0)


def _short_of_l1(history: History, device: Device) -> int:
    """By how much each core was too small for the largest request that was refused; 0: none was."""
    refused = (
        explain(failure).short_by or 0
        for failure in recorded_failures(history.recording)
        if (failure.what != "buffer" or failure.kind == MemoryKind.L1)
        and failure.device is not None
        and failure.device.unique_id == device.unique_id
    )
    return max(refused, default=0)


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
