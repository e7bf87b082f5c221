"""A snapshot is a function of two values, which can be saved: the native ledger and the context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import BORN, NOW, facts, region, report, slot
from tests.ledger.test_laws import CORE_SETS, any_event
from ttmem._native import Ledger
from ttmem.errors import BadInput
from ttmem.events import (
    Amounts,
    DeviceDeclaration,
    Event,
    Flag,
    MemoryKind,
    Notice,
    Op,
    Owner,
    Remark,
)
from ttmem.events.probe_news import KindCounter, ProbeCounters, ProbeNews
from ttmem.ledger import Books
from ttmem.ledger.build import build
from ttmem.ledger.context import Context
from ttmem.snapshots import Snapshot, to_json
from ttmem.snapshots.convert import read, write

DEVICES = ("9000", "9001")
DECLARED = [
    DeviceDeclaration(
        number,
        unique_id,
        board="n300",
        pci="0000:01:00.0",
        grid=(8, 8),
        l1_banks=4,
        l1_bank_size=4000,
        l1_small_bank_size=400,
        cb_base=1000,
        l1_per_core=8000,
        dram_banks=2,
        dram_bank_size=20_000,
        dram_base=64,
    )
    for number, unique_id in enumerate(DEVICES)
]
AMOUNTS = st.builds(Amounts, *[st.sampled_from([0, 100, 9000])] * 5)
PIDS = st.integers(101, 104)
KIND = st.builds(KindCounter, *[st.integers(0, 3)] * 5)
COUNTERS = st.builds(
    ProbeCounters,
    st.tuples(*[KIND] * len(MemoryKind)),
    st.integers(0, 500),
    st.sampled_from([None, 0, 2048]),
    *[st.integers(0, 3)] * 5,
)
NEWS = st.fixed_dictionaries(
    {
        "events": st.lists(any_event, max_size=5),
        "counters": st.dictionaries(st.integers(0, 1), COUNTERS),
        "tracking": st.booleans(),
        "unseen": st.integers(0, 1),
        "missed": st.booleans(),
        "lost": st.integers(0, 2),
        "unlisted": st.sampled_from([0, 0, 3]),
        "table_full": st.booleans(),
        "missing": st.sampled_from([(), ("program ranges",)]),
        "ended": st.sampled_from([False, False, False, True]),
    }
)
SLOT = st.builds(slot, PIDS, AMOUNTS, st.sampled_from(Owner))
STEPS = st.one_of(
    st.tuples(st.just("events"), PIDS, st.lists(any_event, max_size=6)),
    st.tuples(st.just("events"), PIDS, st.lists(any_event, max_size=6)),
    st.tuples(st.just("part"), PIDS, st.lists(any_event, max_size=4)),
    st.tuples(st.just("dies"), PIDS),
    st.tuples(st.just("lost"), PIDS),
    st.tuples(
        st.just("reading"),
        st.lists(SLOT, max_size=4, unique_by=lambda slot: slot.pid),
        st.sampled_from([1, 3, 4]),
    ),
    st.tuples(st.just("probe"), st.integers(103, 104), NEWS),
    st.tuples(st.just("reset")),
    st.tuples(st.just("fault")),
)


class World:
    """Books that are told what the steps say."""

    def __init__(self, watchful: bool) -> None:
        self.books = Books(watchful=watchful)
        self.processes: dict[int, Any] = {}

    def step(self, name: str, *arguments: Any) -> None:
        getattr(self, f"_{name}")(*arguments)

    def _open(self, pid: int, of: Any = None) -> Any:
        process = self.books.open_process(facts(pid), part_of=of)
        process.connections = pid % 2
        for declared in DECLARED[: 1 + pid % 2]:
            self.books.declare(process, declared)
        for number, cores in CORE_SETS.items():
            self.books.define_cores(process, number, sum(1 << (y * 32 + x) for x, y in cores))
        return process

    def _events(self, pid: int, events: Sequence[Event]) -> None:
        if pid not in self.processes:
            self.processes[pid] = self._open(pid)
        report(self.books, self.processes[pid], *events)

    def _part(self, pid: int, events: Sequence[Event]) -> None:
        if pid in self.processes:
            report(self.books, self._open(pid, self.processes[pid]), *events)

    def _dies(self, pid: int) -> None:
        if pid in self.processes:
            self.books.release(self.processes.pop(pid), NOW)

    def _lost(self, pid: int) -> None:
        if pid in self.processes:
            self.books.count_lost(self.processes[pid], 3, 1, NOW)

    def _reading(self, slots: Sequence[Any], version: int) -> None:
        odd = Remark("publishes_nothing", "it says nothing", pid=103)
        samples = [region(DEVICES[0], *slots, version=version, remarks=(odd,))]
        for _ in range(3):
            self.books.sample(samples, [odd], NOW)
        self.books.tick(NOW)

    def _probe(self, pid: int, said: dict[str, Any]) -> None:
        failed = Event(Notice.ALLOCATION_FAILED, kind=1, id=1, size=77, time=5)
        events = b"".join(event.pack() for event in (*said["events"], failed))
        live = None
        if said["missed"]:
            live = Event(Op.ALLOC, flags=Flag.RESENT, id=9, size=64).pack()
        told = {**said, "events": events, "live": live}
        news = ProbeNews(
            facts(pid),
            f"region-{pid}",
            devices=tuple(DECLARED),
            messages={5: "TT_FATAL: no space"},
            **told,
        )
        self.books.probed.take([news], NOW)

    def _reset(self) -> None:
        self.books.reset_peak()

    def _fault(self) -> None:
        self.books.omissions.fault("a connection", ValueError("it is broken"))
        self.books.omissions.limit("user eve", "too much")


def again(books: Books, now: int) -> Snapshot:
    """From what a file would hold."""
    document = json.loads(json.dumps(write(books.context())))
    native = Ledger()
    native.restore(books.native.save())
    return build(native, read(Context, document), now)


def text(snapshot: Snapshot) -> str:
    return json.dumps(to_json(snapshot))


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=12), st.booleans())
def test_a_snapshot_made_from_saved_values_is_the_live_one_to_the_byte(
    steps: Sequence[tuple[Any, ...]], watchful: bool
) -> None:
    world = World(watchful)
    for step in steps:
        world.step(*step)
        assert text(again(world.books, NOW + 1)) == text(world.books.snapshot(NOW + 1))


def test_a_process_has_the_position_up_to_which_its_source_is_included() -> None:
    world = World(True)
    world.step("events", 101, [Event(Op.ALLOC, id=1, size=64), Event(Op.FREE, id=1)])
    world.step("part", 101, [Event(Op.ALLOC, id=1, size=64)])
    world.step("events", 101, [Event(Op.ALLOC, device=7, id=2, size=64)])
    world.step("reading", [slot(104, Amounts(dram=5))], 3)
    ring = ProbeNews(facts(103), "region", devices=tuple(DECLARED), position=1000)
    world.books.probed.take([ring], NOW)

    found = {process.pid: process.position for process in world.books.snapshot(NOW).processes}

    assert found == {101: 4, 103: 1000, 104: None}


def busy() -> World:
    world = World(True)
    world.step("events", 101, [Event(Op.ALLOC, id=1, size=64), Event(Op.FREE, id=7)])
    world.step("reading", [slot(101, Amounts(dram=500)), slot(104, Amounts(dram=5))], 3)
    world.step("fault")
    return world


def test_a_changed_context_is_refused_or_is_one() -> None:
    rng, world = Random(3), busy()
    document = write(world.books.context())
    refused = 0
    for _ in range(600):
        changed = json.loads(json.dumps(document))
        part = changed
        while isinstance(part, (dict, list)) and part:
            key = rng.choice(list(part) if isinstance(part, dict) else range(len(part)))
            inner = part[key]
            if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
                part[key] = rng.choice([None, -1, 1 << 70, "x", [], {}, True])
                break
            part = inner
        try:
            build(world.books.native, read(Context, changed), NOW)
        except BadInput:
            refused += 1
    assert 100 < refused < 600


def test_the_context_of_another_ledger_is_refused() -> None:
    world = busy()
    with pytest.raises(BadInput, match="does not belong to the ledger"):
        build(world.books.native, Books().context(), BORN)
