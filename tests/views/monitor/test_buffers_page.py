from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import MIB
from tests.views.monitor.details import DETAIL_CASES, any_details, sizes
from tests.views.monitor.monitors import SIZES, compare, draw, look_at
from ttmem.sizes import human
from ttmem.snapshots import Buffer, LeftBehind, Snapshot
from ttmem.views.figures import Units
from ttmem.views.monitor.pages.buffers import Buffers
from ttmem.views.monitor.state import State
from ttmem.views.monitor.watch import MOST_BUFFERS, Choice


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", DETAIL_CASES)
def test_buffers_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(Buffers(), look_at(DETAIL_CASES[case](), width, height))
    compare(f"buffers-{case}-{width}x{height}", picture)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_single_buffers_look_as_they_did(width: int, height: int) -> None:
    picture = draw(Buffers(), look_at(DETAIL_CASES["four"](), width, height), ["t"])
    compare(f"buffers-single-{width}x{height}", picture)


def leaking(tensors: int, chips: int = 4) -> Snapshot:
    """One line of Python keeps a tensor at every step, on every chip of a mesh."""
    four = DETAIL_CASES["four"]()
    leaked = [
        Buffer(
            41235,
            device.unique_id,
            "DRAM",
            at,
            0x9000000 + at * 0x100000,
            MIB,
            MIB,
            name="ttnn.add",
            site="models/demo/decode.py:88 step",
            phase="decode",
        )
        for at in range(tensors)
        for device in four.devices[:chips]
    ]
    return replace(four, buffers=(*leaked, *(four.buffers or ())))


def test_205_tensors_leaked_by_one_line_on_four_chips_are_one_row_at_the_top() -> None:
    page, state = Buffers(), State()
    draw(page, look_at(leaking(5), 160, state=state))
    picture = draw(page, look_at(leaking(205), 160, state=state), ["s"])  # by growth
    (row,) = [line for line in picture if "decode.py:88" in line]

    assert row.startswith(">")
    assert row[1:].split()[:6] == ["820.0", "MiB", "+800.0", "MiB", "205", "0-3"]
    assert {"ttnn.add", "decode", "41235"} <= set(row.split())


def test_enter_opens_a_group_and_esc_closes_it() -> None:
    page, look = Buffers(), look_at(leaking(3), 160, state=State(filter="decode.py:88"))
    draw(page, look)
    assert page.key("enter", look) is None
    opened = draw(page, look)
    closed = (page.back(), draw(page, look), page.back())

    assert "DRAM  ttnn.add  models/demo/decode.py:88 step  pid 41235" in opened[0]
    assert sum("ttnn.add" in line for line in opened[1:]) == 12
    assert (closed[0], closed[2]) == (True, False)
    assert sum("ttnn.add" in line for line in closed[1]) == 1


def test_what_is_allocated_at_one_line_by_two_processes_is_two_rows() -> None:
    leaked = leaking(4)
    shared = tuple(
        one._replace(pid=42001) if one.id % 2 and one.name == "ttnn.add" else one
        for one in leaked.buffers or ()
    )
    picture = draw(Buffers(), look_at(replace(leaked, buffers=shared), 160))
    assert sum("decode.py:88" in line for line in picture) == 2


def test_growth_of_a_list_that_is_cut_is_unknown() -> None:
    whole = leaking(MOST_BUFFERS // 4)
    picture = draw(Buffers(), look_at(replace(whole, buffers=(whole.buffers or ())[:MOST_BUFFERS])))
    row = next(line for line in picture if line.startswith(">"))
    assert row[1:].split()[2] == "N/A"


def test_growth_counts_from_the_moment_at_which_r_is_pressed() -> None:
    page, state = Buffers(), State()
    draw(page, look_at(leaking(5), 160, state=state))
    picture = draw(page, look_at(leaking(205), 160, state=state), ["r"])
    assert next(line for line in picture if "decode.py:88" in line).split()[3:5] == ["B", "205"]


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
    draw(page, look_at(four, state=state), ["t"])
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
    assert "1 in host memory, not included" in text[1]
    assert any("SYSTEM_" in line for line in text[2:])


def test_sums_of_stock_counters_have_a_reason_for_the_empty_list() -> None:
    text = " ".join(" ".join(draw(Buffers(), look_at(DETAIL_CASES["sums_only"](), 40))).split())
    assert (
        "buffers N/A: shared memory v3 reports only totals; start the program with `ttmem run`"
        " to see each one" in text
    )


def test_amounts_are_in_the_chosen_units() -> None:
    one = DETAIL_CASES["one"]()
    requested = max(row.requested for row in (one.buffers or ()))
    picture = draw(Buffers(), look_at(one, state=State(units=Units.BYTES)), ["t"])
    assert f"{requested:,}" in next(line for line in picture if line.startswith(">"))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    any_details(),
    *sizes,
    st.lists(st.sampled_from(["a", "t", "r", "enter", "down", "s", "S", "end"])),
)
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
