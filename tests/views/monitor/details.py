"""Snapshots with single buffers, kernels, programs and events, for the pages that list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.views.builders import (
    GIB,
    KIB,
    MIB,
    NOW,
    circular,
    device,
    maybe_texts,
    process,
    snapshot,
    snapshots,
    texts,
    use,
)
from tests.views.cases import CASES
from ttmem.events import Amounts, Flag, MemoryKind, Notice, Op
from ttmem.hw import device_spec
from ttmem.snapshots import (
    Buffer,
    CircularBuffer,
    Cores,
    CoreSet,
    Device,
    Footprint,
    Kernel,
    Kernels,
    L1Map,
    LoggedEvent,
    Memory,
    MemoryUse,
    Program,
    Provenance,
    ResidentBuffer,
    Ring,
    Snapshot,
)

SECOND = 1_000_000_000
KINDS = ("dram", "l1", "l1_small", "trace")
OPS = ("matmul", "layer_norm", "softmax", "reshape_view")


@dataclass
class Listed:
    """The rows of all devices."""

    buffers: list[Buffer] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    circular_buffers: list[CircularBuffer] = field(default_factory=list)
    events: list[LoggedEvent] = field(default_factory=list)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        rows: dict[str, Any] = {name: tuple(rows) for name, rows in vars(self).items()}
        return replace(snapshot, **rows)


def with_details(of: Snapshot, per_device: int = 6) -> Snapshot:
    """The same snapshot with rows for each device that fit its sums; one process has all its buffers."""
    listed = Listed()
    pids = {uid: process.pid for process in of.processes for uid in process.devices}
    devices = [
        _listed(device, pids.get(device.unique_id), per_device, listed) for device in of.devices
    ]
    amounts = {device.unique_id: device.memory.amounts for device in devices}
    processes = [
        replace(
            one,
            devices={
                uid: (amounts[uid] if pids[uid] == one.pid else Amounts())._replace(cb=held.cb)
                for uid, held in one.devices.items()
            },
        )
        for one in of.processes
    ]
    return replace(listed.add_to(of), devices=tuple(devices), processes=tuple(processes))


def _listed(of: Device, pid: int | None, number: int, listed: Listed) -> Device:
    dram, l1, l1_small, trace = (_buffers(of, kind, pid, number, listed) for kind in KINDS)
    memory = Memory(dram, l1, l1_small, trace, of.memory.cb)
    code = _code(of, pid, number, listed)
    _events(of.unique_id, pid, number, listed)
    return replace(of, memory=memory, kernels=code)


def _buffers(of: Device, kind: str, pid: int | None, number: int, listed: Listed) -> MemoryUse:
    use: MemoryUse = getattr(of.memory, kind)
    if not use.held:
        return replace(use, count=0)
    parts = [use.held // number] * (number - 1)
    for at, size in enumerate([use.held - sum(parts), *parts]):
        listed.buffers.append(
            Buffer(
                pid,
                of.unique_id,
                kind.upper(),
                0x1000 + at,
                0x100040 + at * 0x6B000 if kind == "dram" else None,
                size - 512 if size > 512 else size,
                size,
                time_ns=NOW - (at + 1) * 47 * SECOND,
                name=f"layers.{at}.wqkv" if kind == "dram" else None,
                site=f"models/tt_transformers/tt/attention.py:{120 + at} forward",
            )
        )
    return replace(use, count=number)


def _code(of: Device, pid: int | None, number: int, listed: Listed) -> Kernels:
    statuses = ("Committed", "InFlight", "NotSent", None)
    for at in range(number):
        program = 40 + at
        binary = (at + 1) * 3 * KIB if at else None
        listed.programs.append(
            Program(
                pid,
                of.unique_id,
                program,
                statuses[at % 4],
                dispatches=4_096 >> at,
                cache_hits=(4_096 >> at) - 1 if at < 13 else None,
                cache_misses=1,
                last_dispatch_ns=NOW - at * 40 * SECOND if at < 5 else None,
                resident=at * 64 * KIB,
                resident_cores=64 if at else 0,
            )
        )
        listed.kernels.append(
            Kernel(
                pid,
                of.unique_id,
                ("application", "application", "fabric", "dispatch")[at % 4],
                7_000 + at,
                program,
                f"compute_{OPS[at % 4]}" if at else None,
                binary,
                64 if at else None,
                binary * 64 if binary else 2 * MIB,
                loads=1,
                dispatches=4_096 >> at,
            )
        )
        size = at * MIB
        listed.circular_buffers.append(
            CircularBuffer(pid, of.unique_id, program, size=size, references=2, is_global=at == 3)
        )
    return replace(of.kernels, count=number, ring=Ring(4_521_984, 2_100_224 + number, 12, 31, 5))


def _events(device: str, pid: int | None, number: int, listed: Listed) -> None:
    said: list[dict[str, Any]] = [
        {"op": "ALLOC", "kind": "DRAM", "size": 32 * MIB, "name": "kv", "site": "serve.py:88"},
        {"op": "PROGRAM_DISPATCH", "flags": ("CACHE_HIT",), "size": 0},
        {"op": "BINARY_STATUS", "kind": "IN_FLIGHT", "size": 0},
        {"op": "FREE", "size": 0},
        {"op": "KERNEL_LOAD", "kind": "FABRIC", "size": 57_344, "name": "fabric_erisc_router"},
        {"op": "CB_ALLOC", "flags": ("DATAFLOW", "RESENT"), "size": 512 * KIB},
    ]
    for at in range(number):
        time = NOW - (number - at) * 125_000_000
        listed.events.append(LoggedEvent(time, pid, device, id=0x77 + at, **said[at % 6]))


def hostile_details() -> Snapshot:
    """Names and sites that would write to the terminal."""
    clean = with_details(CASES["hostile_strings"]())
    evil = {"name": "\x1b[2J\x1b]0;owned\x07", "site": "推論" * 40 + ":7\n", "status": "\u202eok"}
    details: dict[str, Any] = {}
    for name in ("buffers", "kernels", "programs", "events"):
        first, *rest = getattr(clean, name)
        fields = {key: text for key, text in evil.items() if key in first._fields}
        details[name] = (first._replace(**fields), *rest)
    return replace(clean, **details)


def sums_only() -> Snapshot:
    """Stock ttnn: counters in shared memory, not one event."""
    stock = Provenance("shared memory v3", "sum of live slots", "other threads")
    chip = device(0, l1=3 * MIB, provenance={"l1": stock})
    dram, l1, l1_small, trace = (replace(getattr(chip.memory, kind), count=None) for kind in KINDS)
    chip = replace(chip, memory=Memory(dram, l1, l1_small, trace, chip.memory.cb))
    silent = Footprint(None, None, None)
    code = replace(chip.kernels, count=None, loads=None, dispatches=None, footprint=silent)
    chip = replace(chip, kernels=code)
    owner = process(41235, "python demo.py", {chip.unique_id: Amounts(0, 3 * MIB, 0, 0, 0)})
    counted = replace(owner, sources=("shared memory v3",))
    return snapshot([chip], [counted], buffers=(), kernels=(), programs=(), events=())


DETAIL_CASES: dict[str, Callable[[], Snapshot]] = {
    "empty": CASES["empty_host"],
    "one": lambda: with_details(CASES["one_device"](), 9),
    "four": lambda: with_details(CASES["four_devices"]()),
    "thirty_two": lambda: with_details(CASES["thirty_two_devices"](), 40),
    "hostile": hostile_details,
    "sums_only": sums_only,
}


# -- Any details at all


sizes = (st.integers(20, 220), st.integers(5, 60))
numbers = st.integers(0, 200) | st.integers(0, (1 << 64) - 1)
maybe = st.none() | numbers
kinds = st.sampled_from([kind.name for kind in MemoryKind]) | texts
ops = st.sampled_from([op.name for op in (*Op, *Notice)]) | texts | numbers
flags = st.lists(st.sampled_from([str(flag.name) for flag in Flag]) | texts, max_size=3).map(tuple)


@st.composite
def any_details(draw: st.DrawFn) -> Snapshot:
    """A snapshot with rows under some details, some of them on its devices."""
    picture = draw(snapshots())
    device = st.none() | st.sampled_from(
        [device.unique_id for device in picture.devices] or ["none"]
    )

    def some(kind: Any, *required: Any, **fields: Any) -> Any:
        rows = st.builds(kind, *required, **fields)
        return draw(st.none() | st.lists(rows, max_size=8).map(tuple))

    return replace(
        picture,
        buffers=some(
            Buffer, maybe, device, kinds, numbers, maybe, numbers, maybe, numbers, numbers,
            maybe_texts, maybe_texts, maybe_texts,
        ),
        kernels=some(
            Kernel, maybe, device, texts, numbers, maybe, maybe_texts, maybe, maybe, numbers,
            maybe_texts, maybe, maybe,
        ),
        programs=some(
            Program, maybe, device, numbers, maybe_texts, maybe, maybe, maybe, maybe, maybe, maybe,
            maybe_texts, maybe_texts, maybe_texts,
        ),
        circular_buffers=some(
            CircularBuffer, maybe, device, maybe, numbers, numbers, maybe, st.booleans(),
            st.booleans(), numbers, numbers,
        ),
        events=some(
            LoggedEvent, numbers, maybe, device, ops, maybe_texts, flags, numbers, maybe,
            text=maybe_texts, name=maybe_texts, site=maybe_texts,
        ),
    )  # fmt: skip


# -- Pictures of cores made by hand, with the figures of real boards


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
    """What runs reaches into a buffer."""
    base, high = 0x1B480, 0x180000 - 32 * KIB
    return picture(
        chip("p150", l1=1024 * KIB, count=1, cached=1),
        [core_set((2, 2, 5, 5), (base, high - 1012 * KIB), program=7)],
        [resident((2, 2, 5, 5), base, high - 1012 * KIB, 7)],
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


CORE_CASES = {
    "nothing-known": nothing_known,
    "old-client": old_client_with_board,
    "busy": busy,
    "overlap": overlap,
    "n150": n150,
    "many-buffers": many_buffers,
    "three-processes": three_processes,
    "four-devices": four_devices,
}
