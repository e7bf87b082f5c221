"""The native ledger on its own: without memory, without its constructor, with thousands of programs."""

from __future__ import annotations

import sys
from random import Random

from tests.own_process import ran
from ttmem._native import Ledger
from ttmem.events import EVENT_SIZE, Event, Flag, Op
from ttmem.wire.rows import AccountRow, grouped_rows

WITHOUT_MEMORY = """
import resource, sys
from ttmem._native import Ledger
from ttmem.events import Event, Op
from ttmem.wire.rows import AccountRow, BufferRow, CircularBufferRow, KernelRow, ProgramRow
from ttmem.wire.rows import flat_rows, grouped_rows

BATCH = 2_000
ops = {"buffers": Op.ALLOC, "programs": Op.CB_ALLOC, "kernels": Op.KERNEL_LOAD}
op = ops[sys.argv[1]]

def batch(first):
    return b"".join(
        Event(op, id=n * 64, size=640, extra=n, address=n * 64, number=1, cores=1).pack()
        for n in range(first, first + BATCH)
    )

ledger = Ledger()
process, device = ledger.open_process(), ledger.add_device()
ledger.bind(process, 0, device)
ledger.define_cores(process, 1, bytes([3]) + bytes(127))
batches = [batch(number * BATCH + 1) for number in range(40)]
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), hard))
refused = 0
for events in batches:
    try:
        ledger.apply(process, events, 0, len(events), 1)
    except MemoryError:
        refused += 1
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

def check():
    (row,) = grouped_rows(AccountRow, ledger.accounts())
    buffers = list(flat_rows(BufferRow, ledger.buffers()))
    cbs = list(flat_rows(CircularBufferRow, ledger.circular_buffers()))
    stacked = sum(cb.references for cb in cbs)
    kernels = len(list(flat_rows(KernelRow, ledger.kernels())))
    programs = len(list(flat_rows(ProgramRow, ledger.programs())))
    assert row.live == ledger.live() == len(buffers) + stacked + kernels + programs
    assert sum(row.held) == sum(b.reserved or b.size for b in buffers)
    assert row.cb_demand == sum(cb.size * cb.references for cb in cbs) and sum(row.kernels) == kernels
    assert row.programs == programs

check()
assert 0 < refused <= 40
before = ledger.live()
for events in batches:
    assert ledger.apply(process, events, 0, len(events), 2) == BATCH
check()
assert ledger.live() > before
ledger.release_process(process)
assert ledger.live() == 0
"""


def run(script: str, *arguments: str) -> str:
    done = ran([sys.executable, "-c", script, *arguments])
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_no_memory_is_a_memory_error_and_leaves_the_accounts_right() -> None:
    for what in ("buffers", "programs", "kernels"):
        run(WITHOUT_MEMORY, what)


def test_a_ledger_without_its_constructor_raises_from_every_method() -> None:
    script = """
from ttmem._native import Ledger
bare = Ledger.__new__(Ledger)
names = [name for name in dir(Ledger) if not name.startswith("__")]
for name in names:
    for arguments in ((), (0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (0, b"", 0, 0, 0)):
        try:
            getattr(bare, name)(*arguments)
        except RuntimeError as error:
            assert "not initialised" in str(error)
        except TypeError:
            pass  # it takes no arguments
        else:
            raise AssertionError(name)
print(len(names))
"""
    assert int(run(script)) > 20


