from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.monitor.any_details import any_details, sizes
from tests.views.monitor.details import DETAIL_CASES
from tests.views.monitor.page_pictures import SIZES, compare, draw, look_at
from ttmem.sizes import human
from ttmem.snapshots import LeftBehind, Snapshot
from ttmem.views.monitor.pages.buffers import Buffers
from ttmem.views.monitor.state import State, Units
from ttmem.views.monitor.watch import Choice


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", DETAIL_CASES)
def test_buffers_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(Buffers(), look_at(DETAIL_CASES[case](), width, height))
    compare(f"buffers-{case}-{width}x{height}", picture)


def test_everything_listed_adds_up_to_everything_held() -> None:
    four = DETAIL_CASES["four"]()
    memories = [device.memory for device in four.devices]
    held = sum(m.dram.held + m.l1.held + m.l1_small.held + m.trace.held for m in memories)
    facts = draw(Buffers(), look_at(four))[1]
    assert f"all {len(four.buffers or ())} buffers  holding {human(held)} of" in facts


def test_a_cut_list_says_how_many_there_are() -> None:
    four = DETAIL_CASES["four"]()
    largest = sorted(four.buffers or (), key=lambda row: -row.requested)[:5]
    facts = draw(Buffers(), look_at(replace(four, buffers=tuple(largest))))[1]
    assert f"the largest 5 of {len(four.buffers or ())} buffers" in facts


def test_with_a_chosen_process_all_figures_are_its_and_those_of_all_are_named_so() -> None:
    four = DETAIL_CASES["four"]()
    pid = (four.buffers or ())[0].pid or 0
    part, _ = Choice(pids=(pid,)).of(four)
    held = list(part.processes[0].devices.values())
    own = sum(one.dram + one.l1 + one.l1_small + one.trace for one in held)
    facts = " ".join(draw(Buffers(), look_at(part, 200)._replace(pids=(pid,)))[1:3])

    assert f" buffers of pid {pid}  holding " in facts
    assert f" of {human(own)}  DRAM {human(sum(one.dram for one in held))}" in facts
    assert "all processes " in facts


def test_a_process_that_is_not_there_has_no_buffers() -> None:
    part, _ = Choice(pids=(1,)).of(DETAIL_CASES["four"]())
    assert part.buffers == ()


def test_a_shows_the_chosen_device_alone() -> None:
    four = DETAIL_CASES["four"]()
    chosen = four.devices[2].unique_id
    count = sum(1 for row in (four.buffers or ()) if row.device == chosen)
    picture = draw(Buffers(), look_at(four, state=State(device=chosen)), ["a"])
    assert picture[0].startswith(" device 2 ")
    assert f" all {count} buffers" in picture[1]


def test_enter_goes_to_the_device_of_the_buffer() -> None:
    four, state, page = DETAIL_CASES["four"](), State(filter="L1_SMALL"), Buffers()
    went = page.key("enter", look_at(four, state=state))
    assert (went, state.device) == ("Device", four.devices[2].unique_id)


def test_a_filter_says_what_the_matching_buffers_hold() -> None:
    four = DETAIL_CASES["four"]()
    held = four.devices[2].memory.l1_small.held
    facts = draw(Buffers(), look_at(four, state=State(filter="l1_small")))[1]
    assert f"matching {human(held)}" in facts


def test_host_memory_is_listed_and_in_no_sum() -> None:
    one = DETAIL_CASES["one"]()
    host = (one.buffers or ())[0]._replace(kind="SYSTEM_MEMORY")
    text = draw(Buffers(), look_at(replace(one, buffers=(host,)), 200))
    assert "holding 0 B of" in text[1]
    assert "1 in host memory, in no sum" in text[1]
    assert any("SYSTEM_" in line for line in text[2:])


def test_sums_of_stock_counters_have_a_reason_for_the_empty_list() -> None:
    text = " ".join(" ".join(draw(Buffers(), look_at(DETAIL_CASES["sums_only"](), 40))).split())
    assert (
        "buffers N/A: shared memory v3 tells sums only; run the application with 'ttmem run'"
        " to see each one" in text
    )


def test_amounts_are_in_the_chosen_units() -> None:
    one = DETAIL_CASES["one"]()
    requested = max(row.requested for row in (one.buffers or ()))
    picture = draw(Buffers(), look_at(one, state=State(units=Units.BYTES)))
    assert f"{requested:,}" in next(line for line in picture if line.startswith(">"))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(any_details(), *sizes, st.lists(st.sampled_from(["a", "enter", "down", "s", "S", "end"])))
def test_any_buffers_fit_any_window(
    snapshot: Snapshot, width: int, height: int, keys: list[str]
) -> None:
    draw(Buffers(), look_at(snapshot, width, height), keys)


def test_all_are_listed_if_they_hold_everything_whoever_did_not_count() -> None:
    one = DETAIL_CASES["one"]()
    (chip,) = one.devices
    uncounted = replace(
        chip, memory=replace(chip.memory, trace=replace(chip.memory.trace, count=None))
    )
    facts = draw(Buffers(), look_at(replace(one, devices=(uncounted,))))[1]
    assert f" all {len(one.buffers or ())} buffers  holding" in facts


@pytest.mark.parametrize("width", [80, 120])
def test_operation_and_line_stay_when_there_is_little_room(width: int) -> None:
    titles = draw(Buffers(), look_at(DETAIL_CASES["four"](), width))[:6]
    assert any("NAME" in line and "CALL SITE" in line for line in titles)


def test_an_ended_process_is_named_with_the_command_that_lists_what_it_never_freed() -> None:
    one = DETAIL_CASES["one"]()
    (dead,) = one.processes
    left = LeftBehind(dead.pid, dead.command, one.time_ns, dead.devices)
    ended = replace(one, processes=(), left_behind=(left,), buffers=())
    text = " ".join(draw(Buffers(), look_at(ended)))
    assert f"process {dead.pid} has ended; `ttmem dump` lists what was never freed" in text
