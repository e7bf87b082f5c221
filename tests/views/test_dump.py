from __future__ import annotations

from dataclasses import replace

from tests.views.builders import KIB, MIB, device, process, snapshot, use
from tests.views.cases import dump_case, four_devices
from ttmem.commands.dump import with_boards
from ttmem.events import Amounts
from ttmem.snapshots import Buffer, LeftBehind, Snapshot
from ttmem.views.dump import NOTHING, SHARED, render_dump
from ttmem.views.dump_document import dump_devices
from ttmem.views.groups import site_groups
from ttmem.views.ps import render


def test_groups_are_per_kind_and_process_largest_first() -> None:
    (found,) = dump_devices(dump_case(), top=10)
    assert [(group["kind"], group["pid"], group["count"]) for group in found["memory"]] == [
        ("DRAM", 41235, 8),
        ("CB", 41235, 3),
        ("L1", 41235, 1),
        ("DRAM", 42001, 1),
    ]


def test_requested_and_held_stand_side_by_side() -> None:
    (found,) = dump_devices(dump_case(), top=10)
    assert [(group["requested"], group["held"]) for group in found["memory"][:2]] == [
        (36 * MIB, 36 * MIB + 4096),
        (6 * MIB, 3 * MIB),  # three programs share addresses
    ]


def test_shares_of_one_kind_add_up_to_all_of_it() -> None:
    (found,) = dump_devices(dump_case(), top=10)
    assert sum(group["share"] for group in found["memory"] if group["kind"] == "DRAM") == 1.0


