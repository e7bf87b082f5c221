"""What stays when the window is small."""

from __future__ import annotations

import pytest

from tests.views.builders import device, everything, process, snapshot, use
from tests.views.cases import CASES, everything_at_once, four_devices, sixty_processes
from ttmem.snapshots import Device, Snapshot
from ttmem.text import columns
from ttmem.views.ps import render
from ttmem.views.terminal import cut


def window(picture: Snapshot, height: int, width: int = 80) -> str:
    return render(picture, width=width, color=False, height=height)


@pytest.mark.parametrize("name", CASES)
def test_title_devices_processes_and_the_total_are_seen_at_80_by_24(name: str) -> None:
    shown = window(CASES[name](), 23)
    snapshot = CASES[name]()
    largest = sorted(snapshot.processes, key=lambda p: -sum(h.dram for h in p.devices.values()))
    assert shown.startswith("ttmem · tt-box-7")
    assert ("total" in shown) == bool(snapshot.processes)
    assert [p.pid for p in largest[:1] if str(p.pid) not in shown] == []


def test_hints_go_first_then_kernel_code_then_the_dead() -> None:
    heights = range(len(window(four_devices(), 99).split("\n")), 10, -1)
    shown = [window(four_devices(), height) for height in heights]
    parts = ("hint:", "KERNEL CODE", "LEFT BEHIND", "= L1 ")
    lasts = [max(at for at, text in enumerate(shown) if part in text) for part in parts]
    assert lasts == sorted(lasts)
    assert "1 dead process left memory behind" in window(four_devices(), 23)


def test_what_is_left_out_is_named_with_the_way_to_see_it() -> None:
    last = window(sixty_processes(), 23).split("\n")[-1]
    assert last.startswith("a taller window, --device or --pid shows: 5")
    assert "more processes" in last
    alone = render(sixty_processes(), width=80, color=False, height=23, choices=())
    assert alone.split("\n")[-1].startswith("a taller window shows: 5")


def test_processes_that_are_not_shown_are_added_up_in_one_row() -> None:
    lines = window(sixty_processes(), 23).split("\n")
    (others,) = [line.split() for line in lines if " more  " in line]
    shown = sum("worker.py" in line for line in lines)
    assert others[:2] == [str(60 - shown), "more"]


def test_alarms_stay_when_space_is_short() -> None:
    shown = window(everything_at_once(), 23)
    assert "! device 4: L1 with L1_SMALL and circular buffers: reports add up to" in shown
    assert "! lost: 1,204 events were dropped" in shown
    assert "12 records were rejected" in shown
    assert "5 dead processes left memory behind" in shown
    assert "* not connected" in window(everything_at_once(), 39, 120)


def test_the_fullest_devices_are_the_last_to_go() -> None:
    devices = [device(n, dram=use(n * 100, 1000)) for n in range(9)]
    owner = process(1, "python", {d.unique_id: everything(d) for d in devices})
    shown = window(snapshot(devices, [owner]), 13)
    assert "and 5 more devices, none of them fuller" in shown
    assert [n for n in range(9) if f" {n}00 B" in shown.partition("PROC")[0]] == [5, 6, 7, 8]


@pytest.mark.parametrize("width", [100, 120, 140, 200])
def test_growing_numbers_move_no_bar(width: int) -> None:
    calm = {
        bar_places(device(0, dram=use(held, 12 << 30), l1=l1, trace=use(trace, 64 << 20)), width)
        for held, l1, trace in (
            (0, 0, 0),
            (5, 1 << 20, 512),
            (24 << 20, 150 << 10, 24 << 20),
            (999 << 20, 84 << 20, 900 << 10),
        )
    }
    assert len(calm) == 1


def bar_places(device: Device, width: int) -> tuple[tuple[int, int], ...]:
    """Line and column of each end of a bar; the capacity of TRACE is always there."""
    shown = render(snapshot([device]), width=width, color=False)
    assert "/ 64.0 MiB" in shown
    lines = enumerate(shown.split("\n"))
    return tuple(
        (row, at) for row, line in lines for at, letter in enumerate(line) if letter == "%"
    )


def test_a_coloured_line_is_cut_by_what_is_seen() -> None:
    assert cut("\x1b[31mabc\x1b[0mdef", 6) == "\x1b[31mabc\x1b[0mdef"
    assert cut("\x1b[31mabc\x1b[0mdef", 5) == "\x1b[31mabc\x1b[0md…\x1b[0m"
    assert columns(cut("推論推論推論", 5)) == 5


def test_one_shot_output_is_never_cut() -> None:
    assert render(sixty_processes(), width=80, color=False).count("worker.py") == 60
