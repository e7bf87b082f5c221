from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import MIB, process
from tests.views.monitor.details import DETAIL_CASES, any_details, sizes
from tests.views.monitor.monitors import SIZES, compare, draw, look_at
from ttmem.events import Amounts
from ttmem.sizes import human
from ttmem.snapshots import Buffer, LeftBehind, Snapshot
from ttmem.views.figures import Units
from ttmem.views.groups import site_groups
from ttmem.views.monitor.live_data import MOST_BUFFERS, Choice
from ttmem.views.monitor.pages.buffers import BuffersPage
from ttmem.views.monitor.state import MonitorState

SITE = "/home/alice/docs/programs/serve.py:14 tensor"


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", DETAIL_CASES)
def test_buffers_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(BuffersPage(), look_at(DETAIL_CASES[case](), width, height))
    compare(f"buffers-{case}-{width}x{height}", picture)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_single_buffers_look_as_they_did(width: int, height: int) -> None:
    picture = draw(BuffersPage(), look_at(DETAIL_CASES["four"](), width, height), ["t"])
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
    page, state = BuffersPage(), MonitorState()
    draw(page, look_at(leaking(5), 160, state=state))
    picture = draw(page, look_at(leaking(205), 160, state=state), ["s"])  # by growth
    (row,) = [line for line in picture if "decode.py:88" in line]

    assert row.startswith(">")
    assert row[1:].split()[:6] == ["820.0", "MiB", "+800.0", "MiB", "205", "0-3"]
    assert {"ttnn.add", "decode", "41235"} <= set(row.split())


def test_enter_opens_a_group_and_esc_closes_it() -> None:
    page, look = BuffersPage(), look_at(leaking(3), 160, state=MonitorState(filter="decode.py:88"))
    draw(page, look)
    assert page.key("enter", look) is None
    opened = draw(page, look)
    closed = (page.back(), draw(page, look), page.back())

    assert opened[0] == " DRAM  ttnn.add  models/demo/decode.py:88 step  in decode  pid 41235"
    assert opened[1] == " 3 tensors (12 buffers on 4 devices)  holding 12.0 MiB"
    assert opened[3].split() == ["DEVICE", "REQUESTED▼", "RESERVED", "ADDRESS", "AGE"]
    assert len([line for line in opened if " 0x9" in line]) == 12
    assert (closed[0], closed[2]) == (True, False)
    assert sum("ttnn.add" in line for line in closed[1]) == 1
    assert ("esc", "back") not in page.keys


def test_an_open_group_names_the_way_back_and_keeps_address_and_age_in_a_narrow_window() -> None:
    page, look = BuffersPage(), look_at(leaking(3), 80, state=MonitorState(filter="decode.py:88"))
    page.key("enter", look)
    titles = draw(page, look)[3].split()

    assert {"DEVICE", "ADDRESS", "AGE"} <= set(titles)
    assert page.keys[0] == ("esc", "back")


def test_the_same_line_in_two_phases_is_told_apart_at_80_columns() -> None:
    rows = [
        Buffer(41235, None, "DRAM", at, at, MIB, name="ttnn.empty", site=SITE, phase=phase)
        for at, phase in enumerate(["load", "prefill"])
    ]
    case = replace(DETAIL_CASES["one"](), buffers=tuple(rows))
    text = "\n".join(draw(BuffersPage(), look_at(case, 80)))

    assert "ttnn.empty  serve.py:14  in load" in text
    assert "ttnn.empty  serve.py:14  in prefill" in text


def test_where_the_function_does_not_fit_into_one_row_it_is_left_out_of_all_rows() -> None:
    rows = [
        Buffer(
            41235,
            None,
            "DRAM",
            at,
            at,
            MIB,
            name="ttnn.empty",
            site="serve.py:14 tensor",
            phase=phase,
        )
        for at, phase in enumerate(["load", "prefill of a long request"])
    ]
    case = replace(DETAIL_CASES["one"](), buffers=tuple(rows))
    shown = [line for line in draw(BuffersPage(), look_at(case, 80)) if "serve.py:14" in line]

    assert [" tensor" in line for line in shown] == [False, False]


