"""Pictures of hosts with stock ttnn, whose counters tell sums of requested bytes and no more."""

from __future__ import annotations

from dataclasses import replace

from tests.views.builders import GIB, HOST, KIB, MIB, NOW, device, everything, process, snapshot
from ttmem.events import Amounts
from ttmem.snapshots import (
    Anomaly,
    CircularBuffers,
    Device,
    Footprint,
    Kernels,
    LeftBehind,
    MemoryUse,
    Process,
    Provenance,
    Ring,
    Snapshot,
)

P150_DRAM = 8 * 4_278_190_080
P150_L1 = 110 * 1_461_120
MISSES = (
    "buffers that other threads than the one that opened the device allocate or free; dataflow"
    " buffers and scratchpads, kernel code in L1, bank padding; the last change of CB in a burst"
)
OPENED = (
    "L1 depends on dispatch_core_config and worker_l1_size, which are not published; with the defaults of"
    f" ttnn 0.81.1 it is 153.3 MiB ({P150_L1:,} B); DRAM includes the trace region"
)
COUNTERS = Provenance("shared memory v3", "sum of live slots, requested bytes", MISSES)
LOCAL = {"name": "tt-box-7", "ttmem": "0.1.0", "shared_memory": "/dev/shm"}
UNKNOWN = Kernels(
    None, None, None, None, Footprint(None, None, None), Ring(None, None, None, None, None),
    None, None, None, None, None, None,
)  # fmt: skip


def counted(held: int, capacity: int | None = None) -> MemoryUse:
    free = None if capacity is None else capacity - held
    return MemoryUse(capacity, held, None, held, free, None, None, held, NOW)


def stock_device(
    number: int, dram: int, l1: int, cb: int, anomalies: tuple[Anomaly, ...] = ()
) -> Device:
    made = device(
        number,
        unique_id=str(4_476_187_513_037 + number),
        board="p150",
        arch="blackhole",
        dram=counted(dram, P150_DRAM),
        cb=CircularBuffers(None, cb, None, None, cb, None),
        l1_capacity=None,
        code=UNKNOWN,
        provenance={"dram": COUNTERS, "capacity": Provenance("unique id", "declared", OPENED)},
        anomalies=anomalies,
    )
    memory = replace(made.memory, l1=counted(l1), l1_small=counted(0), trace=counted(0))
    return replace(
        made, memory=memory, l1_used=l1 + cb, l1_peak=l1 + cb, l1_capacity_default=P150_L1
    )


def by_counters(one: Process) -> Process:
    return replace(one, sources=("shared memory v3",), connected=False)


def stock_one_device() -> Snapshot:
    chip = stock_device(0, 13 * GIB, 9 * MIB, 31 * MIB)
    owner = by_counters(
        process(41235, "python serve_llm.py --port 8000", {chip.unique_id: everything(chip)})
    )
    return replace(snapshot([chip], [owner]), host=LOCAL)


def stock_and_socket() -> Snapshot:
    """One chip by both, one by counters alone; the events of one process are behind its slot."""
    said = (
        "pid 42001 (python patched.py): shared memory v3 says 1.0 GiB DRAM more than its events,"
        " which count; it may hold buffers that are older than the server, or that its client does"
        " not report"
    )
    chips = [stock_device(0, 6 * GIB, 2 * MIB, 8 * MIB), stock_device(1, 3 * GIB, 0, 0)]
    merged = Provenance(
        "socket + shared memory v3",
        "socket: sum of live buffers; shared memory v3: sum of live slots, requested bytes",
        f"socket: buffers that are older than the server; shared memory v3: {MISSES}",
    )
    chips[0] = replace(
        chips[0],
        provenance={**chips[0].provenance, "dram": merged},
        anomalies=(Anomaly("cross_check", said, 42001, GIB),),
    )
    patched = replace(
        process(
            42001, "python patched.py", {chips[0].unique_id: Amounts(4 * GIB, 2 * MIB, 0, 0, 0)}
        ),
        sources=("socket", "shared memory v3"),
    )
    stock = by_counters(
        process(
            41235,
            "python stock.py --mesh 1x2",
            {
                chips[0].unique_id: Amounts(2 * GIB, 0, 0, 0, 8 * MIB),
                chips[1].unique_id: everything(chips[1]),
            },
            user="bob",
        )
    )
    return replace(snapshot(chips, [patched, stock]), host={**HOST, "shared_memory": "/dev/shm"})


def stock_ghosts() -> Snapshot:
    """Two were killed; the runtime's own totals count them for ever."""
    left = "process {} (python) has died and left {} behind; no sum counts it"
    odd = (
        Anomaly("ghost", left.format(39870, "4.0 GiB"), 39870, 4 * GIB),
        Anomaly(
            "totals_disagree",
            "the stored totals are not the sum of the live processes: DRAM 5.0 GiB instead of 1.0 GiB",
            None,
            4 * GIB,
        ),
    )
    chip = stock_device(0, GIB, 0, 0, odd)
    owner = by_counters(process(41235, "python train.py", {chip.unique_id: everything(chip)}))
    ghosts = [
        LeftBehind(
            39870, "python", None, {chip.unique_id: Amounts(4 * GIB, 0, 0, 0, 0)}, ghost=True
        ),
        LeftBehind(
            39902,
            "python",
            NOW - 12_000_000_000,
            {chip.unique_id: Amounts(0, 64 * KIB, 0, 0, 0)},
            ghost=True,
        ),
    ]
    return replace(snapshot([chip], [owner], left_behind=ghosts), host=LOCAL)


def stock_other_user() -> Snapshot:
    """A file that only another user may read, and a process that publishes nothing."""
    remarks = (
        Anomaly(
            "other_user",
            "tt_device_4476187513038_memory belongs to bob and is closed to you (0600); run ttmem as bob or root",
        ),
        Anomaly(
            "publishes_nothing",
            "process 5120 (python) holds /dev/tenstorrent/1 and publishes nothing: what it uses is not known",
            5120,
        ),
    )
    chip = stock_device(0, 0, 0, 0)
    return replace(snapshot([chip]), host=LOCAL, remarks=remarks)


STOCK_CASES = (stock_one_device, stock_and_socket, stock_ghosts, stock_other_user)
