"""Snapshots made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ttmem.events import Amounts, CardSample, Telemetry, TelemetryLimits
from ttmem.events.samples import VALUES
from ttmem.ledger.anomalies import over_capacity
from ttmem.snapshots import (
    Anomaly,
    CircularBuffers,
    Device,
    Footprint,
    Kernel,
    Kernels,
    LeftBehind,
    Losses,
    Memory,
    MemoryUse,
    Process,
    Provenance,
    Ring,
    Snapshot,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
NOW = 1_787_407_391_000_000_000  # 2026-08-22 14:03:11 UTC
HOST = {"name": "tt-box-7", "ttmem": "0.1.0", "server": {"pid": 4100}}
NO_LOSSES = Losses(0, 0, 0)

N300_DRAM = 12 * (GIB - 1_048_640)
N300_L1 = 64 * 1_393_312
N300_L1_TOTAL = 64 * 1464 * KIB
N300_RING = 64 * 70_656
WRONG_L1 = 120 * 1_499_136  # 171.6 MiB, as the original system assumed


def use(held: int, capacity: int | None = None, *, requested: int | None = None) -> MemoryUse:
    asked = held if requested is None else requested
    free = None if capacity is None or held > capacity else capacity - held
    return MemoryUse(capacity, asked, held, held, free, None, 1 if held else 0, held, NOW)


def circular(cached: int | None, demand: int | None = None) -> CircularBuffers:
    wanted = (cached or 0) if demand is None else demand
    used = wanted if cached is None else cached
    return CircularBuffers(None, cached, wanted, None, used, 1 if wanted else 0)


def kernels(
    application: int = 0,
    fabric: int = 0,
    dispatch: int = 0,
    *,
    ring: tuple[int | None, int | None] = (None, None),
    dram_binaries: int | None = None,
    loads: int = 0,
    dispatches: int = 0,
    cache: tuple[int, int, int] | None = None,
    distinct: int | None = None,
) -> Kernels:
    entries, hits, misses = cache or (None, None, None)
    return Kernels(
        dram_binaries=dram_binaries,
        distinct_binaries=distinct,
        distinct_binary_bytes=None,
        count=loads,
        footprint=Footprint(application, fabric, dispatch),
        ring=Ring(ring[1], ring[0], None, None, None),
        loads=loads,
        unloads=0,
        dispatches=dispatches,
        cache_entries=entries,
        cache_hits=hits,
        cache_misses=misses,
    )


NO_KERNELS = kernels()
NOT_ALL = Provenance("probe", "binary x cores", "kernels of processes that counters tell of")


def watched_in_part() -> Snapshot:
    """One of two processes on a device is under the probe."""
    code = replace(kernels(53 * MIB, loads=212, dispatches=48_120), partial=True)
    return with_owner(device(0, code=code, provenance={"kernels": NOT_ALL}))


def device(
    number: int | None,
    *,
    unique_id: str | None = None,
    board: str | None = "n300",
    arch: str | None = "wormhole",
    pci: str | None = None,
    dram: MemoryUse | None = None,
    l1: int = 0,
    l1_small: int = 0,
    trace: MemoryUse | None = None,
    cb: CircularBuffers | None = None,
    l1_capacity: int | None = N300_L1,
    code: Kernels = NO_KERNELS,
    provenance: Mapping[str, Provenance] | None = None,
    anomalies: tuple[Anomaly, ...] = (),
) -> Device:
    memory = Memory(
        dram=dram or use(0, N300_DRAM),
        l1=use(l1),
        l1_small=use(l1_small),
        trace=trace or use(0),
        cb=cb or circular(0),
    )
    used = l1 + l1_small + memory.cb.used
    return Device(
        unique_id=unique_id or str(9_223_372_036_854_000_000 + 1_000_003 * (number or 0)),
        logical_id=number,
        board=board,
        arch=arch,
        pci=pci,
        grid=(8, 8),
        memory=memory,
        l1_used=used,
        l1_capacity=l1_capacity,
        l1_total=N300_L1_TOTAL,
        l1_peak=used,
        l1_peak_time_ns=NOW,
        kernels=code,
        provenance=provenance or {},
        anomalies=anomalies,
    )


def process(
    pid: int,
    command: str | None,
    devices: Mapping[str, Amounts],
    *,
    user: str | None = "alice",
    connected: bool = True,
    dropped: int = 0,
    overflow: int = 0,
) -> Process:
    return Process(
        pid,
        NOW - 60_000_000_000,
        user,
        command,
        True,
        ("socket",),
        connected,
        devices,
        dropped,
        overflow,
    )


def everything(of: Device) -> Amounts:
    """All that a device holds, as one process's."""
    return of.memory.amounts


