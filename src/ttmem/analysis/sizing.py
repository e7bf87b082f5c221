"""Sizes to choose, from what a run needed: regions of `open_device`, and the tokens that a KV cache can have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.analysis.composition import composition
from ttmem.analysis.history import L1_USED, History, PeakInstant
from ttmem.events import Event, MemoryKind, Notice
from ttmem.snapshots import Device

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
    at_least: bool  # something was refused: more than `observed` may be needed
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
    """What the caller says about the KV cache."""

    site: str | None = None  # part of a call site, op or label
    bytes_per_token: int | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    board: str | None
    sku: str | None
    advice: tuple[Advice, ...]


def sizes(history: History, margin: float = 0.25, kv: KvCache | None = None) -> Sizes:
    """`margin`: advised above what was observed. Loss if the recording is not complete."""
    history.need_everything("advice")
    device = _busiest(history)
    found = (
        _l1_small(history, device, margin),
        _trace(history, device, margin),
        _worker_l1(history, device, margin),
        _tokens(history, device, kv or KvCache()),
    )
    board = device.board
    return Sizes(board, SKUS.get(board or "", board), found)


def _busiest(history: History) -> Device:
    """The device with the highest peak of all kinds: sizes are the same for every device of a mesh."""
    sums: dict[str, int] = {}
    for peak in history.peaks:
        sums[peak.device] = sums.get(peak.device, 0) + peak.bytes
    return history.devices[max(sums, key=lambda one: (sums[one], one))]


def _peak(history: History, device: Device, memory: str) -> PeakInstant | None:
    found = (one for one in history.peaks if (one.device, one.memory) == (device.unique_id, memory))
    return next(found, None)


def _up(value: float, step: int) -> int:
    return -(-int(-(-value // 1)) // step) * step


def _refused(history: History, device: Device, kind: MemoryKind) -> Iterator[int]:
    """Bytes that a region would have had to hold, in all banks: what it held, plus what was refused."""
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


def _worker_l1(history: History, device: Device, margin: float) -> Advice:
    name, unit = "worker_l1_size", "bytes per core"
    number, size, _ = history.recording.banks(device.unique_id, MemoryKind.L1)
    small = history.recording.banks(device.unique_id, MemoryKind.L1_SMALL).size or 0
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
    highest = max((one.cached for one in sets), default=0)
    buffers = -(-(now.memory.l1.held + now.memory.l1_small.held) // number)
    observed = highest + buffers
    advised = min(_up(observed * (1 + margin), L1_ALIGNMENT), size + small)
    missing = f"{SEEN_ONLY}; instants other than the peak of L1 used"
    return Advice(name, unit, size + small, observed, False, advised, missing)


def _tokens(history: History, device: Device, kv: KvCache) -> Advice:
    name, unit = "KV-cache tokens that fit", "tokens of all users together"
    if kv.bytes_per_token is None and kv.site is None:
        return _unknown(
            name, unit, "give --kv-bytes-per-token, and --kv-site if the run has a KV cache already"
        )
    peak, capacity = _peak(history, device, "dram"), device.memory.dram.capacity
    if peak is None or capacity is None:
        return _unknown(name, unit, "the capacity of DRAM is not recorded, or none was used")
    holders = composition(history, peak).holders
    cached = [one for one in holders if kv.site and kv.site in f"{one.op or ''} {one.site or ''}"]
    if kv.site and not cached:
        return _unknown(name, unit, f"nothing that {kv.site!r} made was alive at the peak of DRAM")
    held = sum(one.bytes for one in cached)
    if kv.bytes_per_token is None:
        reason = f"the cache holds {held} B at the peak; --kv-bytes-per-token makes tokens of it"
        return _unknown(name, unit, reason)
    others = peak.bytes - held
    return Advice(
        name,
        unit,
        None,
        held // kv.bytes_per_token if kv.site else None,
        False,
        max(0, capacity - others) // kv.bytes_per_token,
        f"{SEEN_ONLY}: activations of longer prompts need room, too",
    )


def _unknown(name: str, unit: str, reason: str) -> Advice:
    return Advice(name, unit, None, None, False, None, SEEN_ONLY, reason)
