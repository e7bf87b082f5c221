"""The law of the merged books, against a plain oracle: every byte counts once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import BORN, NOW, alloc, facts, region, report, slot
from ttmem.events import Amounts, DeviceDeclaration, DeviceSample, MemoryKind, Owner, ProcessSample
from ttmem.ledger import Books
from ttmem.snapshots import from_json, to_json

Place = tuple[int, int | None, str]  # pid, start time, device
Told = dict[Place, dict[MemoryKind, int]]
KINDS = (MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL)
AMOUNTS = st.integers(0, 1 << 44)
COUNTERS = st.builds(Amounts, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
PIDS = st.integers(101, 105)
DEVICES = ("9000", "9001")
SLOTS = st.lists(
    st.builds(slot, PIDS, COUNTERS, st.sampled_from(Owner)), max_size=6, unique_by=lambda s: s.pid
)
READINGS = st.fixed_dictionaries({}, optional=dict.fromkeys(DEVICES, SLOTS))
REPORTS = st.lists(
    st.tuples(PIDS, st.sampled_from([0, 1]), st.sampled_from(KINDS), AMOUNTS),
    max_size=8,
)


@settings(deadline=None)
@given(first=READINGS, latest=READINGS, reports=REPORTS, versions=st.sampled_from([2, 3, 4]))
def test_every_byte_counts_once(
    first: dict[str, list[ProcessSample]],
    latest: dict[str, list[ProcessSample]],
    reports: list[tuple[int, int, MemoryKind, int]],
    versions: int,
) -> None:
    books = Books()
    processes = {}
    told: Told = {}
    books.sample(_reading(first, versions), (), NOW)
    for id, (pid, number, kind, size) in enumerate(reports, 1):
        if pid not in processes:
            processes[pid] = books.open_process(facts(pid))
            for n, unique_id in enumerate(DEVICES):
                books.declare(processes[pid], DeviceDeclaration(n, unique_id))
        amount = min(size, 1 << 40) or 1
        report(books, processes[pid], alloc(amount, id, number, kind))
        account = told.setdefault((pid, BORN, DEVICES[number]), {})
        account[kind] = account.get(kind, 0) + amount
    books.sample(_reading(latest, versions), (), NOW + 1)

    picture = books.snapshot(NOW + 1)
    expected = _oracle(latest, told)
    found = {
        (p.pid, p.start_time_ns, unique_id): held
        for p in picture.processes
        for unique_id, held in p.devices.items()
    }
    checked = {
        (p.pid, p.start_time_ns, unique_id)
        for p in picture.processes
        for unique_id in p.cross_check
    }
    assert found == expected
    assert checked <= told.keys()
    for device in picture.devices:
        memory = device.memory
        shares = [held for (*_, where), held in found.items() if where == device.unique_id]
        for name in ("dram", "l1", "l1_small", "trace"):
            use = getattr(memory, name)
            assert use.held == sum(getattr(share, name) for share in shares)
            assert use.peak is None or use.held <= use.peak  # None: of events and counters together
        assert memory.cb.used == sum(share.cb for share in shares)
        assert device.l1_used == sum(share.l1_used for share in shares)
        assert device.l1_peak is None or device.l1_used <= device.l1_peak
    assert from_json(to_json(picture)) == picture


def _reading(reading: dict[str, list[ProcessSample]], version: int) -> list[DeviceSample]:
    return [
        region(name, *slots, version=version, number=DEVICES.index(name))
        for name, slots in reading.items()
    ]


def _oracle(reading: dict[str, list[ProcessSample]], told: Told) -> dict[Place, Amounts]:
    """Events where there are any; else the slot, if its process is alive."""
    dram, l1, l1_small = KINDS
    out = {
        place: Amounts(kinds.get(dram, 0), kinds.get(l1, 0), kinds.get(l1_small, 0), 0, 0)
        for place, kinds in told.items()
    }
    for unique_id, slots in reading.items():
        for process in slots:
            if process.owner.counts:
                c = process.counters
                place = (process.pid, process.start_time_ns, unique_id)
                out.setdefault(place, c)
    return out