def snapshot(
    devices: Iterable[Device] = (),
    processes: Iterable[Process] = (),
    *,
    left_behind: Iterable[LeftBehind] = (),
    losses: Losses = NO_LOSSES,
    **details: Any,
) -> Snapshot:
    return Snapshot(
        NOW, HOST, tuple(devices), tuple(processes), tuple(left_behind), losses, **details
    )


def with_owner(of: Device, pid: int = 41235, command: str = "python models/demo.py") -> Snapshot:
    """One device, held by one process."""
    return snapshot([of], [process(pid, command, {of.unique_id: everything(of)})])


def seed_004_device(l1_capacity: int = WRONG_L1) -> Device:
    """L1 0.8 KB, L1_SMALL 1.3 MiB, CB 158.5 MiB by plain sum, kernels 173.8 MiB."""
    found = device(
        0,
        l1=819,
        l1_small=int(1.3 * MIB),
        cb=circular(None, int(158.5 * MIB)),
        l1_capacity=l1_capacity,
        code=kernels(int(173.8 * MIB), loads=412, dispatches=96_000),
    )
    if found.l1_used <= l1_capacity:
        return found
    culprit = ("pid 41235 (python models/demo.py)", 41235, found.l1_used)
    what = "L1 with L1_SMALL and circular buffers"
    anomaly = over_capacity(what, found.l1_used, l1_capacity, culprit, found.memory.cb.demand or 0)
    return replace(found, anomalies=(anomaly,))


# -- Any snapshot at all, for property tests


amounts = st.one_of(st.just(0), st.integers(0, 1 << 40), st.integers(0, 1 << 63))
maybe_amounts = st.none() | amounts
# Surrogates too: a command line is bytes, and need not be text.
texts = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    ["", "n300", "\x1b[31m", "推論" * 20, "x" * 300, "\u202e", "e\u0301" * 9]
)
maybe_texts = st.none() | texts


@st.composite
def memory_uses(draw: st.DrawFn) -> MemoryUse:
    held = draw(amounts)
    capacity = draw(maybe_amounts)
    reserved = draw(st.none() | st.just(held))
    count = draw(maybe_amounts)
    return MemoryUse(capacity, draw(amounts), reserved, held, None, None, count, held, None)


@st.composite
def circular_buffers(draw: st.DrawFn) -> CircularBuffers:
    resident, cached, demand = draw(maybe_amounts), draw(maybe_amounts), draw(maybe_amounts)
    used = next((n for n in (cached, demand, resident) if n is not None), draw(amounts))
    return CircularBuffers(resident, cached, demand, None, used, draw(maybe_amounts))


@st.composite
def kernel_codes(draw: st.DrawFn) -> Kernels:
    return Kernels(
        dram_binaries=draw(maybe_amounts),
        distinct_binaries=draw(maybe_amounts),
        distinct_binary_bytes=None,
        count=draw(maybe_amounts),
        footprint=Footprint(draw(maybe_amounts), draw(maybe_amounts), draw(maybe_amounts)),
        ring=Ring(draw(maybe_amounts), draw(maybe_amounts), None, None, None),
        loads=draw(maybe_amounts),
        unloads=draw(maybe_amounts),
        dispatches=draw(maybe_amounts),
        cache_entries=draw(maybe_amounts),
        cache_hits=draw(maybe_amounts),
        cache_misses=draw(maybe_amounts),
    )


