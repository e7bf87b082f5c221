"""Any snapshot at all, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.views.builders import HOST
from ttmem.events import Amounts, CardSample, Telemetry, TelemetryLimits
from ttmem.events.samples import VALUES
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
    rows = tuple(Kernel(1, one, "fabric", footprint=9) for one in ids)
    return Snapshot(
        time_ns=draw(amounts),
        host=HOST,
        devices=tuple(draw(devices(one)) for one in ids),
        processes=tuple(draw(st.lists(processes, max_size=5))),
        left_behind=tuple(draw(st.lists(left, max_size=2))),
        cards=tuple(draw(st.lists(cards, max_size=3))),
        losses=draw(st.builds(Losses, amounts, amounts, amounts)),
        kernels=draw(st.sampled_from([None, rows])),
        remarks=tuple(Anomaly("x", text) for text in draw(st.lists(texts, max_size=2))),
    )
