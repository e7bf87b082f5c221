from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.views.builders import (
    MIB,
    N300_L1,
    device,
    everything,
    process,
    seed_004_device,
    watched_in_part,
    with_owner,
)
from tests.views.builders import snapshot as make_snapshot
from tests.views.cases import CASES, one_device
from ttmem.events import Amounts
from ttmem.sizes import human
from ttmem.snapshots import Losses, Snapshot
from ttmem.views.device_lines import device_cells
from ttmem.views.devices import Sheet
from ttmem.views.names import DeviceNames
from ttmem.views.ps import render
from ttmem.views.selection import select


def table(snapshot: Snapshot, width: int = 120) -> str:
    return render(snapshot, width=width, color=False)


def test_the_figures_of_seed_004_fit_its_own_capacity() -> None:
    shown = table(with_owner(seed_004_device()))
    assert "159.8 MiB / 171.6 MiB" in shown
    assert "= L1 819 B + L1_SMALL 1.3 MiB" in shown
    assert "+ CB 158.5 MiB demand" in shown
    assert "over capacity" not in shown


@pytest.mark.parametrize("width", [80, 120, 200])
def test_kernel_figures_of_a_device_that_is_watched_in_part_are_marked(width: int) -> None:
    shown = render(watched_in_part(), width=width, color=False, kernels=True)
    code, by_type = shown.split("KERNEL CODE")[1].split("KERNELS BY TYPE")
    assert "partial" in code
    assert "all (partial)" in by_type
    assert "kernel figures are partial; they miss kernels of processes that" in by_type


def test_kernel_code_is_in_no_sum() -> None:
    shown = table(with_owner(seed_004_device()))
    assert "173.8 MiB" in shown
    assert "333.6 MiB" not in shown


def test_the_same_on_a_real_n300_says_how_much_too_much_and_by_whom() -> None:
    shown = " ".join(table(with_owner(seed_004_device(N300_L1))).split())
    assert "159.8 MiB / 85.0 MiB !" in shown
    assert "over capacity" in shown
    assert "74.8 MiB more than the 85.0 MiB that can be allocated; pid 41235" in shown
    assert "188%" not in shown


@pytest.mark.parametrize("name", CASES)
def test_processes_and_devices_add_up_to_the_same(name: str) -> None:
    snapshot = CASES[name]()
    held = Amounts.total(h for process in snapshot.processes for h in process.devices.values())
    assert held == Amounts.total(device.memory.amounts for device in snapshot.devices)


def test_there_is_no_kernel_column_in_the_process_table() -> None:
    _, _, processes = table(CASES["four_devices"]()).partition("PROCESSES")
    assert "ernel" not in processes.split("LEFT BEHIND")[0]


def test_the_largest_process_comes_first() -> None:
    shown = table(CASES["four_devices"]())
    assert shown.index("41235") < shown.index("42001")


def test_one_process_of_many_is_shown_beside_what_its_device_holds() -> None:
    shown = table(select(CASES["four_devices"](), [], [42001]))
    rows = [
        line.split()[:3] for line in shown.split("\n") if line.startswith((" total", "   total"))
    ]
    assert rows == [["total", "2.0", "GiB"]]
    assert ["devices", "4.5", "GiB"] in [line.split()[:3] for line in shown.split("\n")]


def test_losses_are_shown_only_if_there_are_any() -> None:
    quiet = make_snapshot()
    lossy = replace(quiet, losses=Losses(dropped_events=3, gaps=1, rejected_records=2))
    assert "!" not in table(quiet)
    assert " ! lost: 3 events were dropped; a resend corrects" in table(lossy)
    assert " ! 2 records were rejected and not counted (the server's log" in table(lossy)


def test_losses_name_the_processes_with_most_of_them() -> None:
    dropped = [process(n, None, {}, dropped=n) for n in (1, 2, 30, 4)]
    lossy = make_snapshot(processes=dropped, losses=Losses(37, 4, 0))
    assert "lost: 37 events were dropped (pids 30, 4, 2 and 1 more);" in table(lossy)


def test_buffers_that_no_resend_can_name_are_no_lost_events() -> None:
    lossy = make_snapshot(processes=[process(7, None, {}, overflow=5)], losses=Losses(5, 0, 0))
    shown = table(lossy)
    assert "lost: 5 live buffers are beyond what a client can resend (pid 7);" in shown
    assert "dropped" not in shown


def test_losses_of_others_are_not_named_beside_a_choice() -> None:
    whole = replace(CASES["four_devices"](), losses=Losses(1_300, 2, 9))
    for pid, said in ((42001, None), (41235, "lost: 1,204 events were")):
        shown = render(select(whole, [], [pid]), width=120, color=False, chosen=True)
        assert (said in shown) if said else ("lost" not in shown)
        assert "rejected" not in shown