def test_only_the_largest_entries_are_listed_and_the_rest_is_summed() -> None:
    (found,) = dump_devices(dump_case(), top=3)
    weights = found["memory"][0]
    assert [entry["requested"] // MIB for entry in weights["largest"]] == [8, 7, 6]
    assert weights["rest"] == 15 * MIB


def test_top_0_lists_all() -> None:
    (found,) = dump_devices(dump_case(), top=0)
    assert len(found["memory"][0]["largest"]) == 8


def test_kernels_stand_apart_from_memory() -> None:
    (found,) = dump_devices(dump_case(), top=1)
    assert [(group["kind"], group["held"], group["counted"]) for group in found["kernels"]] == [
        ("Application kernels", 8000 * KIB, False),
        ("Fabric kernels", 896 * KIB, False),
    ]


def test_a_global_circular_buffer_is_not_added_to_the_buffer_it_lies_on() -> None:
    case = dump_case()
    first, *rows = case.circular_buffers or ()
    rows = [first._replace(is_global=True), *rows]
    (found,) = dump_devices(replace(case, circular_buffers=tuple(rows)), top=0)
    (group,) = [group for group in found["memory"] if group["kind"] == "CB"]
    assert (group["count"], group["requested"], len(group["largest"])) == (2, 5 * MIB, 2)


def test_a_circular_buffer_counts_as_often_as_the_device_counts_it() -> None:
    case = dump_case()
    rows = tuple(row._replace(references=2) for row in case.circular_buffers or ())
    (found,) = dump_devices(replace(case, circular_buffers=rows), top=0)
    (group,) = [group for group in found["memory"] if group["kind"] == "CB"]
    assert (group["count"], group["requested"]) == (6, 12 * MIB)


def test_a_process_that_is_known_by_sums_only_is_listed_too() -> None:
    found = dump_devices(four_devices().without_details(), top=10)
    assert {group["count"] for dump in found for group in dump["memory"]} == {None}
    assert len(found) == 4


def test_equal_sizes_are_listed_by_id() -> None:
    case = dump_case()
    rows = tuple(row._replace(requested=MIB) for row in reversed(case.buffers or ()))

    (found,) = dump_devices(replace(case, buffers=rows), top=3)

    assert [entry["id"] for entry in found["memory"][0]["largest"]] == [0x1000, 0x2000, 0x3000]


def _leaks(chips: int, count: int) -> Snapshot:
    """One line of code holds `count` tensors on each chip, another one holds one."""
    devices = [device(n, dram=use((count + 2) * MIB)) for n in range(chips)]
    buffers = [
        Buffer(
            7, device.unique_id, "DRAM", n, 0x1000 * n, requested=MIB, name="ttnn.matmul", site=site
        )
        for device in devices
        for n in range(count + 1)
        for site in ["/src/model.py:14 forward" if n else "/src/model.py:3 load"]
    ]
    held = {device.unique_id: Amounts((count + 2) * MIB, 0, 0, 0, 0) for device in devices}
    return snapshot(devices, [process(7, "python model.py", held)], buffers=tuple(buffers))


def test_the_leak_of_one_line_is_one_row_at_the_top_and_counts_a_meshs_copies_once() -> None:
    case = _leaks(chips=4, count=205)

    text = render_dump(case, width=120, color=False)

    head, first, second, rest = text[text.index(" KIND") :].splitlines()[:4]
    assert head.split() == ["KIND", "HELD", "COUNT", "DEVICES", "PID", "ALLOCATED", "BY", "COMMAND"]
    assert first.split() == [
        "DRAM",
        "820.0",
        "MiB",
        "205",
        "0-3",
        "7",
        "ttnn.matmul",
        "/src/model.py:14",
        "forward",
        "model.py",
    ]
    assert second.split()[:5] == ["DRAM", "4.0", "MiB", "1", "0-3"]
    assert rest.split() == [
        "DRAM",
        "4.0",
        "MiB",
        "N/A",
        "0-3",
        "7",
        "known",
        "only",
        "as",
        "a",
        "total",
        "model.py",
    ]
    assert " total 828.0 MiB in 3 rows" in text


def test_all_lists_each_buffer_on_each_chip() -> None:
    case = _leaks(chips=2, count=3)

    text = render_dump(case, single=True, width=120, color=False)

    assert text.count("model.py:14") == 6
    assert "0x2000" in text


def test_only_the_largest_rows_are_shown_and_the_rest_is_summed() -> None:
    case = dump_case()
    text = render_dump(case, top=3, width=120, color=False)
    assert " and 8 more rows, 21.0 MiB; --top 0 lists all" in text


def test_file_and_line_are_the_last_to_be_cut() -> None:
    case = _leaks(chips=1, count=1)
    rows = tuple(row._replace(name="ttnn." + "very_" * 9 + "long_op") for row in case.buffers or ())
    long = replace(case, buffers=rows)

    text = render_dump(long, width=80, color=False)

    assert "model.py:14" in text


def test_the_rows_add_up_to_what_the_devices_hold() -> None:
    for case in (dump_case(), four_devices(), _leaks(4, 5)):
        held = sum(device.memory.amounts.all for device in case.devices)
        assert sum(row.held for row in site_groups(case)) == held


def test_the_title_counts_the_devices_that_ps_shows() -> None:
    case = dump_case()
    blank = device(1, unique_id="77", board=None, dram=use(0), l1_capacity=None)
    busy = replace(case, devices=(*case.devices, blank))

    dump = render_dump(busy, width=120, color=False)

    assert dump.split("\n")[0] == render(busy, width=120, color=False).split("\n")[0]
    assert "1 device, 2 processes" in dump


def test_an_ended_process_has_the_board_that_its_chip_is_known_by() -> None:
    now = dump_case()
    (known,) = now.devices
    ended = replace(now, devices=(replace(known, board=None, pci=None),))

    (named,) = with_boards(ended, now).devices

    assert (named.board, named.pci) == (known.board, known.pci)


def test_what_a_killed_process_never_freed_is_listed_once() -> None:
    case = _leaks(chips=1, count=2)
    left = LeftBehind(7, "python", case.time_ns, case.processes[0].devices)
    now = snapshot(case.devices, left_behind=[left])

    text = render_dump(now, never_freed=case, ended_ns={7: case.time_ns}, width=120, color=False)

    assert "NEVER FREED" in text
    assert "LEFT BEHIND" not in text


def test_nothing_left_is_said_plainly() -> None:
    empty = snapshot()
    assert NOTHING in render_dump(empty, width=80, color=False)


def test_circular_buffers_that_hold_less_than_was_asked_for_are_explained() -> None:
    case = dump_case()
    text = render_dump(case, width=200, color=False)
    assert SHARED in text


def test_where_nothing_is_shared_nothing_is_explained() -> None:
    case = dump_case()
    single = replace(case, circular_buffers=())
    text = render_dump(single, width=200, color=False)
    assert SHARED not in text


def test_the_chips_of_a_galaxy_have_one_line_in_the_legend() -> None:
    chips = [
        replace(device(n, board="galaxy", dram=use(MIB)), position=f"T1:N{n}") for n in range(8)
    ]
    held = {chip.unique_id: Amounts(MIB) for chip in chips}
    text = render_dump(snapshot(chips, [process(7, "python a.py", held)]), width=80, color=False)
    assert " devices 0-7 galaxy wormhole\n KIND" in text


def test_the_module_of_operations_is_left_out_of_all_rows_or_of_none() -> None:
    chip = four_devices().devices[0]
    places = (("ttnn.empty", "a.py:1 f"), ("ttnn.softmax", "a_module_with_a_name.py:1234 load"))
    buffers = tuple(
        Buffer(7, chip.unique_id, "DRAM", n, 4096 * n, MIB, MIB, name=op, site=site)
        for n, (op, site) in enumerate(places, 1)
    )
    held = {chip.unique_id: Amounts(2 * MIB, 0, 0, 0, 0)}
    case = snapshot([chip], [process(7, "python model.py", held)], buffers=buffers)

    shown = [render_dump(case, width=width, color=False).count("ttnn.") for width in range(80, 130)]

    assert {*shown} == {0, 2}
