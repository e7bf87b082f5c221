from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import KIB, MIB, NOW, circular, device, process, snapshot, snapshots, use
from tests.views.cases import CASES
from tests.views.monitor.monitors import PICTURED, SIZES, compare, draw, lines, look_at, look_back
from ttmem.events import Amounts
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, Memory, Process, Snapshot
from ttmem.views.figures import Units
from ttmem.views.ink import Style
from ttmem.views.monitor.pages.overview import OverviewPage
from ttmem.views.monitor.state import Look, MonitorState, change_device


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", [*PICTURED, "everything_at_once"])
def test_the_overview_looks_as_it_did(case: str, width: int, height: int) -> None:
    picture = draw(OverviewPage(), look_back(CASES[case](), width, height))
    compare(f"overview-{case}-{width}x{height}", picture)


def test_the_overview_looks_as_it_did_in_ascii() -> None:
    look = look_back(CASES["four_devices"](), 80, 20)._replace(ascii=True)
    compare("overview-ascii-80x20", draw(OverviewPage(), look))


@pytest.mark.parametrize(("width", "height"), [(80, 20), (120, 36), (200, 56), (50, 12)])
def test_devices_and_processes_are_both_in_sight(width: int, height: int) -> None:
    """Be there 32 of one or 60 of the other."""
    crowd = replace(
        CASES["thirty_two_devices"](),
        processes=tuple(process(7000 + n, f"worker {n}", {}) for n in range(60)),
    )
    picture = "\n".join(draw(OverviewPage(), look_back(crowd, width, height)))
    assert re.search(r"^> ?0 ", picture, re.M)
    assert "7000" in picture


def workers(count: int) -> list[Process]:
    return [process(7000 + n, f"python serve.py --rank {n}", {}) for n in range(count)]


def test_four_devices_with_two_lines_each_and_eight_processes_fit_into_80x24() -> None:
    """Three of the 24 lines are the frame's."""
    host = replace(CASES["four_devices"](), processes=tuple(workers(8)), left_behind=())
    picture = draw(OverviewPage(), look_back(with_room(host), 80, 21))

    assert sum("largest" in line for line in picture) == 4
    assert all(any(str(process.pid) in line for line in picture) for process in host.processes)


@pytest.mark.parametrize(("width", "height"), [(80, 21), (120, 37), (200, 60)])
def test_a_device_has_two_lines_however_large_the_window_is(width: int, height: int) -> None:
    picture = draw(OverviewPage(), look_back(with_room(CASES["four_devices"]()), width, height))
    numbered = [at for at, line in enumerate(picture) if re.match(r"[> ] [0-3]  n300", line)]

    assert [at - numbered[0] for at in numbered] == [0, 2, 4, 6]
    assert "7.0 MiB" in picture[numbered[0] + 1]  # the largest free block


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_largest_free_block_of_l1_is_not_taken_for_what_is_free_beside_circular_buffers(
    width: int, height: int
) -> None:
    made = device(0, cb=circular(74 * MIB))
    l1 = replace(use(2 * MIB, 80 * MIB), largest_free=78 * MIB)
    of = snapshot([replace(made, memory=replace(made.memory, l1=l1))])
    picture = "\n".join(draw(OverviewPage(), look_at(of, width, height)))

    assert re.search(r"largest (free without|w/o) CBs 78.0 MiB", picture)


def test_the_trend_covers_the_time_of_which_there_are_samples() -> None:
    look = look_back(CASES["one_device"]())
    (chip,) = look.snapshot.devices
    young = {name: series[-8:] for name, series in look.history[chip.unique_id].items()}
    picture = "\n".join(draw(OverviewPage(), look._replace(history={chip.unique_id: young})))

    assert "last 10 s" in picture
    assert "last 5 min" in "\n".join(draw(OverviewPage(), look))


def test_thirty_two_devices_have_a_line_each_where_there_is_height() -> None:
    picture = draw(OverviewPage(), look_back(CASES["thirty_two_devices"](), 200, 56))
    assert sum("ubb" in line for line in picture) == 32


