"""A ledger can be saved, restored and replayed: the copy answers and reacts as the original does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.own_process import ran
from tests.patience import examples
from ttmem._native import Ledger, Page, planes, transposed
from ttmem.events import EVENT_SIZE, NO_POSITION, Control, Event, Flag, Notice, Op
from ttmem.ledger.journal import JournaledLedger, NamedPage

NOW = 1_000
DEVICES, PROCESSES = 3, 3
SERIAL = 1  # of every account
GOLDEN = Path(__file__).parents[1] / "data" / "ledger_states"

Step = tuple[Any, ...]


class Tape:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.interruptions = 0

    def control(self, records: bytes, /) -> None:
        self.data += records

    def batch(
        self, account: int, arrived_ns: int, position: int, data: bytes, begin: int, end: int, /
    ) -> None:
        count = (end - begin) // EVENT_SIZE
        head = Event(
            Control.BATCH, device=account, time=arrived_ns, id=position, extra=SERIAL, size=count
        )
        self.data += head.pack() + data[begin:end]

    def string(self, account: int, number: int, text: str, /) -> None:
        pass

    def interrupted(self) -> None:
        self.interruptions += 1


class Pages:
    """Keeps what it is given in pages, and names the one that is being filled to the ledger."""

    def __init__(self, full: int) -> None:
        self._full = full  # bytes
        self._page = Page(full)
        self._closed = b""
        self.asked = 0

    def control(self, records: bytes, /) -> None:
        if not self._page.control(records):
            self._next().control(records)

    def batch(
        self, account: int, arrived_ns: int, position: int, data: bytes, begin: int, end: int, /
    ) -> NamedPage | None:
        self.asked += 1
        batch = (account, arrived_ns, position, SERIAL, data, begin, end)
        if not self._page.batch(*batch):
            self._next().batch(*batch)
        return self._page, SERIAL

    def string(self, account: int, number: int, text: str, /) -> None:
        pass

    def interrupted(self) -> None:
        pass

    def _next(self) -> Page:
        self._page.seal()
        rows = bytearray(self._page.size())
        planes(self._page, 0, rows)
        self._closed += transposed(bytes(rows), len(rows) // EVENT_SIZE) if rows else b""
        self._page = Page(self._full)
        return self._page

    @property
    def data(self) -> bytes:
        self._next()
        return self._closed


def any_of(*values: int) -> st.SearchStrategy[int]:
    return st.sampled_from(values)


EVENTS = st.builds(
    Event,
    op=any_of(*Op, *Op, Op.ALLOC, Op.FREE, Op.CB_ALLOC, Notice.PHASE_ENTERED, 200),
    kind=any_of(0, 1, 2, 3, 4, 4, 9),
    flags=any_of(0, 0, 0, *Flag, Flag.KIND_KNOWN | Flag.RESENT),
    device=st.integers(0, 2),
    time=any_of(0, 1, 5, 999, 5000),
    id=any_of(0, 1, 2, 3, 4096, (1 << 64) - 100),
    size=any_of(0, 400, 400, 800, 4096, 1 << 50),
    extra=any_of(0, 1, 2, 3, 16_384),
    address=any_of(0, 0, 1000, 1400, 5000, 1 << 60),
    number=any_of(0, 0, 1, 2, 16),
    cores=st.integers(0, 4),
    name=any_of(0, 7),
    site=any_of(0, 9),
)
PROCESS = st.integers(0, PROCESSES - 1)
DEVICE = st.integers(0, DEVICES - 1)
MASKS = st.sampled_from([1, 3, 2 | 1 << 33, 0b1110, 1 << 1023, 0]).map(
    lambda mask: mask.to_bytes(128, "little")
)
BATCHES = st.tuples(st.just("apply"), PROCESS, st.lists(EVENTS, min_size=1, max_size=8))
STEPS = st.one_of(
    BATCHES,
    BATCHES,
    BATCHES,
    st.tuples(st.just("in words"), PROCESS, st.lists(EVENTS, min_size=1, max_size=4)),
    st.tuples(st.just("reopen"), PROCESS, any_of(0, 0, 1, 2)),
    st.tuples(st.just("add_device")),
    st.tuples(st.just("clear_device"), DEVICE, st.booleans()),
    st.tuples(st.just("bind"), PROCESS, st.integers(0, 3), DEVICE),
    st.tuples(st.just("move_account"), PROCESS, DEVICE, DEVICE, st.just(NOW)),
    st.tuples(st.just("define_cores"), PROCESS, st.integers(1, 4), MASKS),
    st.tuples(st.sampled_from(["follow_table", "begin_resync", "end_resync", "resync"]), PROCESS),
    st.tuples(st.just("reset_peak"), DEVICE),
    st.tuples(st.just("set_l1_banks"), DEVICE, any_of(0, 1, 4)),
    st.tuples(st.just("ask")),
)
HISTORIES = st.lists(STEPS, max_size=25)
LIMITS = st.sampled_from([(4_000_000, 8_000_000), (12, 8), (40, 30)])


def pack(events: Sequence[Event]) -> bytes:
    return b"".join(event.pack() for event in events)


def begun(ledger: Ledger) -> Ledger:
    """Three processes, of three owners, that have three devices open."""
    for _ in range(DEVICES):
        ledger.add_device()
    for process in range(PROCESSES):
        ledger.open_process(process)
        for device in range(DEVICES):
            ledger.bind(process, device, device)
        for number, mask in enumerate((1, 3, 0b1110, 1 << 40), start=1):
            ledger.define_cores(process, number, mask.to_bytes(128, "little"))
    return ledger


def take(ledger: Ledger, step: Step) -> object:
    """One step; what it answered."""
    name, *arguments = step
    if name in ("apply", "in words"):
        process, data = arguments[0], pack(arguments[1])
        if name == "apply":
            return ledger.apply(process, data, 0, len(data), NOW)
        return ledger.apply_in_words(process, data, 0, len(data), NOW, 41, 7, True)
    if name == "reopen":
        ledger.release_process(arguments[0])
        return ledger.open_process(arguments[1])
    if name == "resync":
        ledger.begin_resync(arguments[0])
        ledger.end_resync(arguments[0])
        return None
    if name == "ask":
        return answers(ledger)
    return getattr(ledger, name)(*arguments)


def answers(ledger: Ledger) -> list[object]:
    """All that a ledger can be asked."""
    listings = (
        ledger.buffers,
        ledger.l1_buffers,
        ledger.circular_buffers,
        ledger.kernels,
        ledger.programs,
    )
    return [
        ledger.accounts(),
        ledger.devices(),
        [rows(*by) for rows in listings for by in ((), (3,), (0, 1), (2, 0))],
        [ledger.usage(device) for device in range(DEVICES)],
        [ledger.core_map(device) for device in range(DEVICES)],
        [ledger.resident_map(device) for device in range(DEVICES)],
        [
            ledger.largest_free(device, kind, 0, 1 << 20, banks)
            for device in range(DEVICES)
            for kind in range(5)
            for banks in (1, 4)
        ],
        [(ledger.process_live(p), ledger.process_room(p)) for p in range(PROCESSES)],
        ledger.findings(),
        (ledger.rejected(), ledger.dropped(), ledger.live()),
    ]


def same_from_now_on(one: Ledger, other: Ledger, further: Sequence[Step]) -> None:
    assert answers(one) == answers(other)
    for step in further:
        one.take_rejections(), other.take_rejections()
        assert take(one, step) == take(other, step)
    assert answers(one) == answers(other)
    assert one.save() == other.save()


@settings(max_examples=examples(300), deadline=None)
@given(HISTORIES, HISTORIES, LIMITS)
def test_a_restored_ledger_answers_and_reacts_as_the_saved_one(
    history: Sequence[Step], further: Sequence[Step], limits: tuple[int, int]
) -> None:
    ledger = begun(Ledger(*limits, 1))
    for step in history:
        take(ledger, step)

    restored = Ledger(seed=2)
    restored.restore(ledger.save())

    same_from_now_on(ledger, restored, further)


@settings(max_examples=examples(300), deadline=None)
@given(HISTORIES, HISTORIES, HISTORIES, LIMITS, st.integers(1, 500))
def test_a_replayed_journal_leads_to_the_same_ledger(
    before: Sequence[Step],
    history: Sequence[Step],
    further: Sequence[Step],
    limits: tuple[int, int],
    cut: int,
) -> None:
    # given a ledger with a past, and a journal from then on
    ledger, tape = JournaledLedger(*limits, 1), Tape()
    begun(ledger)
    for step in before:
        take(ledger, step)
    state = ledger.save()
    ledger.attach(tape)
    for step in history:
        take(ledger, step)
    ledger.detach(tape)

    # when it is replayed in two pieces, cut anywhere
    replayed = Ledger(seed=2)
    replayed.restore(state)
    whole = len(tape.data) // EVENT_SIZE
    taken = replayed.replay(tape.data[: min(cut, whole) * EVENT_SIZE])
    again = Ledger(seed=3)
    again.restore(replayed.save())
    taken += again.replay(tape.data[taken * EVENT_SIZE :])

    # then all of it was taken, and nothing tells the two apart
    assert taken == whole
    same_from_now_on(ledger, again, further)


def test_a_journal_holds_a_record_for_each_call_and_the_events_as_they_are() -> None:
    ledger, tape = JournaledLedger(), Tape()
    ledger.attach(tape)
    mask = bytes([3]) + bytes(127)
    events = pack([Event(Op.ALLOC, id=1, size=64), Event(200, id=2, size=64)])

    ledger.open_process(5)
    ledger.add_device()
    ledger.bind(0, 7, 0)
    assert not ledger.clear_device(0, False)
    ledger.define_cores(0, 1, mask)
    assert ledger.apply(0, events, 0, len(events), NOW) == 0  # device 0 is not bound
    ledger.bind(0, 0, 0)
    assert ledger.apply(0, events, 0, len(events), NOW, 77) == 2
    assert ledger.apply(0, events, 0, EVENT_SIZE, NOW) == 1  # of a table: at no position
    ledger.release_process(0)

    assert tape.data == pack(
        [
            Event(Control.OPEN_PROCESS, number=5),
            Event(Control.ADD_DEVICE),
            Event(Control.BIND, number=7),
            Event(Control.DEFINE_CORES, number=1),
            Event.unpack(mask),
            Event.unpack(mask, EVENT_SIZE),
            Event(Control.BIND),
            Event(Control.BATCH, time=NOW, id=77, extra=SERIAL, size=2),
            Event(Op.ALLOC, id=1, size=64),
            Event(127, id=2, size=64),  # no control record
            Event(Control.BATCH, time=NOW, id=NO_POSITION, extra=SERIAL, size=1),
            Event(Op.ALLOC, id=1, size=64),
            Event(Control.RELEASE_PROCESS),
        ]
    )
    assert Ledger().replay(tape.data) == 13


@settings(max_examples=examples(300), deadline=None)
@given(HISTORIES, st.sampled_from([1, 200, 1 << 20]))
def test_pages_that_the_ledger_fills_have_the_same_records(
    history: Sequence[Step], full: int
) -> None:
    tape, pages = Tape(), Pages(full)
    for journal in (tape, pages):
        ledger = JournaledLedger(seed=1)
        ledger.attach(journal)
        begun(ledger)
        for step in history:
            take(ledger, step)
        ledger.detach(journal)

    assert pages.data == tape.data


def test_a_journal_is_not_asked_about_each_batch_until_the_page_is_full_or_something_else_happens() -> (
    None
):
    ledger, pages = JournaledLedger(), Pages(1_500_000)
    ledger.attach(pages)
    begun(ledger)
    events = pack([Event(Op.ALLOC, id=1, size=64)] * 1000)

    def asked() -> int:
        before = pages.asked
        for _ in range(10):
            ledger.apply(0, events, 0, len(events), NOW)
        return pages.asked - before

    assert asked() == 1
    ledger.string(0, 1, "text")
    assert asked() == 1
    assert asked() == 1  # thirty batches of 64,000 bytes filled the page
    ledger.bind(0, 5, 0)
    assert asked() == 1


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (Event(Op.ALLOC, id=1, size=64), "belongs to no batch"),
        (Event(255), "belongs to no batch"),
        (Event(Control.BATCH, device=9), "no such process is open"),
        (Event(Control.OPEN_PROCESS, device=7), "not the next one"),
        (Event(Control.OPEN_PROCESS, device=1, number=1 << 21), "there cannot be such a process"),
        (Event(Control.RELEASE_PROCESS, device=1), "no such process is open"),
        (Event(Control.ADD_DEVICE, number=0), "not the next one"),
        (Event(Control.CLEAR_DEVICE, number=1), "there is no such device"),
        (Event(Control.CLEAR_DEVICE, number=0), "cannot be cleared"),
        (Event(Control.BIND, cores=4), "there is no such device"),
        (Event(Control.MOVE_ACCOUNT, number=0, cores=3), "there is no such device"),
        (Event(Control.DEFINE_CORES, device=1), "no such process is open"),
        (Event(Control.FOLLOW_TABLE, device=1), "no such process is open"),
        (Event(Control.BEGIN_RESYNC, device=1), "no such process is open"),
        (Event(Control.END_RESYNC, device=1), "no such process is open"),
        (Event(Control.RESET_PEAK, number=1), "there is no such device"),
        (Event(Control.L1_BANKS, number=1, cores=4), "there is no such device"),
        (Event(Control.L1_BANKS, number=0, cores=1 << 16), "no device has so many banks"),
    ],
)
def test_an_impossible_record_ends_the_replay_there_and_is_named(
    record: Event, problem: str
) -> None:
    begin = [Event(Control.OPEN_PROCESS), Event(Control.ADD_DEVICE), Event(Control.BIND)]
    batch = [Event(Control.BATCH, time=1, size=1), Event(Op.ALLOC, id=1, size=64)]
    ledger = Ledger()

    with pytest.raises(ValueError, match=f"record 5: .*{problem}"):
        ledger.replay(pack([*begin, *batch, record, Event(Control.RELEASE_PROCESS)]))

    assert ledger.live() == 1


def test_an_event_on_a_device_that_is_not_bound_ends_the_replay() -> None:
    batch = [Event(Control.BATCH, time=1, size=1), Event(Op.ALLOC, device=3, id=1, size=64)]
    with pytest.raises(ValueError, match="record 2: an event on a device that is not bound"):
        Ledger().replay(pack([Event(Control.OPEN_PROCESS), *batch]))


def test_a_core_set_whose_mask_is_cut_off_waits_for_the_rest() -> None:
    ledger = Ledger()
    data = pack([Event(Control.OPEN_PROCESS), Event(Control.DEFINE_CORES, number=1)]) + bytes(128)

    assert [ledger.replay(data[: n * EVENT_SIZE]) for n in (1,)] == [1]
    assert [ledger.replay(data[EVENT_SIZE : n * EVENT_SIZE]) for n in (2, 3)] == [0, 0]
    assert ledger.replay(data[EVENT_SIZE:]) == 3


def busy() -> Ledger:
    """A state with something of every sort in it."""
    rng = Random(11)
    ledger = begun(Ledger(seed=1))
    for _ in range(400):
        event = Event(
            rng.choice([*Op]),
            kind=rng.randrange(3),
            flags=rng.choice([0, 0, Flag.DATAFLOW, Flag.CACHE_HIT, Flag.CACHE_MISS]),
            device=rng.randrange(3),
            time=rng.randrange(1, NOW),
            id=rng.randrange(1, 9),
            size=rng.choice([400, 800]),
            extra=rng.randrange(4),
            address=rng.choice([0, 1000, 1200]),
            number=rng.randrange(3),
            cores=rng.randrange(4),
            site=rng.randrange(3),
        )
        ledger.apply(rng.randrange(PROCESSES), event.pack(), 0, EVENT_SIZE, NOW)
    return ledger


def test_a_state_of_version_1_stays_readable() -> None:
    golden = (GOLDEN / "version-1").read_bytes()
    ledger = Ledger()
    ledger.restore(golden)
    assert ledger.save() == golden
    assert (ledger.live(), ledger.rejected(), len(ledger.findings())) == (94, 3, 1728)


def test_a_state_cut_anywhere_is_refused_and_the_ledger_stays_as_it_was() -> None:
    state, ledger = busy().save(), busy()
    before = answers(ledger)
    for end in range(0, len(state), len(state) // examples(len(state) // 3)):
        with pytest.raises(ValueError, match=r"cut short|no state"):
            ledger.restore(state[:end])
    with pytest.raises(ValueError, match="behind its end"):
        ledger.restore(state + b"\0")
    assert answers(ledger) == before


def test_a_changed_state_is_refused_or_is_one_that_a_ledger_can_have() -> None:
    rng = Random(5)
    state = busy().save()
    accepted = 0
    for _ in range(examples(4000)):
        changed = bytearray(state)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(state))
            changed[at] = rng.choice([0, 1, 255, changed[at] ^ 1 << rng.randrange(8)])
        ledger = Ledger()
        try:
            ledger.restore(bytes(changed))
        except ValueError:
            continue
        accepted += 1
        answers(ledger)
        copy = Ledger()
        copy.restore(ledger.save())
        assert answers(copy) == answers(ledger)
        for process in range(PROCESSES):
            ledger.release_process(process)
        assert ledger.live() == 0
    assert accepted  # times and names can be anything


def test_a_changed_journal_is_refused_or_applied_and_the_sums_hold() -> None:
    rng = Random(6)
    ledger, tape = JournaledLedger(), Tape()
    ledger.attach(tape)
    begun(ledger)
    for _ in range(60):
        take(ledger, ("apply", rng.randrange(3), [Event(rng.choice([*Op]), id=1, size=400)]))
    for _ in range(examples(1500)):
        changed = bytearray(tape.data)
        for _ in range(rng.choice([1, 4])):
            at = rng.randrange(len(changed) // EVENT_SIZE) * EVENT_SIZE + rng.choice([0, 4, 16, 48])
            changed[at] = rng.choice([0, 1, 128 + rng.randrange(12)])
        copy = Ledger()
        try:
            copy.replay(bytes(changed))
        except ValueError:
            pass
        again = Ledger()
        again.restore(copy.save())
        assert again.accounts() == copy.accounts()


WITHOUT_MEMORY = """
import resource
from ttmem._native import Ledger
from ttmem.events import Event, Op
from ttmem.events.record import Control

def pack(*events):
    return b"".join(event.pack() for event in events)

events = b"".join(Event(Op.ALLOC, id=n, size=64).pack() for n in range(1, 300_001))
begin = pack(Event(Control.OPEN_PROCESS), Event(Control.ADD_DEVICE), Event(Control.BIND))
journal = begin + Event(Control.BATCH, time=1, size=300_000).pack() + events
source = Ledger()
assert source.replay(journal) == 300_004
state = source.save()
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
target = Ledger()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), hard))
for call in (lambda: target.replay(journal), lambda: target.restore(state), source.save):
    try:
        call()
    except MemoryError:
        print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
target.restore(state)
assert target.save() == state and source.live() == 300_000
"""


def test_no_memory_is_a_memory_error() -> None:
    done = ran([sys.executable, "-c", WITHOUT_MEMORY])
    assert (done.stderr, done.stdout.split()) == ("", ["MemoryError"] * 3)