def test_the_map_of_addresses_is_right_to_the_byte_while_thousands_of_ranges_come_and_go() -> None:
    # given circular buffers of three sorts: from one base on, small and scattered, or anywhere
    rng = Random(7)
    for sort in range(3):
        ledger = Ledger()
        process, device = ledger.open_process(), ledger.add_device()
        ledger.bind(process, 0, device)
        ledger.define_cores(process, 1, bytes([1]) + bytes(127))
        depth = [0] * 6001
        live: list[Event] = []
        for number in range(4000):
            # when they come, mostly, then go
            if not live or rng.random() < (0.7 if number < 2500 else 0.3):
                start = 1 if sort == 0 else rng.randrange(1, 5900)
                size = rng.randrange(1, 12) if sort == 1 else rng.randrange(1, 6001 - start)
                event = Event(Op.CB_ALLOC, id=start, size=size, extra=number, address=start)
                event = event._replace(cores=1, flags=rng.choice((0, Flag.DATAFLOW)))
                live.append(event)
                by = 1
            else:
                event = live.pop(rng.randrange(len(live)))._replace(op=Op.CB_FREE)
                by = -1
            for at in range(event.address, event.address + event.size):
                depth[at] += by
            assert ledger.apply(process, event.pack(), 0, EVENT_SIZE, 1) == 1
            # then what is covered is what a plain count says
            if number % 16 == 0 or number > 3900:
                (row,) = grouped_rows(AccountRow, ledger.accounts())
                assert row.cb_cached == sum(map(bool, depth))
                regions = [region for part in ledger.core_map(device) for region in part[3]]
                assert sum(end - start for start, end in regions) == row.cb_cached
                assert all(depth[start] and not depth[end] for start, end in regions)


def test_a_device_with_a_global_circular_buffer_is_not_cleared() -> None:
    # given one that aliases a buffer, and so is in no sum
    ledger = Ledger()
    process, device = ledger.open_process(), ledger.add_device()
    ledger.bind(process, 0, device)
    made = Event(Op.CB_ALLOC, id=1000, size=800, flags=Flag.GLOBAL)
    ledger.apply(process, made.pack(), 0, EVENT_SIZE, 1)

    # when somebody wants the place of the device, before and after it was freed
    before = ledger.clear_device(device, True)
    ledger.apply(process, made._replace(op=Op.CB_FREE).pack(), 0, EVENT_SIZE, 1)

    # then it is kept for as long as something is alive there
    assert (before, ledger.live(), ledger.clear_device(device, True)) == (False, 0, True)


AFTER_A_BURST = """
from ttmem._native import Ledger
from ttmem.events import Event, Op

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

def tell(op, ids):
    for first in range(0, len(ids), 10_000):
        events = b"".join(Event(op, id=n, size=64).pack() for n in ids[first : first + 10_000])
        assert ledger.apply(process, events, 0, len(events), 1) * 64 == len(events)

ledger = Ledger()
process, device = ledger.open_process(), ledger.add_device()
ledger.bind(process, 0, device)
tell(Op.ALLOC, range(1, 10_001))
tell(Op.FREE, range(2, 10_001))
before = resident()
tell(Op.ALLOC, range(2, 300_001))
full = resident()
tell(Op.FREE, [n for n in range(2, 300_001) if n % 100_000])
ledger.trim()
print((full - before) >> 20, (resident() - before) >> 20, ledger.live())
"""


def test_the_memory_of_a_burst_is_returned_while_some_of_it_lives_on() -> None:
    done = ran([sys.executable, "-c", AFTER_A_BURST], check=True)

    full, after, live = map(int, done.stdout.split())
    assert live == 4
    assert full >= 20  # MiB
    assert after <= 2


def test_returning_memory_changes_no_account() -> None:
    random = Random(11)
    plain, trimmed = Ledger(seed=1), Ledger(seed=1)
    for ledger in (plain, trimmed):
        ledger.bind(ledger.open_process(), 0, ledger.add_device())
    held: list[int] = []
    for most in (9_000, 10, 5_000, 3_000, 0, 7_000, 100):
        while len(held) != most:
            if len(held) < most:
                held.append(random.randrange(1 << 40))
                event = Event(Op.ALLOC, id=held[-1], size=64).pack()
            else:
                gone = held.pop(random.randrange(len(held)))
                event = Event(Op.FREE, id=gone).pack()
            for ledger in (plain, trimmed):
                ledger.apply(0, event, 0, EVENT_SIZE, 1)
            if random.random() < 0.001:
                trimmed.trim()
        assert trimmed.save() == plain.save()