numbers = st.none() | st.floats(-1e9, 1e9) | st.floats(0, 500)
limits = st.builds(TelemetryLimits, numbers, numbers, numbers, maybe_amounts)
telemetries = st.builds(
    Telemetry,
    temperature_c=numbers,
    power_w=numbers,
    current_a=numbers,
    voltage_mv=maybe_amounts,
    aiclk_mhz=maybe_amounts,
    axiclk_mhz=maybe_amounts,
    arcclk_mhz=maybe_amounts,
    fan_rpm=maybe_amounts,
    heartbeat=maybe_amounts,
    firmware=maybe_texts,
    limits=limits,
    source=maybe_texts,
    stale=st.none() | st.booleans(),
    unchanged_s=numbers,
    reasons=st.dictionaries(st.sampled_from(VALUES) | texts, texts, max_size=3),
)
cards = st.builds(
    CardSample,
    number=st.none() | st.integers(0, 999_999),
    board=maybe_texts,
    arch=maybe_texts,
    pci=maybe_texts,
    serial=maybe_texts,
    asic_id=maybe_texts,
    remote=st.none() | st.booleans(),
    position=maybe_texts,
    telemetry=telemetries,
)


@st.composite
def devices(draw: st.DrawFn, unique_id: str) -> Device:
    uses = [draw(memory_uses()) for _ in range(4)]
    memory = Memory(uses[0], uses[1], uses[2], uses[3], draw(circular_buffers()))
    missing = draw(maybe_texts)
    return Device(
        unique_id=unique_id,
        logical_id=draw(st.none() | st.integers(0, 1023)),
        board=draw(maybe_texts),
        arch=draw(maybe_texts),
        pci=draw(maybe_texts),
        grid=None,
        memory=memory,
        l1_used=memory.l1.held + memory.l1_small.held + memory.cb.used,
        l1_capacity=draw(maybe_amounts),
        l1_total=None,
        l1_peak=0,
        l1_peak_time_ns=None,
        kernels=draw(kernel_codes()),
        provenance={"capacity": Provenance("socket", "declared", missing)},
        anomalies=tuple(Anomaly("x", text) for text in draw(st.lists(texts, max_size=2))),
        remote=draw(st.none() | st.booleans()),
        position=draw(maybe_texts),
        telemetry=draw(st.none() | telemetries),
    )


holdings = st.builds(Amounts, amounts, amounts, amounts, amounts, amounts)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    ids = draw(st.lists(texts, max_size=10, unique=True))
    held = st.dictionaries(st.sampled_from(ids), holdings) if ids else st.just({})
    processes = st.builds(
        Process,
        st.integers(0, 1 << 22),
        st.none(),
        maybe_texts,
        maybe_texts,
        st.booleans(),
        st.sampled_from([("socket",), ("shared memory v3",), ("socket", "shared memory v3")]),
        st.booleans(),
        held,
        amounts,
        amounts,
    )
    pids = st.integers(0, 1 << 22)
    left = st.builds(LeftBehind, pids, maybe_texts, maybe_amounts, held, st.booleans())
    rows = tuple(Kernel(1, uid, "fabric", footprint=9) for uid in ids)
    return Snapshot(
        time_ns=draw(amounts),
        host=HOST,
        devices=tuple(draw(devices(uid)) for uid in ids),
        processes=tuple(draw(st.lists(processes, max_size=5))),
        left_behind=tuple(draw(st.lists(left, max_size=2))),
        cards=tuple(draw(st.lists(cards, max_size=3))),
        losses=draw(st.builds(Losses, amounts, amounts, amounts)),
        kernels=draw(st.sampled_from([None, rows])),
        remarks=tuple(Anomaly("x", text) for text in draw(st.lists(texts, max_size=2))),
    )
