"""A snapshot with details, for `ttmem dump`."""

from __future__ import annotations

from tests.views.builders import KIB, MIB, N300_DRAM, NOW, circular, device, process, snapshot, use
from tests.views.cases import TRANSFORMER
from ttmem.events import Amounts
from ttmem.snapshots import Buffer, CircularBuffer, Kernel, LeftBehind, Snapshot


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