@pytest.mark.parametrize(("width", "height"), [(80, 20), (30, 60)])
def test_a_cell_without_a_capacity_says_so(width: int, height: int) -> None:
    chips = [device(n, unique_id=f"chip{n}", dram=use(5), l1_capacity=None) for n in range(30)]
    picture = "\n".join(draw(OverviewPage(), look_back(snapshot(chips), width, height)))
    assert picture.count("N/A") >= 60


@pytest.mark.parametrize("case", ["four_devices", "thirty_two_devices"])
@pytest.mark.parametrize("width", range(40, 60))
def test_below_60_columns_no_figure_of_a_device_is_cut(case: str, width: int) -> None:
    drawn = OverviewPage().draw(look_at(CASES[case](), width, 14))
    rows = lines(drawn)
    table = next(at for at, line in enumerate(rows) if "PID" in line)

    shown = [rows[at] for at in sorted({target.line for target in drawn.targets}) if at < table]
    assert shown
    assert [line for line in shown if line.endswith(("…", "…%"))] == []


def test_what_dead_processes_left_is_marked_last_and_in_no_sum() -> None:
    four = CASES["four_devices"]()
    for key in ("", "S", "s", "S"):
        state = MonitorState()
        picture = draw(OverviewPage(), look_back(four, 200, 56, state), [key] if key else [])
        marked = [at for at, line in enumerate(picture) if "39870x" in line]
        assert [picture[at] for at in marked if "left behind: train.py" in picture[at]]
        assert all(str(pid) in "\n".join(picture[: marked[0]]) for pid in (41235, 42001))
    assert total_of(picture) == expected_total(four)


def test_a_process_with_losses_is_marked_and_the_mark_explained() -> None:
    picture = "\n".join(draw(OverviewPage(), look_back(CASES["four_devices"](), 120, 36)))
    assert "41235!" in picture
    assert "! its client lost events or buffers" in picture


def test_more_than_there_is_is_neither_cut_nor_hidden() -> None:
    picture = "\n".join(
        draw(OverviewPage(), look_back(CASES["seed_004_on_a_real_n300"](), 120, 36))
    )
    assert "159.8 MiB / 85.0 MiB" in picture
    assert "over capacity" in picture
    assert "! device 0: L1 with L1_SMALL and circular buffers: reports add up to" in picture


def test_the_worst_of_several_anomalies_is_said_and_the_others_counted() -> None:
    (troubled,) = CASES["seed_004_on_a_real_n300"]().devices
    odd = Anomaly("unknown_free", "something was freed that was never seen")
    host = snapshot(
        [device(0, unique_id="other", anomalies=(odd,)), replace(troubled, logical_id=1)]
    )
    low = draw(OverviewPage(), look_back(host, 120, 8))
    high = draw(OverviewPage(), look_back(host, 120, 30))
    (alarm,) = [line for line in low if line.startswith(" ! ")]

    assert alarm.startswith(" ! device 1: L1 with L1_SMALL and circular buffers: reports add up")
    assert alarm.endswith("and 1 more (6)")
    assert any(line.startswith(f" ! device 0: {odd.text}") for line in high)


def test_amounts_are_exact_when_units_are_bytes() -> None:
    snapshot = CASES["one_device"]()
    picture = "\n".join(
        draw(OverviewPage(), look_back(snapshot, 200, 56, MonitorState(units=Units.BYTES)))
    )
    (chip,) = snapshot.devices
    for count in (chip.memory.dram.held, chip.l1_used, chip.l1_capacity):
        assert f"{count:,}" in picture


# -- one cursor through devices and processes ----------------------------------------------------


def test_enter_on_a_device_shows_it() -> None:
    look = look_back(CASES["four_devices"]())
    page = OverviewPage()
    draw(page, look, ["down", "down"])
    assert page.key("enter", look) == "Device"
    assert look.state.device == look.snapshot.devices[2].unique_id


def test_enter_on_a_process_shows_its_buffers() -> None:
    look = look_back(CASES["four_devices"]())
    page = OverviewPage()
    draw(page, look, ["down"] * 5)
    assert page.key("enter", look) == "Buffers"
    assert look.state.filter == "42001"