def test_at_40_columns_the_call_site_is_shown_before_all_else_but_the_size() -> None:
    row = Buffer(41235, None, "DRAM", 1, 1, MIB, name="ttnn.empty", site=SITE, phase="load")
    case = replace(DETAIL_CASES["one"](), buffers=(row,))
    lines = draw(BuffersPage(), look_at(case, 40, 5))
    (titles,) = [line for line in lines if "HELD" in line]
    (shown,) = [line for line in lines if "serve.py" in line]

    assert titles.split() == ["HELD▼", "ALLOCATED", "BY"]
    assert shown.endswith("empty  serve.py:14  in load")


def test_a_process_known_only_by_totals_has_its_rows_and_a_hint() -> None:
    case = DETAIL_CASES["one"]()
    (chip,) = case.devices
    stock = process(360, "python stock.py", {chip.unique_id: Amounts(dram=63 << 30)})
    both = replace(case, processes=(*case.processes, replace(stock, sources=("shared memory v4",))))
    text = "\n".join(draw(BuffersPage(), look_at(both, 120)))

    assert " pid 360: known only as a total; `ttmem run` lists each buffer" in text
    (row,) = [line for line in text.splitlines() if "63.0 GiB" in line and " 360 " in line]
    assert row.split()[-5:] == ["known", "only", "as", "a", "total"] or "stock.py" in row
    whole = human(sum(one.held for one in site_groups(both) if one.by.kind != "CB"))
    assert f"holding {whole} (63.0 GiB of it not listed)" in text


def test_what_is_allocated_at_one_line_by_two_processes_is_two_rows() -> None:
    leaked = leaking(4)
    shared = tuple(
        buffer._replace(pid=42001) if buffer.id % 2 and buffer.name == "ttnn.add" else buffer
        for buffer in leaked.buffers or ()
    )
    picture = draw(BuffersPage(), look_at(replace(leaked, buffers=shared), 160))
    assert sum("decode.py:88" in line for line in picture) == 2


