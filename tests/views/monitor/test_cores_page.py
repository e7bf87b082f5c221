"""The Cores page as pictures (TTMEM_UPDATE_PICTURES=1 takes them anew; then look), keys, clicks, any data."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import circular, snapshot, use
from tests.views.monitor.core_cases import CASES, KIB, PID, busy, chip, core_set, overlap, picture
from tests.views.snapshots import texts
from ttmem.snapshots import L1Map, Snapshot
from ttmem.views.ink import line_columns, paint
from ttmem.views.monitor.page import Drawn, Look
from ttmem.views.monitor.pages.cores import Cores
from ttmem.views.monitor.state import State

PICTURES = Path(__file__).parent / "pictures"
SIZES = ((80, 20), (120, 36), (200, 56))
PAGE = Cores()


def look(
    of: Snapshot,
    size: tuple[int, int] = (80, 20),
    core: tuple[int, int] | None = None,
    ascii: bool = False,
) -> Look:
    return Look(of, {}, State(core=core), *size, ascii=ascii)


def text(drawn: Drawn, width: int = 200) -> str:
    return paint(drawn.lines, width, False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_page_looks_as_it_did(name: str, size: tuple[int, int]) -> None:
    seen = text(PAGE.draw(look(CASES[name](), size, core=(3, 3)))) + "\n"
    file = PICTURES / f"cores-{name}-{size[0]}.txt"
    if os.environ.get("TTMEM_UPDATE_PICTURES") == "1":
        file.write_text(seen, encoding="utf-8")
    assert seen == file.read_text(encoding="utf-8")


def test_an_overlap_is_said_plainly_and_marked_in_map_and_strip() -> None:
    seen = text(PAGE.draw(look(overlap(), core=(3, 3)))).split("\n")

    assert seen[2] == " OVERLAP of 12.0 KiB: CBs end at 0x7b000, a buffer begins at 0x78000"
    assert sum("!" in line for line in seen) == 2
    assert "OVERLAP" not in text(PAGE.draw(look(overlap(), core=(0, 0))))


def test_the_distance_to_a_clash_is_of_the_chosen_core() -> None:
    base, lowest = 0x1B480, 0x180000 - (32 + 608) * KIB

    near, far = (text(PAGE.draw(look(busy(), core=(0, y)))).split("\n")[2] for y in (4, 5))
    assert near.startswith(f" {(lowest - base) / KIB - 640:,.1f} KiB to a clash")
    assert far.startswith(f" {(lowest - base) / KIB - 80:,.1f} KiB to a clash")


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
    assert len({(one.line, one.start) for one in drawn.targets}) == len(drawn.targets)


def test_without_signs_of_its_own_the_terminal_gets_letters() -> None:
    assert text(PAGE.draw(look(busy(), ascii=True))).isascii()


def test_what_counters_alone_tell_has_no_cores_and_says_why() -> None:
    made = chip("p150")
    counted = replace(
        made.memory,
        l1=replace(use(5 << 20), reserved=None, count=None),
        cb=replace(circular(0), count=None),
    )
    detail: dict[str, Any] = {"cores": {made.unique_id: []}, "l1_buffers": []}
    seen = text(PAGE.draw(look(snapshot([replace(made, memory=counted)], detail=detail))))

    assert "L1 in use: N/A, the counters of stock ttnn tell sums, and no addresses" in seen
    assert "L1 buffers: N/A, the counters of stock ttnn tell sums" in seen
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
    row = {"device": of.devices[0].unique_id, "kind": "L1", "pid": PID, "id": 1}
    detail = {**of.detail, "l1_buffers": [{**row, "address": address, "reserved": reserved}]}
    seen = text(PAGE.draw(look(replace(of, detail=detail))))

    assert f"L1 buffers: N/A, {reason}" in seen
    assert "cached to program 2" in seen
    assert "to a clash N/A" in seen


def test_damaged_details_are_called_so() -> None:
    of = busy()
    uid = of.devices[0].unique_id
    seen = text(PAGE.draw(look(replace(of, detail={"cores": {uid: [{"cores": "x"}]}}))))

    assert "L1 in use: N/A, what the server says about cores is damaged" in seen


def test_every_part_of_the_page_is_explained() -> None:
    words = " ".join(term for term, _ in PAGE.help())

    for part in ("grid", "kernel ring", "CB", "dataflow", "cached", "free", "L1_SMALL", "clash"):
        assert part in words


numbers = st.integers(0, 200) | st.integers(0, 1 << 22) | st.integers(-1, 1 << 70)
anything = st.none() | st.booleans() | numbers | texts | st.lists(numbers, max_size=3)
ranges = st.lists(st.tuples(numbers, numbers), max_size=4)
cells = st.lists(st.tuples(st.integers(0, 33), st.integers(0, 33)), max_size=8)


def rows(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    sound = st.fixed_dictionaries(columns)
    return st.lists(sound | anything, max_size=6) | st.lists(sound, max_size=6) | anything


@st.composite
def any_cores(draw: st.DrawFn) -> Snapshot:
    made = chip("p150", count=draw(st.none() | st.integers(0, 9)), cached=draw(st.none() | numbers))
    uid = made.unique_id
    l1_map = st.just(made.l1_map) | st.builds(
        L1Map, numbers, st.none() | numbers, numbers, numbers, numbers
    )
    grid = st.none() | st.tuples(st.integers(0, 40), st.integers(0, 40)) | st.just(made.grid)
    device = replace(made, grid=draw(grid), l1_map=draw(st.none() | l1_map))
    sets = rows(pid=numbers, cores=cells, cached=numbers, regions=ranges, highest_program=numbers)
    now = rows(pid=numbers, program=numbers, cores=cells, start=numbers, end=numbers)
    buffers = rows(
        device=st.just(uid), kind=st.just("L1"), pid=numbers, id=numbers, address=numbers,
        reserved=numbers, name=texts,
    )  # fmt: skip
    detail = {
        "cores": draw(st.fixed_dictionaries({uid: sets}) | anything),
        "resident": draw(st.fixed_dictionaries({uid: now}) | anything),
        "l1_buffers": draw(buffers),
    }
    return snapshot([device], detail=detail)


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