def test_an_unknown_capacity_says_why() -> None:
    shown = table(CASES["unknown_capacities"]())
    assert "3.0 GiB / N/A" in shown
    assert "capacity N/A on devices 0-1: no client declared this device" in shown


def test_two_devices_that_two_processes_both_call_0_are_told_apart() -> None:
    devices = [device(0, unique_id=name, l1=MIB) for name in ("11112222", "33334444")]
    owners = [process(n, "python", {d.unique_id: everything(d)}) for n, d in enumerate(devices)]
    shown = table(make_snapshot(devices, owners)).partition("PROCESSES")[2]
    assert "11112222" in shown
    assert "33334444" in shown


def test_devices_stand_in_the_order_of_their_numbers() -> None:
    snapshot = make_snapshot([device(None, unique_id="last"), device(10), device(2)])
    shown = [line.split()[0] for line in table(snapshot, 200).split("\n") if "n300" in line]
    assert shown == ["2", "10", "N/A"]


def test_colour_is_codes_around_the_same_text() -> None:
    snapshot = CASES["four_devices"]()
    coloured = render(snapshot, width=100, color=True)
    without = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    plain = [line.rstrip() for line in without.split("\n")]
    assert without != coloured
    assert plain == render(snapshot, width=100, color=False).split("\n")


def test_changes_since_the_previous_refresh_are_signed_and_the_largest_is_first() -> None:
    before = one_device()
    (first, *others) = before.processes
    (chip, held), *_ = first.devices.items()
    grown = replace(first, devices={chip: held._replace(dram=held.dram + 12 * MIB, l1=0)})
    new = process(77, "python new.py", {chip: Amounts(MIB, 0, 0, 0, 0)})
    now = replace(before, processes=(grown, *others, new))

    text = render(now, previous=before, width=120, color=False)

    lines = text[text.index("CHANGES") :].splitlines()
    assert lines[0] == "CHANGES  since the previous refresh"
    assert lines[2].split()[:5] == [str(first.pid), "alice", "0", "+12.0", "MiB"]
    assert f"-{human(held.l1)}" in lines[2]
    assert lines[3].split()[:5] == ["77", "alice", "0", "+1.0", "MiB"]


def test_where_nothing_changed_it_says_so() -> None:
    text = render(one_device(), previous=one_device(), width=120, color=False)
    assert "CHANGES  since the previous refresh\n nothing\n" in text


def test_changes_give_up_their_commands_where_processes_do() -> None:
    before = CASES["sixty_processes"]()
    grown = [
        replace(one, devices={chip: held._replace(dram=held.dram + MIB)})
        for one in before.processes[:4]
        for chip, held in [next(iter(one.devices.items()))]
    ]
    now = replace(before, processes=(*grown, *before.processes[4:]))

    text = render(now, previous=before, width=80, color=False, height=24)

    changes = text[text.index("CHANGES") :].splitlines()
    assert [line.split()[0] for line in changes[2:6]] == [str(one.pid) for one in grown]
    assert "commands" in changes[-1]
    assert not any("python" in line for line in changes)


def test_kernels_of_one_source_keep_their_processor_in_a_narrow_window() -> None:
    snapshot = CASES["four_devices"]()
    assert snapshot.kernels is not None
    source = "bmm_large_block_zm_fused_bias_activation_gathered"
    first, second, *_ = snapshot.kernels
    kernels = tuple(
        one._replace(name=f"{source}/{processor}")
        for one, processor in ((first, "trisc0"), (second, "trisc1"))
    )

    text = render(replace(snapshot, kernels=kernels), width=80, color=False, kernels=True)

    listed = text[text.index("KERNELS  largest") :].splitlines()[2:4]
    assert sorted(line.split("…")[1] for line in listed) == ["/trisc0", "/trisc1"]


@pytest.mark.parametrize("width", range(40, 121))
def test_a_cell_of_a_device_is_shown_whole_or_not_at_all(width: int) -> None:
    devices = CASES["thirty_two_devices"]().devices
    area = device_cells(Sheet(devices, width, DeviceNames(devices)))

    lines = ["".join(span.text for span in line) for line in area.lines]

    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert sum(line.count("%") for line in lines) == 2 * len(devices)


@pytest.mark.slow  # draws 540 tables
@pytest.mark.parametrize("name", ["four_devices", "thirty_two_devices", "sixty_processes"])
def test_no_amount_is_cut_in_any_window(name: str) -> None:
    snapshot = CASES[name]()
    cut_amount = re.compile(r"\d\.\d? ?[KMGT]?i?…")

    cut = {
        (width, height)
        for width in range(40, 130)
        for height in (None, 24)
        if cut_amount.search(render(snapshot, width=width, color=False, height=height))
    }

    assert cut == set()