def test_up_goes_back_from_the_processes_to_the_last_device() -> None:
    look = look_back(CASES["four_devices"]())
    picture = draw(OverviewPage(), look, ["end", "down", "up"])
    assert [line[:4] for line in picture if line.startswith(">")] == ["> 3 "]


def test_in_the_fleet_arrows_go_by_rows_and_columns() -> None:
    look = look_back(CASES["thirty_two_devices"](), 80, 20)
    page = OverviewPage()
    draw(page, look, ["down", "right"])
    page.key("enter", look)
    assert look.state.device == look.snapshot.devices[5].unique_id  # four stand in a row


def test_every_column_sorts() -> None:
    sixty = CASES["sixty_processes"]()
    look = look_back(sixty, 200, 56)
    orders = set()
    for _ in range(10):
        picture = draw(OverviewPage(), look, ["s"])
        orders.add(next(line for line in picture if "▼" in line or "▲" in line))
    assert len(orders) == 10


def test_a_filter_leaves_the_processes_that_match() -> None:
    look = look_back(CASES["sixty_processes"](), 200, 56, MonitorState(filter="rank 42"))
    picture = "\n".join(draw(OverviewPage(), look))
    assert "7042" in picture
    assert "7041" not in picture


def test_a_click_chooses_and_a_second_one_goes_deeper() -> None:
    look = look_back(CASES["four_devices"]())
    page = OverviewPage()
    assert click(page, look, "> 0  n300") == "Device"
    assert click(page, look, "  2  n300") is None
    assert click(page, look, "> 2  n300") == "Device"
    assert look.state.device == look.snapshot.devices[2].unique_id
    assert click(page, look, "  42001") is None
    assert click(page, look, "> 42001") == "Buffers"


def test_a_click_on_a_title_sorts() -> None:
    look = look_back(CASES["four_devices"](), 200, 56)
    page = OverviewPage()
    drawn = page.draw(look)
    texts = draw(page, look)
    line = next(at for at, text in enumerate(texts) if "L1_SMALL      TRACE" in text)
    column = texts[line].index("TRACE")
    (target,) = [t for t in drawn.targets if t.line == line and t.start <= column < (t.stop or 0)]
    assert target.act(look.state) is None
    assert "TRACE▼" in draw(page, look)[line]


def click(page: OverviewPage, look: Look, beginning: str) -> str | None:
    line = next(at for at, text in enumerate(draw(page, look)) if text.startswith(beginning))
    target = next(t for t in page.draw(look).targets if t.line == line)
    return target.act(look.state)


# -- any snapshot --------------------------------------------------------------------------------

sizes = st.tuples(st.integers(20, 240), st.integers(5, 70))
any_picture = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@any_picture
@given(snapshots(), sizes, st.sampled_from(list(Units)), st.booleans())
def test_any_snapshot_fits_any_size(
    any_host: Snapshot, size: tuple[int, int], units: Units, ascii: bool
) -> None:
    look = look_back(any_host, *size, MonitorState(units=units))._replace(ascii=ascii)
    draw(OverviewPage(), look, ["down", "right", "pagedown", "s", "S", "up", "end"])


@any_picture
@given(snapshots())
def test_the_sums_are_those_of_the_snapshot(any_host: Snapshot) -> None:
    picture = draw(OverviewPage(), look_at(any_host, 400, 60))
    assert total_of(picture) == (expected_total(any_host) if any_host.processes else "")
    if len(any_host.devices) > 1:
        dram = human(sum(device.memory.dram.held for device in any_host.devices))
        l1 = human(sum(device.l1_used for device in any_host.devices))
        assert f" DRAM {dram} / " in picture[0]
        assert f" L1 {l1} / " in picture[0]


def total_of(picture: list[str]) -> str:
    """What stands after the number of processes."""
    (line,) = [line for line in picture if line.startswith("PROCESSES ")]
    return line.partition("  ")[2]


def expected_total(host: Snapshot) -> str:
    held = Amounts.total(amounts for p in host.processes for amounts in p.devices.values())
    names = ("DRAM", "L1", "L1_SMALL", "TRACE", "CB")
    return "  ".join(f"{name} {human(count)}" for name, count in zip(names, held, strict=True))


