"""Servers that are absent, late, stopped, killed and restarted: the accounts heal exactly."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.accounts import GLOBAL, HIT, MISS, Accounts
from tests.client.conftest import MakeClient, MakePeer, MakePeerProcess, Settle
from tests.client.peer import MARKER, Peer, PeerProcess
from tests.patience import wait_until
from ttmem.client import AllocationClient, BinaryStatus, KernelType, MemoryKind
from ttmem.client.outbox import ABSORB_AT, CROWDED
from ttmem.events import Op

CORES = [None, ((0, 0, 3, 3),), ((0, 0, 0, 0), (2, 2, 3, 2))]
CORE_COUNTS = [1, 16, 3]


def allocate(client: AllocationClient, numbers: range) -> None:
    for number in numbers:
        client.report_allocation(0, number, 64, MemoryKind.L1)


def expected(numbers: range) -> list[list[int]]:
    return [[0, 1, number, 64, 1] for number in numbers]


def buffers_of(peer: Peer | PeerProcess) -> object:
    return (peer.picture() or {}).get("buffers")


def test_what_was_allocated_before_the_server_started_is_told_when_it_comes(
    client: AllocationClient, make_peer: MakePeer
) -> None:
    allocate(client, range(100))
    assert not client.flush(0.15)

    peer = make_peer()

    wait_until(lambda: buffers_of(peer) == expected(range(100)))
    assert client.stats().dropped == 0


def test_a_server_that_is_there_sees_everything_from_the_first_event_on(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    for number in range(100):
        client.report_allocation(0, number, 64)
        client.report_deallocation(0, number)
    settle()

    session = peer.session()
    assert session is not None
    assert [event[:3] for event in session.events[:200]] == [(1, 0, 0), (2, 0, 1)] * 100


def test_who_ran_last_is_told_again_in_order(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    client.report_kernel_load(0, 7, 64, program_id=3)
    for program in (1, 2, 4, 1):
        client.report_program_dispatch(0, program, True, ((0, 0, program, 0),))
    client.report_kernel_load(0, 7, 64, program_id=3)  # a dispatch
    client.report_program_destroy(0, 4)
    settle()

    peer.hang_up()
    settle()

    session = peer.session()
    assert session is not None
    dispatched = [event[5] for event in session.events if event[0] == Op.PROGRAM_DISPATCH]
    assert dispatched == [2, 1, 3]
    assert session.accounts.counters == {0: [1, 0, 5, 4, 0]}


def test_a_server_that_stays_away_is_logged_once(
    client: AllocationClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    allocate(client, range(3))
    assert not client.flush(0.5)  # several tries

    assert [record.getMessage() for record in caplog.records] == [
        f"ttmem: no server at {path}; start one with `ttmem serve --socket {path}`"
    ]


def test_a_stopped_server_does_not_stop_the_caller_and_heals(
    make_client: MakeClient, make_peer_process: MakePeerProcess
) -> None:
    peer = make_peer_process()
    client = make_client(queue_limit=10_000)
    allocate(client, range(10))
    assert client.flush(10)

    peer.send_signal(signal.SIGSTOP)
    for number in range(1000, 100_000):  # far more than sockets and queue hold
        client.report_allocation(0, number, 64, MemoryKind.L1)
        client.report_deallocation(0, number, MemoryKind.L1)
    allocate(client, range(10, 17))
    wait_until(lambda: client.stats().dropped > 0)
    assert client.stats().queued <= 10_000 + CROWDED + 2 * ABSORB_AT
    peer.send_signal(signal.SIGCONT)

    wait_until(lambda: buffers_of(peer) == expected(range(17)))
    wait_until(lambda: peer.fact("lost") == [client.stats().dropped, 0])
    assert client.stats().resyncs >= 2
    assert peer.fact("complaints") == []


def test_a_server_that_never_answers_does_not_stop_the_caller(
    client: AllocationClient, make_peer: MakePeer
) -> None:
    peer = make_peer(silent=True)
    allocate(client, range(10))
    wait_until(lambda: peer.session())

    allocate(client, range(100_000))

    assert not client.flush(0.1)
    assert client.stats().connected is False


def test_a_killed_server_is_told_everything_when_it_is_back(
    client: AllocationClient, make_peer_process: MakePeerProcess
) -> None:
    first = make_peer_process()
    allocate(client, range(1000))
    assert client.flush(10)
    wait_until(lambda: buffers_of(first) == expected(range(1000)))

    first.kill()
    for number in range(500):
        client.report_deallocation(0, number, MemoryKind.L1)
    second = make_peer_process()

    wait_until(lambda: buffers_of(second) == expected(range(500, 1000)))
    assert second.fact("complaints") == []


def test_a_full_queue_drops_counts_and_heals(make_client: MakeClient, peer: Peer) -> None:
    client = make_client(queue_limit=5000)
    allocate(client, range(10))
    assert client.flush(10)
    peer.reading.clear()

    number = 10
    while client.stats().dropped == 0:
        allocate(client, range(number, number + 1000))
        number += 1000
    client.report_deallocation(0, 0, MemoryKind.L1)
    peer.reading.set()

    wait_until(lambda: buffers_of(peer) == expected(range(1, number)))
    session = peer.session()
    assert session is not None
    wait_until(lambda: session.lost == (client.stats().dropped, 0))
    assert client.flush(5)


def test_events_during_a_long_resync_come_after_it(client: AllocationClient, peer: Peer) -> None:
    peer.reading.clear()
    allocate(client, range(50_000))
    wait_until(lambda: client.stats().connected)

    for number in range(40_000):
        client.report_deallocation(0, number, MemoryKind.L1)
    peer.reading.set()

    wait_until(lambda: buffers_of(peer) == expected(range(40_000, 50_000)))
    session = peer.session()
    assert session is not None
    assert session.accounts.unknown_frees == 0


def test_names_that_come_during_a_resync_are_declared_in_time(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    for number in range(2000):
        client.report_allocation(0, number, 64, MemoryKind.L1, site=f"model.py:{number}")
        if number % 500 == 0:
            peer.hang_up()
    settle()

    session = peer.session()
    assert session is not None
    assert set(session.strings.values()) >= {f"model.py:{number}" for number in range(2000)}


Operation = Callable[[AllocationClient, Accounts], None]
devices = st.integers(0, 1)
few = st.integers(0, 3)
sizes = st.sampled_from([64, 128])


@st.composite
def buffer_operations(draw: st.DrawFn) -> Operation:
    device, number, size = draw(devices), draw(few), draw(sizes)
    kind = draw(st.sampled_from([MemoryKind.DRAM, MemoryKind.L1]))

    def take(client: AllocationClient, model: Accounts) -> None:
        client.report_allocation(device, number, size, kind)
        model.allocate(device, kind, number, size)

    def give(client: AllocationClient, model: Accounts) -> None:
        client.report_deallocation(device, number, kind)
        model.free(device, kind, number)

    return take if draw(st.booleans()) else give


@st.composite
def cb_operations(draw: st.DrawFn) -> Operation:
    device, address, size, program = draw(devices), draw(few), draw(sizes), draw(few)
    which = draw(st.integers(0, 2))
    total, is_global = size * CORE_COUNTS[which], draw(st.booleans())

    def place(client: AllocationClient, model: Accounts) -> None:
        client.report_cb_allocation(device, address, size, CORES[which], is_global, program)
        model.allocate_cb(device, address, total, program, which, GLOBAL * is_global)

    def remove(client: AllocationClient, model: Accounts) -> None:
        key = (device, address, total, program, which)
        flags = 0 if model.cbs[(*key, 0)] else GLOBAL
        if model.cbs[(*key, flags)]:  # what a free means that matches nothing is tested elsewhere
            client.report_cb_deallocation(device, address, size, CORES[which], program)
            model.free_cb(*key, flags)

    return place if draw(st.booleans()) else remove


@st.composite
def program_operations(draw: st.DrawFn) -> Operation:
    device, number, size, program = draw(devices), draw(few), draw(sizes), draw(few)
    kind, hit = draw(st.sampled_from(KernelType)), draw(st.sampled_from([None, True, False]))
    status = draw(st.sampled_from(BinaryStatus))
    flags = {None: 0, True: HIT, False: MISS}[hit]

    def load(client: AllocationClient, model: Accounts) -> None:
        client.report_kernel_load(device, number, size, kind, 3, program)
        model.load(device, number, size, 3, kind, program)

    def unload(client: AllocationClient, model: Accounts) -> None:
        client.report_kernel_unload(device, number)
        model.unload(device, number)

    def dispatch(client: AllocationClient, model: Accounts) -> None:
        client.report_program_dispatch(device, program, hit)
        model.dispatch(device, flags)

    def destroy(client: AllocationClient, model: Accounts) -> None:
        client.report_program_destroy(device, program)
        model.destroy(device, program)

    def set_status(client: AllocationClient, model: Accounts) -> None:
        client.report_binary_status(device, program, status)
        model.status(device, program, status)

    def set_gauges(client: AllocationClient, model: Accounts) -> None:
        client.report_ring(device, number, size, program, 100, 2)
        model.rings[device] = (number, 100, size, program, 2)
        client.report_cache_entries(device, number)
        model.cache_entries[device] = number

    return draw(st.sampled_from([load, unload, dispatch, destroy, set_status, set_gauges]))


operations = st.lists(
    st.one_of(buffer_operations(), cb_operations(), program_operations()), max_size=40
)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=operations, after=operations, cut=st.booleans())
def test_after_any_history_the_accounts_are_right_live_and_after_a_reconnection(
    path: str, before: list[Operation], after: list[Operation], cut: bool
) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    peer, client, model = Peer(path), AllocationClient(path), Accounts()
    try:
        for cores in CORES[1:]:  # gives them the numbers 1 and 2
            client.report_program_dispatch(MARKER, 1, cores=cores)
        wait_until(lambda: client.stats().resyncs == 1)
        for operation in before:
            operation(client, model)
        if cut:
            peer.hang_up()
        for operation in after:
            operation(client, model)
        client.report_cache_entries(MARKER, 1)
        wait_until(lambda: peer.has_seen(1))
        assert peer.picture() == model.picture()

        peer.hang_up()
        wait_until(lambda: client.stats().resyncs == 2 + cut)
        client.report_cache_entries(MARKER, 2)
        wait_until(lambda: peer.has_seen(2))
        assert peer.picture() == model.picture()
        assert peer.complaints == []
    finally:
        client.close(0)
        peer.close()
