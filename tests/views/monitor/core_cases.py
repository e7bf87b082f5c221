"""Pictures of cores made by hand, with the figures of real boards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.views.builders import GIB, circular, device, snapshot, use
from ttmem.hw import device_spec
from ttmem.snapshots import (
    Buffer,
    Cores,
    CoreSet,
    Device,
    L1Map,
    ResidentBuffer,
    Snapshot,
)

KIB = 1 << 10
PID = 41235
OTHERS = (41236, 41237)
Block = tuple[int, int, str] | tuple[int, int, str, int]  # address, bytes per core, name, pid
Buffers = Iterable[Block]


def chip(
    board: str,
    number: int = 0,
    *,
    l1: int = 0,
    small: int = 0,
    count: int | None = 0,
    cached: int | None = 0,
    l1_small_size: int = 32 * KIB,
) -> Device:
    """A board's device, with so many bytes per core in use."""
    spec = device_spec(board, l1_small_size=l1_small_size)
    banks = spec.l1_banks
    made = device(
        number,
        board=board,
        arch=spec.arch.value,
        pci=f"0000:0{number + 1}:00.0",
        dram=use(4 * GIB, spec.dram_capacity),
        l1=l1 * banks,
        l1_small=small * banks,
        cb=circular(cached),
        l1_capacity=spec.l1_capacity,
    )
    memory = replace(made.memory, l1=replace(made.memory.l1, count=count))
    layout = L1Map(
        banks,
        spec.cb_base - spec.ring_per_core,
        spec.cb_base,
        spec.cb_base + spec.l1_bank_size,
        spec.l1_per_core,
    )
    return replace(made, grid=(spec.grid.x, spec.grid.y), memory=memory, l1_map=layout)


def core_set(
    cores: tuple[int, int, int, int], *regions: tuple[int, int], program: int, pid: int = PID
) -> CoreSet:
    """A rectangle of cores, ends included."""
    cached = sum(end - start for start, end in regions)
    return CoreSet(pid, _cells(cores), cached, regions, program)


def resident(
    cores: tuple[int, int, int, int], start: int, end: int, program: int, dataflow: bool = False
) -> ResidentBuffer:
    return ResidentBuffer(PID, program, _cells(cores), start, end, dataflow)


def _cells(cores: tuple[int, int, int, int]) -> Cores:
    x0, y0, x1, y1 = cores
    return Cores.of((x, y) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1))


def picture(
    of: Device,
    sets: Iterable[CoreSet] = (),
    now: Iterable[ResidentBuffer] = (),
    buffers: Buffers = (),
    others: Iterable[Device] = (),
) -> Snapshot:
    assert of.l1_map is not None
    rows = [
        Buffer(
            pid[0] if pid else PID,
            of.unique_id,
            "L1",
            at,
            address,
            size,
            size * of.l1_map.banks,
            site=name,
        )
        for at, (address, size, name, *pid) in enumerate(buffers, 1)
    ]
    return snapshot(
        [of, *others],
        cores={of.unique_id: tuple(sets)},
        resident={of.unique_id: tuple(now)},
        l1_buffers=tuple(rows),
    )


def nothing_known() -> Snapshot:
    """A device that an old client knows by number."""
    bare = device(0, board=None, arch=None, l1=819, cb=circular(None, 9 << 20), l1_capacity=None)
    return snapshot([replace(bare, grid=None)])


def old_client_with_board() -> Snapshot:
    """The server was told the board: a grid, but no addresses."""
    made = chip("n300", cached=None)
    memory = replace(made.memory, l1=replace(made.memory.l1, reserved=None))
    return snapshot([replace(made, memory=memory, l1_map=None)])


def busy(others: Iterable[Device] = ()) -> Snapshot:
    """A p150 in the middle of a matmul; half of the grid also has the buffers of a cached program."""
    base = 0x1B480
    high = 0x180000 - 32 * KIB
    buffers = [
        (high - 96 * KIB, 96 * KIB, "attention.py:88"),
        (high - 352 * KIB, 256 * KIB, "mlp.py:41"),
        (high - 608 * KIB, 192 * KIB, "mlp.py:52"),
    ]
    top = (0, 0, 10, 4)
    return picture(
        chip("p150", l1=544 * KIB, small=8 * KIB, count=3, cached=1),
        [
            core_set(top, (base, base + 640 * KIB), program=31),
            core_set((0, 5, 10, 9), (base, base + 80 * KIB), program=17),
        ],
        [
            resident((0, 0, 10, 9), base, base + 64 * KIB, 17),
            resident((0, 0, 10, 9), base + 64 * KIB, base + 80 * KIB, 17, dataflow=True),
        ],
        buffers,
        others,
    )


def overlap() -> Snapshot:
    """Cached programs reach into a buffer."""
    base, high = 0x1B480, 0x180000 - 32 * KIB
    return picture(
        chip("p150", l1=1024 * KIB, count=1, cached=1),
        [core_set((2, 2, 5, 5), (base, high - 1012 * KIB), program=7)],
        [],
        [(high - 1024 * KIB, 1024 * KIB, "kv_cache.py:12")],
    )


def n150() -> Snapshot:
    """64 cores, no L1_SMALL, CBs on some cores only."""
    base = 0x19D60
    return picture(
        chip("n150", cached=1, l1_small_size=0),
        [core_set((0, 0, 7, 0), (base, base + 1200 * KIB), program=3)],
        [resident((0, 0, 7, 0), base, base + 200 * KIB, 3)],
    )


def many_buffers() -> Snapshot:
    """More than any window has lines."""
    high = 0x180000 - 32 * KIB
    blocks = [(high - 6 * KIB * (n + 1), (4 + 2 * (n % 2)) * KIB, f"kv{n}") for n in range(150)]
    held = sum(size for _, size, _ in blocks)
    return picture(  # a narrowed question: the 40 highest are not told
        chip("p150", l1=held, count=150, cached=1),
        [core_set((0, 0, 10, 9), (0x1B480, 0x1B480 + 90 * KIB), program=5)],
        [
            resident((0, 0, 10, 9), 0x1B480 + n * 4096, 0x1B480 + (n + 1) * 4096, 5)
            for n in range(20)
        ],
        sorted(blocks)[:110],
    )


def three_processes() -> Snapshot:
    """They take turns on one chip, at the same addresses; each also has a buffer at the top."""
    base, high = 0x1B480, 0x180000 - 32 * KIB
    everywhere = (0, 0, 10, 9)
    sets = [core_set(everywhere, (base, base + 356 * KIB), program=7)]
    sets += [core_set(everywhere, (base, base + 168 * KIB), program=2, pid=pid) for pid in OTHERS]
    buffers: list[Block] = [
        (high - 32 * KIB, 20 * KIB, "matmul"),
        *((high - 2 * KIB, 2 * KIB, "batch", pid) for pid in OTHERS),
    ]
    return picture(
        chip("p150", l1=24 * KIB, count=3, cached=1),
        sets,
        [resident((0, 0, 10, 9), base, base + 160 * KIB, 2)],
        buffers,
    )


def four_devices() -> Snapshot:
    return busy([chip("p150", number) for number in (1, 2, 3)])


CASES = {
    "nothing-known": nothing_known,
    "old-client": old_client_with_board,
    "busy": busy,
    "overlap": overlap,
    "n150": n150,
    "many-buffers": many_buffers,
    "three-processes": three_processes,
    "four-devices": four_devices,
}
