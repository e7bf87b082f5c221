from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import N300_RING, device, kernels, watched_in_part, with_owner
from tests.views.monitor.details import DETAIL_CASES, any_details, sizes
from tests.views.monitor.monitors import SIZES, compare, draw, look_at
from ttmem.snapshots import Snapshot
from ttmem.views.monitor.pages.device import DevicePage
from ttmem.views.monitor.pages.kernels import KernelsPage
from ttmem.views.monitor.state import MonitorState, Page


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", DETAIL_CASES)
def test_kernels_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(KernelsPage(), look_at(DETAIL_CASES[case](), width, height))
    compare(f"kernels-{case}-{width}x{height}", picture)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", ["one", "hostile"])
def test_programs_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(KernelsPage(), look_at(DETAIL_CASES[case](), width, height), ["t"])
    compare(f"programs-{case}-{width}x{height}", picture)


def test_enter_goes_from_a_kernel_to_its_program_and_back() -> None:
    page, look = KernelsPage(), look_at(DETAIL_CASES["one"](), 200)
    kernel = _under_cursor(draw(page, look, ["down", "down"]))
    program = _under_cursor(draw(page, look, ["enter"]))
    back = _under_cursor(draw(page, look, ["enter"]))
    assert program[1:3] == [kernel[-3], kernel[-2]]  # program, pid
    assert back == kernel


def test_a_kernel_shows_the_status_and_the_hits_of_its_program() -> None:
    rows = [
        " ".join(line.split()) for line in draw(KernelsPage(), look_at(DETAIL_CASES["one"](), 200))
    ]
    assert (
        "application 6.0 KiB 64 384.0 KiB InFlight 2,048 2,047 41 41235 compute_layer_norm" in rows
    )


def test_circular_buffers_of_a_program_are_counted_and_added_up_without_global_ones() -> None:
    page, look = KernelsPage(), look_at(DETAIL_CASES["one"](), 200)
    found = [line.lstrip(">").split() for line in draw(page, look, ["t"])]
    sizes = {cells[0]: cells[6:9] for cells in found if cells[0:1] and cells[0].isdecimal()}
    assert (sizes["42"], sizes["43"]) == (["2", "4.0", "MiB"], ["0", "0", "B"])


def test_a_list_that_was_cut_claims_no_count_by_type() -> None:
    whole = DETAIL_CASES["one"]()
    cut = replace(whole, kernels=(whole.kernels or ())[:3])
    facts = ["application 12.0 MiB (5)", "application 12.0 MiB  fabric"]
    pictures = ["\n".join(draw(KernelsPage(), look_at(snapshot))) for snapshot in (whole, cut)]
    assert [fact in picture for fact, picture in zip(facts, pictures, strict=True)] == [True, True]


def test_a_ring_whose_content_is_unknown_is_not_empty() -> None:
    code = kernels(ring=(None, N300_RING))
    text = "\n".join(draw(KernelsPage(), look_at(with_owner(device(0, code=code)))))
    assert "ring N/A / 4.3 MiB" in text


def test_the_chosen_device_is_shown() -> None:
    four = DETAIL_CASES["four"]()
    state = MonitorState(device=four.devices[2].unique_id)
    assert draw(KernelsPage(), look_at(four, state=state))[0].startswith(" device 2 ")


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(any_details(), *sizes, st.lists(st.sampled_from(["t", "enter", "down", "s", "S", "end"])))
def test_any_kernels_fit_any_window(
    snapshot: Snapshot, width: int, height: int, keys: list[str]
) -> None:
    draw(KernelsPage(), look_at(snapshot, width, height), keys)


def _under_cursor(picture: list[str]) -> list[str]:
    (row,) = [line for line in picture if line.startswith(">")]
    return row.replace(">", "> ", 1).split()


def test_kernels_of_a_process_with_sums_only_are_unknown_whoever_else_is_watched() -> None:
    stock = DETAIL_CASES["sums_only"]()
    (silent,) = stock.processes
    watched = replace(silent, pid=7, sources=("probe",), devices={})
    text = " ".join(draw(KernelsPage(), look_at(replace(stock, processes=(watched, silent)), 200)))
    assert "kernels N/A: shared memory v3 reports only totals" in text


def test_escape_goes_back_to_the_table_where_enter_was_pressed() -> None:
    page, look = KernelsPage(), look_at(DETAIL_CASES["one"]())
    programs = draw(page, look, ["t"])
    kernels = draw(page, look, ["enter"])
    assert page.back()
    assert (draw(page, look)[5:] == programs[5:], kernels == programs) == (True, False)
    assert not page.back()


@pytest.mark.parametrize("page", [KernelsPage(), DevicePage()])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_figures_of_a_device_that_is_watched_in_part_are_marked(page: Page, width: int) -> None:
    shown = draw(page, look_at(watched_in_part(), width))
    (marked,) = [line for line in shown if "kernel figures are partial" in line]
    assert "they miss kernels of processes" in marked


@pytest.mark.parametrize("width", [80, 120])
def test_a_kernel_keeps_its_operation_and_its_processor_where_there_is_little_space(
    width: int,
) -> None:
    snapshot = DETAIL_CASES["one"]()
    name = (
        "reader_bmm_tile_layout_in0_sender_padding_with_a_longer_name_than_fits_into_a_cell/brisc"
    )
    kernels = tuple(row._replace(name=name) for row in snapshot.kernels or ())
    programs = tuple(row._replace(name="ttnn.matmul") for row in snapshot.programs or ())
    picture = draw(
        KernelsPage(), look_at(replace(snapshot, kernels=kernels, programs=programs), width)
    )
    row = next(line for line in picture if line.startswith(">"))
    assert row.split()[-2] == "ttnn.matmul"
    assert re.fullmatch(r"reader_bmm_\w*…/brisc", row.split()[-1])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_program_is_known_by_its_operation_and_its_line_in_any_width(width: int) -> None:
    snapshot = DETAIL_CASES["one"]()
    site = "/home/alice/models/serve.py:25 layer"
    programs = tuple(one._replace(name="ttnn.matmul", site=site) for one in snapshot.programs or ())
    picture = draw(KernelsPage(), look_at(replace(snapshot, programs=programs), width), ["t"])

    rows = [line for line in picture if "ttnn.matmul" in line]
    assert rows
    assert all("serve.py:25 layer" in line for line in rows)