def test_the_chosen_row_keeps_the_colours_of_its_bars() -> None:
    drawn = OverviewPage().draw(look_back(CASES["four_devices"]()))
    (row,) = [line for line in drawn.lines if line and line[0].text == ">"]
    assert {Style.DRAM, Style.CB} <= {span.style for span in row}


def test_a_clock_that_stands_before_every_sample_draws_no_past() -> None:
    look = look_back(CASES["one_device"]())
    early = look._replace(snapshot=replace(look.snapshot, time_ns=NOW - 3600 * 1_000_000_000))
    assert "▂" not in "\n".join(draw(OverviewPage(), early))


# -- nothing moves -------------------------------------------------------------------------------


def test_four_devices_have_the_same_two_lines_each() -> None:
    picture = draw(OverviewPage(), look_back(with_room(CASES["four_devices"]()), 120, 36))
    first = next(at for at, line in enumerate(picture) if line.startswith("> 0"))
    blocks = [picture[at : at + 2] for at in range(first, first + 8, 2)]
    assert [block[0][2:4].strip() for block in blocks] == ["0", "1", "2", "3"]
    assert {shape(block) for block in blocks} == {shape(blocks[0])}
    assert all(set(block[-1]) & set("▂▃▄▅▆▇█") for block in blocks)


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_labels_stay_where_they_are_while_numbers_change(width: int) -> None:
    busy = with_room(CASES["one_device"]())
    (chip,) = busy.devices
    idle = replace(busy, devices=(replace(chip, memory=emptied(chip.memory), l1_used=0),))
    pictures = [draw(OverviewPage(), look_back(snapshot, width, 36)) for snapshot in (busy, idle)]
    assert shape(pictures[0][:12]) == shape(pictures[1][:12])


def with_room(host: Snapshot) -> Snapshot:
    """The same devices with free and largest blocks that are known."""
    return replace(host, devices=tuple(replace(d, memory=roomy(d.memory)) for d in host.devices))


def roomy(memory: Memory) -> Memory:
    l1 = replace(memory.l1, free=147 * MIB, largest_free=1023 * KIB)
    return replace(memory, dram=replace(memory.dram, largest_free=7 * MIB), l1=l1)


def emptied(memory: Memory) -> Memory:
    cb = replace(memory.cb, resident=0, cached=0, demand=0)
    l1 = replace(memory.l1, held=0, requested=0, free=None)
    return replace(memory, l1=l1, cb=cb)


def shape(lines: list[str]) -> tuple[tuple[str, int], ...]:
    """Where each label stands."""
    label = re.compile(r"L1_SMALL|\bL1\b|\bCB\b|[a-z]{4,}|TRACE")
    found = [
        (match.group(), at * 1000 + match.start())
        for at, line in enumerate(lines)
        for match in label.finditer(line)
        if not line.startswith(("HOST", "PROCESSES"))
    ]
    return tuple(found)


def test_tab_and_the_arrows_choose_the_same_device_for_every_view() -> None:
    look = look_back(CASES["four_devices"]())
    ids = [device.unique_id for device in look.snapshot.devices]
    change_device(look.state, ids, 2)
    picture = draw(OverviewPage(), look)
    assert [line[:4] for line in picture if line.startswith(">")] == ["> 2 "]
    draw(OverviewPage(), look, ["down"])
    assert look.device is look.snapshot.devices[3]


@pytest.mark.parametrize(("units", "unit"), [(Units.MEBIBYTES, "MiB"), (Units.BYTES, "B")])
def test_amounts_have_their_unit_whatever_it_is(units: Units, unit: str) -> None:
    host = draw(
        OverviewPage(), look_back(CASES["four_devices"](), 200, 56, MonitorState(units=units))
    )[0]
    assert re.search(rf"DRAM [\d,.]+ {unit} / [\d,.]+ {unit} ", host)


def test_a_remark_that_stands_above_every_page_is_not_repeated_on_the_overview() -> None:
    first, second = (Anomaly("any", f"the {name} remark") for name in ("first", "second"))
    host = replace(CASES["four_devices"](), remarks=(first, second))
    picture = "\n".join(draw(OverviewPage(), look_back(host, 120, 36)))

    assert "the first remark" not in picture
    assert "the second remark" in picture
