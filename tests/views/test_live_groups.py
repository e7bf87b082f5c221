"""Live bytes by who made them: every byte of the sums is in one group."""

from __future__ import annotations

from dataclasses import replace
from datetime import timezone
from typing import Any

import pytest

from tests.views.builders import device, process, snapshot, use
from tests.views.cases import four_devices
from tests.views.monitor.monitors import draw, look_at
from tests.views.test_pictures import compare
from ttmem.events import Amounts
from ttmem.snapshots import Buffer, Snapshot
from ttmem.views.groups import What, group_document, live_groups, render_groups, site_groups
from ttmem.views.monitor.pages.buffers import BuffersPage

KIB = 1024
MIB = 1024 * KIB


def buffer(kind: str, size: int, **more: Any) -> Buffer:
    return Buffer(41235, None, kind, requested=size, **more)


ROWS = [
    buffer("DRAM", 6 * MIB, name="ttnn.matmul", site="model.py:12 attention", phase="prefill"),
    buffer("DRAM", 1 * MIB, reserved=2 * MIB, name="ttnn.add", site="model.py:14 attention"),
    buffer("L1", 64 * KIB, name="ttnn.add", site="model.py:14 attention", phase="decode"),
    buffer("L1_SMALL", 4 * KIB, name=None, site=None),
    buffer("TRACE", 512 * KIB, name="ttnn.end_trace_capture", site="model.py:90 warm_up"),
    buffer("SYSTEM_MEMORY", 99 * MIB, name="ttnn.from_torch", site="model.py:3 <module>"),
]
HELD = Amounts(8 * MIB, 64 * KIB, 4 * KIB, 512 * KIB, 3 * MIB)


def watched() -> Snapshot:
    """One process, all of whose buffers are known."""
    picture = four_devices()
    device, process = picture.devices[0], picture.processes[0]
    owner = replace(process, pid=41235, devices={device.unique_id: HELD})
    rows = tuple(row._replace(device=device.unique_id) for row in ROWS)
    return replace(picture, devices=(device,), processes=(owner,), buffers=rows)


def with_a_stranger() -> Snapshot:
    """And one of which counters tell sums."""
    picture = watched()
    stranger = replace(
        picture.processes[0],
        pid=42001,
        devices={picture.devices[0].unique_id: Amounts(7 * MIB, 0, 0, 0, 1 * MIB)},
    )
    return replace(picture, processes=(*picture.processes, stranger))


def test_reserved_bytes_count_where_they_are_known() -> None:
    groups = {group.key: group for group in live_groups(watched(), "op").groups}

    assert groups["ttnn.add"].held == Amounts(2 * MIB, 64 * KIB)
    assert groups["ttnn.add"].count == 2


def test_memory_of_the_host_is_in_no_group() -> None:
    assert "ttnn.from_torch" not in {group.key for group in live_groups(watched(), "op").groups}


@pytest.mark.parametrize("by", ["site", "op", "phase", "pid"])
@pytest.mark.parametrize("case", [watched, with_a_stranger])
def test_groups_add_up_to_what_processes_hold(by: str, case: Any) -> None:
    picture = case()
    grouped = live_groups(picture, by)
    held = [held for process in picture.processes for held in process.devices.values()]

    assert Amounts.total(group.held for group in grouped.groups) == Amounts.total(held)
    assert grouped.total.held == Amounts.total(held)


def test_what_only_sums_tell_of_is_a_group_of_its_own() -> None:
    (rest,) = [g for g in live_groups(with_a_stranger(), "site").groups if g.what is What.SUMS]

    assert (rest.held.dram, rest.count) == (7 * MIB, None)


def test_a_process_has_its_circular_buffers_to_itself() -> None:
    groups = live_groups(with_a_stranger(), "pid").groups

    assert {group.key: group.held.cb for group in groups} == {41235: 3 * MIB, 42001: 1 * MIB}
    assert {group.key: group.count for group in groups} == {41235: 5, 42001: None}


def test_nothing_held_is_no_group() -> None:
    picture = replace(watched(), processes=(), buffers=())

    assert live_groups(picture, "site").groups == ()
    assert "nothing is allocated" in render_groups(
        picture, live_groups(picture, "site"), width=80, color=False, zone=timezone.utc
    )


def test_json_has_bytes_and_null_for_what_is_unknown() -> None:
    picture = with_a_stranger()
    document = group_document(picture, live_groups(picture, "site"))

    assert document["schema"] == "ttmem.groups/1"
    first, *_ = document["groups"]
    assert (first["site"], first["dram"], first["count"]) == ("model.py:12 attention", 6 * MIB, 1)
    assert first["share"] == {"dram": 6 / 15, "l1_used": 0.0}
    assert document["total"]["count"] is None


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (True, "outside any operation"),
        (False, "operations are not recorded"),
        (None, "no operation is known"),
    ],
)
def test_of_buffers_without_an_operation_only_what_is_known_is_told(
    recorded: bool | None, said: str
) -> None:
    picture = watched()
    (process,) = picture.processes
    picture = replace(picture, processes=(replace(process, call_sites=recorded),))
    text = render_groups(picture, live_groups(picture, "op"), width=120, color=False)

    (row,) = [line for line in text.splitlines() if " 4.0 KiB" in line]
    assert row.endswith(said)


@pytest.mark.parametrize("width", [80, 120, 50])
@pytest.mark.parametrize("by", ["site", "phase", "pid"])
def test_groups_look_as_they_did(by: str, width: int) -> None:
    picture = with_a_stranger()
    grouped = live_groups(picture, by)
    text = render_groups(picture, grouped, width=width, color=False, zone=timezone.utc)

    assert max(map(len, text.splitlines())) <= width
    compare(f"groups-{by}-{width}", text)


def two_submeshes(site: str) -> Snapshot:
    """One line allocates a tensor on each: different ones, at the same address, each with two copies."""
    chips = [device(number, dram=use(MIB)) for number in range(4)]
    buffers = [
        Buffer(7, chip.unique_id, "DRAM", 1 + number // 2, 0x1000, MIB, site=site + str(number))
        for number, chip in enumerate(chips)
    ]
    held = {chip.unique_id: Amounts(MIB) for chip in chips}
    return snapshot(chips, [process(7, "python model.py", held)], buffers=tuple(buffers))


def test_all_views_by_call_site_group_and_count_alike() -> None:
    case = two_submeshes(site="model.py:14 forward\nmain.py:3 run ")  # with the callers

    (group,) = live_groups(case, "site").groups
    (row,) = site_groups(case)
    (line,) = [line for line in draw(BuffersPage(), look_at(case, 160)) if "model.py:14" in line]

    assert (group.key, group.held.dram, group.count) == ("model.py:14 forward", 4 * MIB, 2)
    assert (row.held, row.count) == (4 * MIB, 2)
    assert line.strip(">").split()[:5] == ["4.0", "MiB", "0", "B", "2"]
