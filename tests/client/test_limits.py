"""Bounds, and arguments that are none."""

from __future__ import annotations

from typing import Any

import pytest

import ttmem.client.declarations as declarations_module
from tests.client.conftest import MakeClient, Settle
from tests.client.peer import Peer
from tests.patience import wait_until
from ttmem.client import AllocationClient, MemoryKind


def test_what_is_beyond_the_limit_is_sent_but_not_remembered(
    make_client: MakeClient, peer: Peer
) -> None:
    client = make_client(live_limit=100)
    client.report_allocation(0, 0, 64)
    assert client.flush(5)
    for number in range(1, 150):
        client.report_allocation(0, number, 64)
    client.report_deallocation(0, 120)
    wait_until(lambda: len((peer.picture() or {})["buffers"]) == 149)
    session = peer.session()
    assert session is not None
    wait_until(lambda: session.lost == (0, 50))

    peer.hang_up()
    wait_until(lambda: client.stats().resyncs == 2)
    client.report_deallocation(0, 0)
    client.report_allocation(0, 500, 64)  # there is room again

    kept = [[0, 0, number, 64, 1] for number in [*range(1, 100), 500]]
    wait_until(lambda: (peer.picture() or {}).get("buffers") == kept)
    assert client.stats().overflow == 50


def test_room_is_given_back_by_whatever_ends_an_entry(make_client: MakeClient, peer: Peer) -> None:
    client = make_client(live_limit=8)
    for turn in range(50):
        client.report_allocation(0, turn, 64)
        client.report_cb_allocation(0, 4096, 64, program_id=turn + 1)
        client.report_cb_allocation(0, 8192, 64)
        client.report_kernel_load(0, turn, 64, program_id=turn + 1)
        client.report_kernel_load(0, 99, 64 + turn % 2)  # the other size replaces
        client.report_binary_status(0, turn + 1, 0)  # type: ignore[arg-type]
        client.report_deallocation(0, turn)
        client.report_cb_deallocation(0, 8192, 64)
        client.report_program_destroy(0, turn + 1)
        client.report_kernel_unload(0, 99)
    assert client.flush(5)

    assert client.stats().overflow == 0


def test_too_many_names_and_core_sets_have_none(
    client: AllocationClient, peer: Peer, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declarations_module, "MOST", 2)

    for number in range(5):
        client.report_allocation(0, number, 64, site=f"line {number % 4}")
        client.report_cb_allocation(0, 64 * number, 10, [(0, 0, number, 0)])
    settle()

    session = peer.session()
    assert session is not None
    sizes = {key[1] // 64: (key[2], key[4]) for key in session.accounts.cbs}
    assert session.strings == {0: "", 1: "line 0", 2: "line 1"}
    assert sizes == {0: (10, 1), 1: (20, 2), 2: (30, 0), 3: (40, 0), 4: (50, 0)}
    assert client.stats().unnamed == 2 + 3


def test_a_long_name_is_cut_and_still_one_name(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    for _ in range(2):
        client.report_kernel_load(0, 1, 64, name="x" * 10_000)
    settle()

    session = peer.session()
    assert session is not None
    assert session.strings == {0: "", 1: "x" * 4096}


class Strange:
    """What an application should not pass as a device."""

    def get_devices(self) -> list[int]:
        raise RuntimeError("the device is closed")


@pytest.mark.parametrize(
    "arguments",
    [
        (0, -1, 64),
        (0, 1 << 64, 64),
        (0, 1, -64),
        (0, 1, None),
        (0, 1.5, 64),
        (0, 1, 64, 9),
        (0, 1, 64, -1),
        (-1, 1, 64),
        (1 << 32, 1, 64),
        (None, 1, 64),
        ("0", 1, 64),
        (Strange(), 1, 64),
        ([], 1, 64),
    ],
)
def test_a_buffer_that_fits_into_no_record_is_counted_and_explained_once(
    client: AllocationClient, arguments: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    client.report_allocation(*arguments)
    client.report_allocation(*arguments)

    told = [r.getMessage() for r in caplog.records if "not reported" in r.getMessage()]
    assert client.stats().dropped == 2
    assert len(told) == 1


@pytest.mark.parametrize(
    "cores", [[(0, 0, 32, 0)], [(1, 0, 0, 0)], [(0, 0, 1)], "grid", -1, 1 << 40]
)
def test_cores_that_are_none_drop_the_event(client: AllocationClient, cores: Any) -> None:
    client.report_cb_allocation(0, 4096, 64, cores)
    client.report_cb_deallocation(0, 4096, 64, cores)
    client.report_kernel_load(0, 1, 64, cores=cores)
    client.report_program_dispatch(0, 1, cores=cores)

    assert client.stats().dropped == 4


def test_bad_numbers_of_any_report_drop_it(client: AllocationClient) -> None:
    bad: Any = None

    client.report_deallocation(0, bad)
    client.report_cb_allocation(0, 4096, bad)
    client.report_cb_deallocation(0, bad, 64)
    client.report_kernel_load(0, bad, 64)
    client.report_kernel_load(0, 1, 64, bad)
    client.report_kernel_load(0, 1, 64, num_cores=-1)
    client.report_kernel_unload(0, bad)
    client.report_program_dispatch(0, bad)
    client.report_program_destroy(0, bad)
    client.report_binary_status(0, 1, bad)
    client.report_ring(0, bad, 0, 0)
    client.report_cache_entries(0, bad)

    assert client.stats().dropped == 12


def test_after_close_nothing_is_reported_and_nothing_fails(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    client.report_allocation(0, 1, 64, MemoryKind.L1)
    settle()

    client.close()
    client.close()
    client.report_allocation(0, 2, 64, MemoryKind.L1)
    client.report_allocation(5, 2, 64, MemoryKind.L1)

    assert peer.picture() is not None
    assert client.stats().connected is False
    assert client.stats().queued == 0
