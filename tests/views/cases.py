"""The snapshots whose pictures are kept in `pictures/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.views.builders import (
    GIB,
    HOST,
    KIB,
    MIB,
    N300_DRAM,
    N300_L1,
    N300_RING,
    NOW,
    circular,
    device,
    everything,
    kernels,
    process,
    seed_004_device,
    snapshot,
    use,
    with_owner,
)
from ttmem.events import Amounts, CardSample, Telemetry, TelemetryLimits
from ttmem.events.samples import no_telemetry
from ttmem.snapshots import (
    Anomaly,
    Buffer,
    CircularBuffer,
    CircularBuffers,
    Device,
    Footprint,
    Kernel,
    Kernels,
    LeftBehind,
    Losses,
    MemoryUse,
    Process,
    Provenance,
    Ring,
    Snapshot,
)
from ttmem.sources.telemetry.source import REMOTE

TRANSFORMER = (
    "python -m pytest models/tt_transformers/demo/simple_text_demo.py -k 'performance and DP-4-b1'"
)
UNDECLARED = Provenance(
    "none",
    "unknown",
    "no client declared this device; give the server --board, --cluster or --l1-capacity",
)


def empty_host() -> Snapshot:
    return snapshot()


def one_device() -> Snapshot:
    return with_owner(
        device(
            0,
            pci="0000:01:00.0",
            dram=use(4_832_000_000, N300_DRAM),
            l1=9 * MIB,
            cb=circular(29 * MIB, 44 * MIB),
            code=kernels(12 * MIB, 896 * KIB, 92 * KIB, ring=(1_200_000, N300_RING), loads=40),
        )
    )


def seed_004() -> Snapshot:
    return with_owner(seed_004_device())


def seed_004_on_a_real_n300() -> Snapshot:
    return with_owner(seed_004_device(N300_L1))


def _dp4_device(number: int) -> Device:
    return device(
        number,
        pci=f"0000:0{1 + number // 2}:00.0",
        dram=use(
            int(4.5 * GIB) + number * 7 * MIB,
            N300_DRAM,
            requested=int(4.4 * GIB) + number * 7 * MIB,
        ),
        l1=int(2.2 * MIB) + number * 64 * KIB,
        l1_small=1_363_148 if number == 2 else 0,
        trace=use(int(22.5 * MIB), 64 * MIB),
        cb=circular(int(29.8 * MIB) + number * 13 * MIB, 158 * MIB),
        code=kernels(
            int(53.5 * MIB),
            896 * KIB,
            92 * KIB,
            ring=(2_100_224, N300_RING),
            dram_binaries=1_239_040,
            loads=212,
            dispatches=48_120 + number,
            cache=(180, 47_940, 180),
            distinct=61,
        ),
    )


def four_devices() -> Snapshot:
    devices = [_dp4_device(number) for number in range(4)]
    second = Amounts(2 * GIB, 0, 0, 0, 3 * MIB)
    shared = devices[3]
    rest = everything(shared)
    first = {d.unique_id: everything(d) for d in devices[:3]}
    first[shared.unique_id] = Amounts(
        rest.dram - second.dram, rest.l1, 0, rest.trace, rest.cb - second.cb
    )
    return snapshot(
        devices,
        [
            process(42001, "python serve.py --port 8000", {shared.unique_id: second}, user="bob"),
            process(41235, TRANSFORMER, first, dropped=1_204),
        ],
        left_behind=[
            LeftBehind(
                39870,
                "python train.py",
                NOW - 95_000_000_000,
                {devices[0].unique_id: Amounts(GIB, 0, 0, 0, 0)},
            )
        ],
        losses=Losses(1_204, 1, 0),
        kernels=_kernel_rows(devices),
    )


def _kernel_rows(devices: list[Device]) -> tuple[Kernel, ...]:
    types = ["application"] * 210 + ["fabric", "dispatch"]
    return tuple(Kernel(None, d.unique_id, kind) for d in devices for kind in types)


def thirty_two_devices() -> Snapshot:
    devices = []
    for number in range(32):
        share = (number * 37) % 101
        devices.append(
            device(
                number,
                board="ubb",
                pci=f"0000:{0xC0 + number:02x}:00.0",
                dram=use(N300_DRAM * share // 100, N300_DRAM),
                l1=number * 300 * KIB,
                cb=circular((number * 11 % 64) * MIB),
                code=kernels(20 * MIB, 896 * KIB, 92 * KIB, loads=64, dispatches=900 + number // 8),
            )
        )
    owner = process(5120, TRANSFORMER, {d.unique_id: everything(d) for d in devices})
    return snapshot(devices, [owner])


def sixty_processes() -> Snapshot:
    parts = [
        Amounts((n * 7919 % 61) * 3 * MIB, n * 4 * KIB, 0, 0, (n % 5) * 64 * KIB) for n in range(60)
    ]
    names = [f"python worker.py --rank {n}" for n in range(60)]
    holder = device(
        0,
        dram=use(sum(part.dram for part in parts), N300_DRAM),
        l1=sum(part.l1 for part in parts),
        cb=circular(sum(part.cb for part in parts)),
    )
    processes = [
        process(7000 + n, names[n], {holder.unique_id: parts[n]}, connected=n != 13)
        for n in range(60)
    ]
    return snapshot([holder], processes)


def unknown_capacities() -> Snapshot:
    devices = [
        device(
            number,
            unique_id=f"tt-box-7:{number}",
            board=None,
            arch=None,
            dram=use(3 * GIB),
            l1=5 * MIB,
            cb=circular(None, 12 * MIB),
            l1_capacity=None,
            provenance={"capacity": UNDECLARED},
        )
        for number in range(2)
    ]
    owner = process(812, None, {d.unique_id: everything(d) for d in devices}, user=None)
    return snapshot(devices, [owner])


def everything_at_once() -> Snapshot:
    """Too much of everything for a small window."""
    chips = four_devices()
    (troubled,) = seed_004_on_a_real_n300().devices
    devices = [replace(troubled, logical_id=4), *chips.devices]
    held = everything(troubled)
    part = Amounts(*(amount // 12 for amount in held))
    first = Amounts(*(whole - 11 * share for whole, share in zip(held, part, strict=True)))
    # The number of a chip of four_devices is 0 too; its unique id is not.
    unique_id = "17"
    devices[0] = replace(devices[0], unique_id=unique_id)
    workers = [
        process(8900 + n, f"python worker.py --rank {n}", {unique_id: part}, connected=n != 2)
        for n in range(1, 12)
    ]
    leader = process(8900, "python worker.py --rank 0", {unique_id: first}, overflow=3)
    return replace(
        chips,
        devices=tuple(devices),
        processes=(*chips.processes, leader, *workers),
        left_behind=tuple(replace(chips.left_behind[0], pid=39870 + n) for n in range(5)),
        losses=Losses(1_207, 1, 12),
    )


def hostile_strings() -> Snapshot:
    bad = device(
        0,
        unique_id="\x1b[2J\x1b[H-evil-" + "9" * 60,
        board="n300\r\n",
        dram=use(GIB, N300_DRAM),
        l1=MIB,
    )
    held = everything(bad)
    half = Amounts(held.dram // 2, held.l1 // 2, 0, 0, 0)
    quarter = Amounts(held.dram // 4, held.l1 // 4, 0, 0, 0)
    return snapshot(
        [bad],
        [
            process(
                1, "python \x1b]0;owned\x07 \u202egnp.exe\n\t" + "x" * 300, {bad.unique_id: half}
            ),
            process(
                2,
                "推論サーバー --モデル 大規模言語モデル " * 6,
                {bad.unique_id: quarter},
                user="用户",
            ),
            process(3, "\udcff\x00", {bad.unique_id: quarter}, user="\x9b31m"),
        ],
    )


# -- Pictures of hosts with stock ttnn, whose counters tell sums of requested bytes and no more


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


def by_counters(process: Process) -> Process:
    return replace(process, sources=("shared memory v3",), connected=False)


def stock_one_device() -> Snapshot:
    chip = stock_device(0, 13 * GIB, 9 * MIB, 31 * MIB)
    owner = by_counters(
        process(41235, "python serve_llm.py --port 8000", {chip.unique_id: everything(chip)})
    )
    return replace(snapshot([chip], [owner]), host=LOCAL)


def stock_and_socket() -> Snapshot:
    """One chip by both, one by counters alone; the events of one process are behind its slot."""
    said = (
        "pid 42001 (python patched.py): shared memory v3 says 1.0 GiB DRAM more than its events;"
        " the events are used; it may hold buffers that are older than the server, or that its client does"
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
    left = "process {} (python) has died and left {} behind; not included in any total"
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


# -- A snapshot with details, for `ttmem dump`


def dump_case() -> Snapshot:
    """Two processes on one device, with their buffers, circular buffers and kernels."""
    weights = [_buffer(41235, "DRAM", 0x1000 * n, n * MIB, f"model.py:{n}") for n in range(1, 9)]
    small = [_buffer(42001, "DRAM", 0x900, MIB, None), _buffer(41235, "L1", 0x77, 2 * MIB, None)]
    long_ago = NOW - 3_600_000_000_000
    circular_buffers = [
        CircularBuffer(41235, "9", n, address=0x19D60, size=n * MIB, time_ns=long_ago)
        for n in range(1, 4)
    ]
    first_kernel = Kernel(41235, "9", "application", 7, cores=80, time_ns=long_ago)
    code = (
        first_kernel._replace(footprint=8000 * KIB),
        first_kernel._replace(type="fabric", id=8, footprint=896 * KIB, cores=16),
    )
    first, second = Amounts(36 * MIB + 4096, 2 * MIB, 0, 0, 3 * MIB), Amounts(MIB, 0, 0, 0, 0)
    holder = device(
        0,
        unique_id="9",
        dram=use(first.dram + second.dram, N300_DRAM, requested=37 * MIB),
        l1=first.l1,
        cb=circular(first.cb, 6 * MIB),
    )
    return snapshot(
        [holder],
        [
            process(41235, TRANSFORMER, {"9": first}),
            process(42001, "python serve.py", {"9": second}, user="bob"),
        ],
        left_behind=[LeftBehind(39870, "python train.py", NOW - 95_000_000_000, {"9": second})],
        buffers=(*weights, *small),
        circular_buffers=tuple(circular_buffers),
        kernels=code,
        programs=(),
    )


def _buffer(pid: int, kind: str, number: int, size: int, site: str | None) -> Buffer:
    return Buffer(
        pid,
        "9",
        kind,
        number,
        number if kind == "DRAM" else None,
        requested=size,
        reserved=size + 512 if kind == "DRAM" and pid == 41235 else None,
        references=2 if number == 0x3000 else 1,
        time_ns=NOW - 240_000_000_000,
        site=site,
    )


# -- Pictures with telemetry


WORMHOLE = Telemetry(
    temperature_c=51.3,
    power_w=35.0,
    current_a=40.0,
    voltage_mv=780,
    aiclk_mhz=1000,
    axiclk_mhz=900,
    arcclk_mhz=540,
    heartbeat=12_345_678,
    firmware="18.10.0.0",
    limits=TelemetryLimits(75.0, 160.0, 160.0, 850),
    source="sysfs",
    stale=False,
    unchanged_s=0.0,
    reasons={"fan_rpm": "the driver has no such sensor for this card"},
)
BLACKHOLE = replace(
    WORMHOLE,
    temperature_c=74.9,
    power_w=301.0,
    aiclk_mhz=1350,
    fan_rpm=2400,
    limits=TelemetryLimits(75.0, 300.0, 400.0, 850),
    reasons={},
)


def n300_and_an_idle_card() -> Snapshot:
    """Both chips of an n300, a chip that overheats, a card whose firmware hangs, one that nobody uses."""
    dram = use(4 * GIB, N300_DRAM)
    devices = [
        replace(device(0, pci="0000:01:00.0", dram=dram), remote=False, telemetry=WORMHOLE),
        replace(device(1, l1=9 * MIB), remote=True, telemetry=no_telemetry(REMOTE)),
        replace(device(2, board="p150", arch="blackhole", pci="0000:41:00.0"), telemetry=BLACKHOLE),
    ]
    hangs = replace(WORMHOLE, stale=True, unchanged_s=12.2, aiclk_mhz=None)
    reason = "4,294,967,295 MHz is not plausible; expected is 1 to 1,500 MHz"
    hangs = replace(hangs, reasons={"aiclk_mhz": reason, **WORMHOLE.reasons})
    cards = (
        CardSample(3, "n150", "wormhole", "0000:42:00.0", None, None, False, None, hangs),
        CardSample(
            4, None, None, "0000:43:00.0", None, None, False, None, no_telemetry("it is gone")
        ),
    )
    return replace(snapshot(devices), cards=cards)


def galaxy() -> Snapshot:
    return snapshot([_galaxy_chip(number) for number in range(32)])


def _galaxy_chip(number: int) -> Device:
    tray, chip = divmod(number, 8)
    bus = (0xC0, 0x80, 0x00, 0x40)[tray] + chip + 1
    told = replace(WORMHOLE, temperature_c=36.0 + number / 10, power_w=21.0, aiclk_mhz=500)
    return replace(
        device(number, board="galaxy", pci=f"0000:{bus:02x}:00.0", dram=use(GIB, N300_DRAM)),
        remote=False,
        position=f"T{tray + 1}:N{chip + 1}",
        telemetry=told,
    )


def one_card_no_driver() -> Snapshot:
    absent = no_telemetry("the driver is not loaded: there is no /sys/class/tenstorrent")
    return with_owner(replace(device(0, dram=use(GIB, N300_DRAM)), telemetry=absent))


TELEMETRY_CASES = {
    "telemetry": n300_and_an_idle_card,
    "telemetry-galaxy": galaxy,
    "telemetry-no-driver": one_card_no_driver,
}


CASES: dict[str, Callable[[], Snapshot]] = {
    case.__name__: case
    for case in (
        empty_host,
        one_device,
        seed_004,
        seed_004_on_a_real_n300,
        four_devices,
        thirty_two_devices,
        sixty_processes,
        unknown_capacities,
        hostile_strings,
        everything_at_once,
        *STOCK_CASES,
    )
}
