"""The laws of the accounts, over random event sequences of several processes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import Cores, Oracle
from tests.patience import examples
from ttmem.events import DeviceDeclaration, Event, Flag, KernelType, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts

DEVICES = 2
PROCESSES = 3
CAPACITY = 8_000  # so little that random reports exceed it now and then
L1_BANKS = 4
CORE_SETS: dict[int, Cores] = {
    1: frozenset({(0, 0)}),
    2: frozenset({(0, 0), (1, 0)}),
    3: frozenset({(1, 0), (2, 0), (31, 31), (0, 5)}),
}
SIZES = st.sampled_from([96, 1000, 4096, 9999])
PLACED_SIZES = st.sampled_from([400, 800, 4096])  # divided by every core set
FEW = st.integers(1, 4)
DEVICE = st.integers(0, DEVICES - 1)
PROGRAM = st.integers(0, 3)


def events(op: Op, **fields: st.SearchStrategy[int]) -> st.SearchStrategy[Event]:
    """Events of one sort, with some fields drawn."""
    return st.fixed_dictionaries(dict(fields)).map(lambda drawn: Event(op, **drawn))


CB_FIELDS = {
    "flags": st.sampled_from([0, 0, Flag.GLOBAL, Flag.DATAFLOW]),
    "device": DEVICE,
    "id": st.sampled_from([1000, 1064, 1500, 5000]),
    "extra": PROGRAM,
    "cores": st.integers(0, 3),
}
any_event = st.one_of(
    events(
        Op.ALLOC,
        kind=st.sampled_from(MemoryKind),
        device=DEVICE,
        id=FEW,
        size=SIZES,
        extra=st.sampled_from([0, 0, 800, 804, 802, 16_384]),
        address=st.sampled_from([0, 900, 1100, 1300, 5050]),
    ),
    events(
        Op.FREE,
        kind=st.sampled_from(MemoryKind),
        flags=st.sampled_from([0, Flag.KIND_KNOWN]),
        device=DEVICE,
        id=FEW,
    ),
    events(Op.CB_ALLOC, size=PLACED_SIZES, **CB_FIELDS),
    events(Op.CB_FREE, size=st.one_of(PLACED_SIZES, st.just(0)), **CB_FIELDS),
    events(
        Op.KERNEL_LOAD,
        kind=st.sampled_from(KernelType),
        device=DEVICE,
        id=FEW,
        size=SIZES,
        extra=PROGRAM,
        address=st.sampled_from([0, 77, 78]),
        number=st.sampled_from([0, 1, 16]),
        cores=st.integers(0, 3),
    ),
    events(Op.KERNEL_UNLOAD, device=DEVICE, id=FEW),
    events(Op.PROGRAM_DISPATCH, device=DEVICE, id=FEW, cores=st.integers(0, 3)),
    events(Op.PROGRAM_DESTROY, device=DEVICE, id=FEW),
    events(Op.BINARY_STATUS, kind=st.integers(0, 2), device=DEVICE, id=FEW),
)
steps = st.lists(
    st.tuples(st.integers(0, PROCESSES - 1), st.one_of(any_event, any_event, st.just("dies"))),
    max_size=60,
)


class World:
    """Books and oracle, fed the same."""

    def __init__(self) -> None:
        self.books = Books()
        self.oracle = Oracle(CORE_SETS, L1_BANKS)
        self.records = [self._open(number) for number in range(PROCESSES)]

    def _open(self, number: int) -> ProcessRecord:
        record = self.books.open_process(ProcessFacts(1000 + number, 0, "me", f"job {number}"))
        for device in range(DEVICES):
            declared = DeviceDeclaration(
                device, str(device), l1_capacity=CAPACITY, l1_banks=L1_BANKS
            )
            self.books.declare(record, declared)
        for cores, members in CORE_SETS.items():
            self.books.define_cores(record, cores, sum(1 << (y * 32 + x) for x, y in members))
        return record

    def step(self, number: int, what: Event | str) -> None:
        if isinstance(what, str):
            self.books.release(self.records[number], 1)
            self.records[number] = self._open(number)
            self.oracle.die(number)
        else:
            self.books.apply(self.records[number], what.pack(), 0, 64, 1)
            self.oracle.apply(number, what)


RUNS_ELSEWHERE_BEFORE_IT_RUNS_ANEW = [  # a circular buffer that no run has laid out is on no core
    (0, Event(Op.PROGRAM_DISPATCH, id=2, cores=2)),
    (0, Event(Op.CB_ALLOC, id=1064, size=800, extra=2, cores=1)),
    (2, Event(Op.PROGRAM_DISPATCH, id=1, cores=3)),
]


@settings(max_examples=examples(400), deadline=None)
@given(steps)
@example(RUNS_ELSEWHERE_BEFORE_IT_RUNS_ANEW)
def test_the_ledger_equals_plain_sums_made_anew(
    sequence: Sequence[tuple[int, Event | str]],
) -> None:
    world = World()
    for number, what in sequence:
        world.step(number, what)
    oracle = world.oracle
    by_place = {(row.process, row.device): row for row in world.books.account_rows()}

    for number, record in enumerate(world.records):
        for device in range(DEVICES):
            where = (number, device)
            row = by_place.get((record.index, device))
            if row is None:
                assert not any(cb.where == where for cb in oracle.cbs)
                continue
            assert list(row.held) == [oracle.held(where, kind) for kind in MemoryKind]
            assert row.cb_demand == oracle.demand(where)
            assert row.cb_unplaced == oracle.unplaced(where)
            assert row.cb_cached == oracle.cached(where)
            assert row.cb_dataflow == oracle.cached(where, dataflow=True)
            assert row.cb_shared == (oracle.shared(where) or 0)
            assert row.cb_shared_unknown == (oracle.shared(where) is None)
            assert row.cb_resident == oracle.resident_bytes(where)
            assert list(row.footprint) == [oracle.footprint(where, kind) for kind in KernelType]
            assert (row.dram_binaries, row.unknown_binaries) == oracle.binaries(where)
            assert row.programs == sum(1 for w, _ in oracle.programs if w == where)
    for device, sums in enumerate(world.books.device_rows(world.books.account_rows())):
        assert (sums.distinct, sums.unknown_contents) == oracle.distinct(device)
        for name in ("loads", "unloads", "dispatches"):
            assert getattr(sums.counters, name) == oracle.counters[name, device]


@settings(max_examples=examples(200), deadline=None)
@given(steps)
def test_sum_by_kind_is_sum_by_process_is_device_used_and_within_capacity_or_named(
    sequence: Sequence[tuple[int, Event | str]],
) -> None:
    world = World()
    for number, what in sequence:
        world.step(number, what)
        picture = world.books.snapshot(1)
        for device in picture.devices:
            shares = [
                p.devices[device.unique_id]
                for p in picture.processes
                if device.unique_id in p.devices
            ]
            memory = device.memory
            assert sum(share.l1_used for share in shares) == device.l1_used
            assert memory.l1.held + memory.l1_small.held + memory.cb.used == device.l1_used
            for kind in ("dram", "l1", "l1_small", "trace"):
                assert sum(getattr(share, kind) for share in shares) == getattr(memory, kind).held
            assert memory.cb.demand is not None
            assert memory.cb.used == sum(share.cb for share in shares) <= memory.cb.demand
            assert device.logical_id is not None
            _, use = world.books.device(device.logical_id)
            assert use is not None
            assert use.held[MemoryKind.DRAM] == memory.dram.held
            assert use.held[MemoryKind.L1] == memory.l1.held
            assert (use.cb_used, use.footprint) == (memory.cb.used, device.kernels.footprint.total)
            assert use[-3:] == (device.kernels.ring.capacity, device.kernels.ring.occupied, None)
            assert device.l1_peak is not None
            assert 0 <= device.l1_used <= device.l1_peak < 1 << 40
            over = [a for a in device.anomalies if a.kind == "over_capacity"]
            assert bool(over) == (device.l1_used > CAPACITY)
            if over:
                assert over[0].bytes == device.l1_used - CAPACITY
                assert over[0].pid in {p.pid for p in picture.processes}


@settings(max_examples=examples(200), deadline=None)
@given(steps)
def test_no_peak_exceeds_its_capacity_without_an_anomaly(
    sequence: Sequence[tuple[int, Event | str]],
) -> None:
    world = World()
    for number, what in sequence:
        world.step(number, what)
        for device in world.books.snapshot(1).devices:
            assert device.l1_peak is not None
            kinds = {anomaly.kind for anomaly in device.anomalies}
            named = kinds & {"over_capacity", "peak_over_capacity"}
            assert bool(named) == (device.l1_peak > CAPACITY)


SHOWN = (MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL, MemoryKind.TRACE)


@given(st.sampled_from(SHOWN), st.integers(1, 3))
def test_a_peak_above_what_can_be_allocated_since_is_named(kind: MemoryKind, blocks: int) -> None:
    books = Books()
    first = books.open_process(ProcessFacts(1000, 0, "me", "job"))
    books.declare(first, banks_of(4096))
    books.apply(first, Event(Op.ALLOC, kind=kind, id=1, size=1024 * blocks).pack(), 0, 64, 1)
    books.release(first, 2)

    second = books.open_process(ProcessFacts(1001, 0, "me", "job"))
    books.declare(second, banks_of(2048))

    (device,) = books.snapshot(3).devices
    named = {
        anomaly.text.split(":")[0]
        for anomaly in device.anomalies
        if anomaly.kind == "peak_over_capacity"
    }
    assert named == ({kind.name} if blocks == 3 else set())


def banks_of(size: int) -> DeviceDeclaration:
    """One bank of L1 and one of DRAM, each with two regions of that size."""
    return DeviceDeclaration(
        0,
        "0",
        l1_banks=1,
        l1_bank_size=size,
        l1_small_bank_size=size,
        dram_banks=1,
        dram_bank_size=size,
        trace_bank_size=size,
    )


@settings(max_examples=examples(100), deadline=None)
@given(steps)
def test_when_everyone_is_dead_nothing_remains_in_any_sum(
    sequence: Sequence[tuple[int, Event | str]],
) -> None:
    world = World()
    for number, what in sequence:
        world.step(number, what)

    for record in world.records:
        world.books.release(record, 2)

    assert world.books.native.live() == 0
    for sums in world.books.device_rows(world.books.account_rows()):
        assert (
            sum(sums.held)
            == sums.cb_used
            == sums.l1_used
            == sums.distinct_bytes
            == sums.unknown_contents
            == 0
        )
