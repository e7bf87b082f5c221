"""The snapshots whose pictures are kept in `pictures/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.views.builders import (
    GIB,
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
from tests.views.stock_cases import STOCK_CASES
from ttmem.events import Amounts
from ttmem.snapshots import Device, Kernel, LeftBehind, Losses, Provenance, Snapshot

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
    first = Amounts(*(whole - 11 * one for whole, one in zip(held, part, strict=True)))
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
