"""The Cores page as pictures (TTMEM_UPDATE_PICTURES=1 takes them anew; then look), keys, clicks, any data."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import KIB, circular, process, snapshot, use
from tests.views.monitor.details import (
    CORE_CASES,
    OTHERS,
    PID,
    busy,
    chip,
    core_set,
    overlap,
    picture,
    sums_only,
    three_processes,
)
from tests.views.monitor.monitors import draw, look_at
from ttmem.events import Amounts
from ttmem.snapshots import Buffer, Cores, CoreSet, L1Map, ResidentBuffer, Snapshot
from ttmem.views.figures import Units
from ttmem.views.ink import line_columns, paint
from ttmem.views.monitor.live_data import Choice
from ttmem.views.monitor.pages.core_data import banks_of, pressure
from ttmem.views.monitor.pages.core_map import Sort, core_map
from ttmem.views.monitor.pages.cores import CoresPage
from ttmem.views.monitor.state import Drawn, Look, MonitorState

PICTURES = Path(__file__).parent / "pictures"
SIZES = ((80, 20), (120, 36), (200, 56))
PAGE = CoresPage()


def look(
    of: Snapshot,
    size: tuple[int, int] = (80, 20),
    core: tuple[int, int] | None = None,
    ascii: bool = False,
) -> Look:
    return Look(of, {}, MonitorState(core=core), *size, ascii=ascii)


def text(drawn: Drawn, width: int = 200) -> str:
    return paint(drawn.lines, width, False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CORE_CASES)
def test_the_page_looks_as_it_did(name: str, size: tuple[int, int]) -> None:
    seen = text(PAGE.draw(look(CORE_CASES[name](), size, core=(3, 3)))) + "\n"
    file = PICTURES / f"cores-{name}-{size[0]}.txt"
    if os.environ.get("TTMEM_UPDATE_PICTURES") == "1":
        file.write_text(seen, encoding="utf-8")
    assert seen == file.read_text(encoding="utf-8")


def test_an_overlap_is_said_plainly_and_marked_in_map_and_strip() -> None:
    seen = text(PAGE.draw(look(overlap(), core=(3, 3)))).split("\n")

    assert seen[2] == " OVERLAP of 12.0 KiB: CBs end at 0x7b000, a buffer begins at 0x78000"
    assert sum("!" in line for line in seen) == 2
    assert "OVERLAP" not in text(PAGE.draw(look(overlap(), core=(0, 0))))


def test_what_only_cached_programs_reach_is_no_overlap_and_the_distance_is_that_of_what_ran_last() -> (
    None
):
    base, lowest = 0x1B480, 0x78000
    ran = overlap()
    (buffers,) = (ran.resident or {}).values()
    less = tuple(one._replace(end=base + 80 * KIB) for one in buffers)
    (device,) = ran.devices

    idle, other = (
        text(PAGE.draw(look(replace(ran, resident={device.unique_id: last}), core=(3, 3))))
        for last in ((), less)
    )

    assert "OVERLAP" not in idle + other
    assert idle.split("\n")[2].startswith(
        " cached CBs end at 0x7b000, 12.0 KiB above the lowest buffer: legal"
    )
    assert other.split("\n")[2] == (
        f" {(lowest - base) / KIB - 80:,.1f} KiB to a clash: CBs to {base + 80 * KIB:#x} (cached: 0x7b000),"
        f" buffers from {lowest:#x}"
    )


def test_the_distance_to_a_clash_is_of_the_chosen_core() -> None:
    base, lowest = 0x1B480, 0x180000 - (32 + 608) * KIB

    near, far = (text(PAGE.draw(look(busy(), core=(0, y)))).split("\n")[2] for y in (4, 5))
    assert near.startswith(
        f" {(lowest - base) / KIB - 80:,.1f} KiB to a clash: CBs to 0x2f480 (cached: 0xbb480)"
    )
    assert far.startswith(f" {(lowest - base) / KIB - 80:,.1f} KiB to a clash")


@pytest.mark.parametrize("name", ["busy", "overlap", "n150", "three-processes"])
def test_what_is_in_use_and_what_the_map_shows_as_free_add_up_to_the_core(name: str) -> None:
    of = CORE_CASES[name]()
    (device,), core = of.devices[:1], (3, 3)
    found, known = core_map(of, device, core), pressure(of, device)
    groups = (found.growing_up, (found.between,), found.growing_down, found.above)
    free = sum(piece.size for group in groups for piece in group if piece.sort is Sort.FREE)
    small = sum(piece.size for piece in found.above if piece.sort is Sort.SMALL)
    free += small - device.memory.l1_small.held // banks_of(device) if small else 0

    assert known.used(core) + free == known.capacity


def test_processes_that_share_addresses_fill_a_core_once_and_their_sum_stands_beside() -> None:
    seen = text(PAGE.draw(look(three_processes(), (120, 36)))).split("\n")

    assert seen[1:3] == [
        " core 0,0  378.0 KiB of 1426.9 KiB L1  26%  fullest 0,0 26%",
        " 3 processes share addresses; the Overview counts them separately: 716.0 KiB",
    ]
    assert ">26%" in seen[6]


def test_a_piece_says_how_many_others_have_something_at_its_addresses() -> None:
    seen = text(PAGE.draw(look(three_processes())))

    for label in ("batch pid 41236 +1", "matmul pid 41235", "CB pid 41235 +2 program 2"):
        assert f"KiB  {label}\n" in seen


def test_one_process_has_one_number() -> None:
    assert "adds up" not in text(PAGE.draw(look(busy())))


def test_all_sizes_of_the_page_are_in_one_unit() -> None:
    at = look(three_processes(), (120, 36))
    seen = text(PAGE.draw(at))
    assert "MiB" not in seen
    assert "\n 1202.9 KiB to a clash" in seen
    assert "1006.9 KiB  free" in seen

    at.state.units = Units.BYTES
    assert "\n 1,231,744 B to a clash" in text(PAGE.draw(at))


def test_with_a_chosen_process_the_map_stays_whole_and_marks_what_is_its() -> None:
    of, pid = three_processes(), OTHERS[0]
    part, _ = Choice(pids=(pid,)).of(_with_processes(of))
    seen = text(PAGE.draw(look(part, (120, 36))._replace(pids=(pid,))))

    assert f"* pid {pid} 170.0 KiB" in seen.split("\n")[1]
    assert re.findall(r"0x(\w+) .* KiB  ([* ]) (\w+)", seen) == [
        ("178000", " ", "L1_SMALL"),
        ("177800", "*", "batch"),
        ("175000", " ", "free"),
        ("170000", " ", "matmul"),
        ("074480", " ", "free"),
        ("043480", "*", "cached"),
        ("01b480", "*", "CB"),
        ("00a080", " ", "kernel"),
        ("000000", " ", "firmware"),
    ]


def test_buffers_of_which_none_is_told_leave_no_free_space() -> None:
    of = picture(chip("p150", l1=64 * KIB, count=2, cached=1))
    seen = text(PAGE.draw(look(of)))

    assert "L1 buffers: N/A, none of 2 is listed" in seen
    assert "to a clash N/A" in seen
    assert "KiB  free" not in seen


def _with_processes(of: Snapshot) -> Snapshot:
    held = Amounts(0, 0, 0, 0, 0)
    devices = {of.devices[0].unique_id: held}
    return replace(of, processes=tuple(process(pid, "x", devices) for pid in (PID, *OTHERS)))


def test_arrows_move_within_the_grid_and_m_finds_the_fullest_core() -> None:
    at = look(overlap())
    trail = []
    for key in ("left", "up", "right", "down", "end", "right", "home", "m", "x"):
        assert PAGE.key(key, at) is None
        trail.append(at.state.core)

    assert trail == [
        (0, 0), (0, 0), (1, 0), (1, 1), (10, 9), (10, 9), (0, 0), (2, 2), (2, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_a_click_on_a_cell_chooses_its_core(size: tuple[int, int]) -> None:
    at = look(busy(), size)
    drawn = PAGE.draw(at)

    for target in drawn.targets:
        assert target.act(at.state) is None
        moved = text(PAGE.draw(at)).split("\n")
        x, y = at.state.core or (-1, -1)
        row = next(line for line in moved if line.startswith(f"{y:>2} "))
        assert row[target.start :].lstrip(" ").startswith(">"), (x, y)
    assert len({(target.line, target.start) for target in drawn.targets}) == len(drawn.targets)


def test_without_signs_of_its_own_the_terminal_gets_letters() -> None:
    assert text(PAGE.draw(look(busy(), ascii=True))).isascii()


def test_what_counters_alone_tell_has_no_cores_and_says_why() -> None:
    made = chip("p150")
    counted = replace(
        made.memory,
        l1=replace(use(5 << 20), reserved=None, count=None),
        cb=replace(circular(0), count=None),
    )
    of = snapshot([replace(made, memory=counted)], cores={made.unique_id: ()}, l1_buffers=())
    seen = text(PAGE.draw(look(of)))

    said = "L1 in use, circular buffers, L1 buffers: N/A, the counters of stock ttnn are sums,"
    assert said in " ".join(seen.split())
    assert "to a clash N/A" in seen


@pytest.mark.parametrize(
    ("address", "reserved", "reason"),
    [(None, 4096, "some came without address"), (0x100, 110 * 4096, "one lies at 0x100, outside")],
)
def test_a_buffer_that_cannot_be_placed_leaves_the_rest_of_the_map(
    address: int | None, reserved: int, reason: str
) -> None:
    of = picture(
        chip("p150", count=1, cached=1), [core_set((0, 0, 1, 1), (0x1B480, 0x1C480), program=2)]
    )
    uid = of.devices[0].unique_id
    row = Buffer(PID, uid, "L1", 1, address, reserved=reserved)
    seen = text(PAGE.draw(look(replace(of, l1_buffers=(row,)))))

    assert f"L1 buffers: N/A, {reason}" in seen
    assert "cached pid 41235 program 2" in seen
    assert "to a clash N/A" in seen


def test_every_part_of_the_page_is_explained() -> None:
    words = " ".join(term for term, _ in PAGE.help)

    for part in ("grid", "kernel ring", "CB", "dataflow", "cached", "free", "L1_SMALL", "clash"):
        assert part in words


numbers = st.integers(0, 200) | st.integers(0, 1 << 22) | st.integers(0, (1 << 64) - 1)
maybe = st.none() | numbers
regions = st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple)
cells = st.builds(Cores, st.integers(0, (1 << 1024) - 1))
core_sets = st.builds(CoreSet, maybe, cells, numbers, regions, maybe)
resident = st.builds(ResidentBuffer, maybe, maybe, cells, numbers, numbers, st.booleans())


@st.composite
def any_cores(draw: st.DrawFn) -> Snapshot:
    made = chip("p150", count=draw(st.none() | st.integers(0, 9)), cached=draw(maybe))
    uid = made.unique_id
    l1_map = st.just(made.l1_map) | st.builds(L1Map, numbers, maybe, numbers, numbers, numbers)
    grid = st.none() | st.tuples(st.integers(0, 40), st.integers(0, 40)) | st.just(made.grid)
    device = replace(made, grid=draw(grid), l1_map=draw(st.none() | l1_map))
    kinds = st.sampled_from(["L1", "L1_SMALL"])
    buffers = st.builds(Buffer, maybe, st.just(uid), kinds, numbers, maybe, numbers, maybe)

    def some(rows: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(rows, max_size=6).map(tuple))

    sets, now = some(core_sets), some(resident)
    return snapshot(
        [device],
        cores=None if sets is None else {uid: sets},
        resident=None if now is None else {uid: now},
        l1_buffers=some(buffers),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    any_cores(),
    st.integers(20, 240),
    st.integers(5, 70),
    st.none() | st.tuples(st.integers(-3, 99), st.integers(-3, 99)),
    st.booleans(),
    st.sampled_from(["left", "m", "end", "?"]),
)
def test_any_data_fit_any_window(
    of: Snapshot, width: int, height: int, core: tuple[int, int] | None, ascii: bool, key: str
) -> None:
    at = look(of, (width, height), core, ascii)
    PAGE.key(key, at)
    drawn = PAGE.draw(at)

    assert len(drawn.lines) <= height
    assert [line for line in drawn.lines if line_columns(line) > width] == []


def test_where_only_totals_are_reported_it_says_to_use_ttmem_run() -> None:
    text_of = " ".join(text(PAGE.draw(look(sums_only()))).split())
    assert "shared memory v3 reports only totals" in text_of
    assert "`ttmem run -- python model.py`" in text_of
    assert "?" not in text_of


def test_a_stock_process_beside_a_watched_one_is_one_sentence_with_what_to_do() -> None:
    case = CORE_CASES["busy"]()
    (device,) = case.devices
    memory = device.memory
    uncounted = replace(
        memory, cb=replace(memory.cb, count=None), l1=replace(memory.l1, count=None)
    )
    stock = process(360, "python stock.py", {device.unique_id: Amounts(l1=4096)})
    mixed = replace(
        case,
        devices=(replace(device, memory=uncounted),),
        processes=(*case.processes, replace(stock, sources=("shared memory v4",))),
    )

    text = " ".join(" ".join(draw(CoresPage(), look_at(mixed, 120))).split())

    assert text.count("the counters of stock ttnn are sums, without addresses") == 1
    assert "start pid 360 with `ttmem run` to see them" in text