def test_growth_of_a_list_that_is_cut_is_unknown() -> None:
    whole = leaking(MOST_BUFFERS // 4)
    picture = draw(
        BuffersPage(), look_at(replace(whole, buffers=(whole.buffers or ())[:MOST_BUFFERS]))
    )
    row = next(line for line in picture if line.startswith(">"))
    assert row[1:].split()[2] == "N/A"


def test_growth_counts_from_the_moment_at_which_r_is_pressed() -> None:
    page, state = BuffersPage(), MonitorState()
    draw(page, look_at(leaking(5), 160, state=state))
    picture = draw(page, look_at(leaking(205), 160, state=state), ["r"])
    assert next(line for line in picture if "decode.py:88" in line).split()[3:5] == ["B", "205"]


def test_everything_listed_adds_up_to_everything_held() -> None:
    four = DETAIL_CASES["four"]()
    memories = [device.memory for device in four.devices]
    held = sum(m.dram.held + m.l1.held + m.l1_small.held + m.trace.held for m in memories)
    facts = draw(BuffersPage(), look_at(four))[1]
    assert (
        f"all 60 tensors ({len(four.buffers or ())} buffers on 4 devices)  holding {human(held)}"
        in facts
    )


def test_a_cut_list_says_how_many_there_are() -> None:
    four = DETAIL_CASES["four"]()
    largest = sorted(four.buffers or (), key=lambda row: -row.requested)[:5]
    facts = draw(BuffersPage(), look_at(replace(four, buffers=tuple(largest))))[1]
    assert f"the largest 5 of {len(four.buffers or ())} buffers" in facts


def test_with_a_chosen_process_all_figures_are_its_and_those_of_all_are_named_so() -> None:
    four = DETAIL_CASES["four"]()
    pid = (four.buffers or ())[0].pid or 0
    part, _ = Choice(pids=(pid,)).of(four)
    held = list(part.processes[0].devices.values())
    own = sum(amounts.dram + amounts.l1 + amounts.l1_small + amounts.trace for amounts in held)
    facts = " ".join(draw(BuffersPage(), look_at(part, 200)._replace(pids=(pid,)))[1:3])

    assert f" on 4 devices) of pid {pid}  holding {human(own)}  " in facts
    assert f"  DRAM {human(sum(amounts.dram for amounts in held))}" in facts
    assert "all processes " in facts


def test_a_process_that_is_not_there_has_no_buffers() -> None:
    part, _ = Choice(pids=(1,)).of(DETAIL_CASES["four"]())
    assert part.buffers == ()


def test_a_shows_the_chosen_device_alone() -> None:
    four = DETAIL_CASES["four"]()
    chosen = four.devices[2].unique_id
    count = sum(1 for row in (four.buffers or ()) if row.device == chosen)
    picture = draw(BuffersPage(), look_at(four, state=MonitorState(device=chosen)), ["a"])
    assert picture[0].startswith(" device 2 ")
    assert f" all {count} buffers" in picture[1]


def test_enter_goes_to_the_device_of_the_buffer() -> None:
    four, state, page = DETAIL_CASES["four"](), MonitorState(filter="L1_SMALL"), BuffersPage()
    draw(page, look_at(four, state=state), ["t"])
    went = page.key("enter", look_at(four, state=state))
    assert (went, state.device) == ("Device", four.devices[2].unique_id)


def test_a_filter_says_what_the_matching_buffers_hold() -> None:
    four = DETAIL_CASES["four"]()
    held = four.devices[2].memory.l1_small.held
    facts = draw(BuffersPage(), look_at(four, state=MonitorState(filter="l1_small")))[1]
    assert f"matching {human(held)}" in facts


def test_host_memory_is_listed_and_in_no_sum() -> None:
    snapshot = DETAIL_CASES["one"]()
    host = (snapshot.buffers or ())[0]._replace(kind="SYSTEM_MEMORY")
    text = draw(BuffersPage(), look_at(replace(snapshot, buffers=(host,)), 200))
    assert "of it not listed)" in text[1]
    assert "1 in host memory, not included" in text[1]
    assert any("SYSTEM_" in line for line in text[2:])


def test_sums_of_stock_counters_have_a_reason_for_the_empty_list() -> None:
    text = " ".join(" ".join(draw(BuffersPage(), look_at(DETAIL_CASES["sums_only"](), 40))).split())
    assert (
        "buffers N/A: shared memory v3 reports only totals; start the program with `ttmem run`"
        " to see each one" in text
    )


def test_amounts_are_in_the_chosen_units() -> None:
    snapshot = DETAIL_CASES["one"]()
    requested = max(row.requested for row in (snapshot.buffers or ()))
    picture = draw(BuffersPage(), look_at(snapshot, state=MonitorState(units=Units.BYTES)), ["t"])
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
    draw(BuffersPage(), look_at(snapshot, width, height), keys)


def test_all_are_listed_if_they_hold_everything_whoever_did_not_count() -> None:
    snapshot = DETAIL_CASES["one"]()
    (chip,) = snapshot.devices
    uncounted = replace(
        chip, memory=replace(chip.memory, trace=replace(chip.memory.trace, count=None))
    )
    facts = draw(BuffersPage(), look_at(replace(snapshot, devices=(uncounted,))))[1]
    assert f" all {len(snapshot.buffers or ())} buffers  holding" in facts


@pytest.mark.parametrize("width", [80, 120])
def test_operation_and_line_stay_when_there_is_little_room(width: int) -> None:
    titles = draw(BuffersPage(), look_at(DETAIL_CASES["four"](), width))[:6]
    assert any("HELD" in line and "DEVICES" in line and "ALLOCATED BY" in line for line in titles)


def test_an_ended_process_is_named_with_the_command_that_lists_what_it_never_freed() -> None:
    snapshot = DETAIL_CASES["one"]()
    (dead,) = snapshot.processes
    left = LeftBehind(dead.pid, dead.command, snapshot.time_ns, dead.devices)
    ended = replace(snapshot, processes=(), left_behind=(left,), buffers=())
    text = " ".join(draw(BuffersPage(), look_at(ended)))
    assert f"process {dead.pid} has ended; `ttmem dump` lists what was never freed" in text


@pytest.mark.parametrize("keys", [[], ["t"]])
def test_all_rows_name_an_operation_in_the_same_way(keys: list[str]) -> None:
    snapshot = DETAIL_CASES["one"]()
    pid, chip = snapshot.processes[0].pid, snapshot.devices[0].unique_id
    sites = ("a.py:1", "models/demo/a_long_directory/decode.py:12345 a_long_function")
    buffers = tuple(
        Buffer(pid, chip, "L1", at, 64 * at, MIB, MIB, name="ttnn.matmul", site=site)
        for at, site in enumerate(sites)
    )
    picture = draw(BuffersPage(), look_at(replace(snapshot, buffers=buffers), 80), keys)
    rows = [line for line in picture if "matmul" in line]
    assert len(rows) == 2
    assert len({"ttnn.matmul" in line for line in rows}) == 1
