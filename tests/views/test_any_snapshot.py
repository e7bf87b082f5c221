from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import snapshots, texts
from ttmem.events import Amounts
from ttmem.sizes import human
from ttmem.snapshots import Snapshot
from ttmem.text import clean, clip, columns, wrap
from ttmem.views.dump import render_dump
from ttmem.views.ink import Style
from ttmem.views.names import short_ids
from ttmem.views.ps import render

widths = st.integers(40, 240)
any_snapshot = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@any_snapshot
@given(snapshots(), widths, st.booleans())
def test_any_snapshot_fits_any_width(snapshot: Snapshot, width: int, kernels: bool) -> None:
    picture = render(snapshot, width=width, color=False, kernels=kernels, earlier=snapshot)
    assert [line for line in picture.split("\n") if columns(line) > width] == []


@any_snapshot
@given(snapshots(), widths, st.integers(2, 60), st.booleans())
def test_any_snapshot_fits_any_window(
    snapshot: Snapshot, width: int, height: int, kernels: bool
) -> None:
    picture = render(
        snapshot, width=width, color=False, kernels=kernels, earlier=snapshot, height=height
    )
    lines = picture.split("\n")
    assert len(lines) <= height
    assert [line for line in lines if columns(line) > width] == []


@any_snapshot
@given(snapshots(), st.integers(24, 60))
def test_the_total_row_is_there_at_any_height(snapshot: Snapshot, height: int) -> None:
    lines = render(snapshot, width=240, color=False, height=height).split("\n")
    rows = [line.split() for line in lines]
    assert [row[1:] for row in rows if row[:1] == ["total"]] == (
        [expected_total(snapshot)] if snapshot.processes else []
    )


@any_snapshot
@given(snapshots())
def test_a_window_that_is_tall_enough_shows_everything(snapshot: Snapshot) -> None:
    whole = render(snapshot, width=120, color=False)
    assert render(snapshot, width=120, color=False, height=len(whole.split("\n"))) == whole


@any_snapshot
@given(snapshots(), widths)
def test_any_dump_fits_any_width(snapshot: Snapshot, width: int) -> None:
    picture = render_dump(snapshot, top=3, width=width, color=False)
    assert [line for line in picture.split("\n") if columns(line) > width] == []


@any_snapshot
@given(snapshots(), widths)
def test_nothing_but_our_own_colours_reaches_the_terminal(snapshot: Snapshot, width: int) -> None:
    picture = render(snapshot, width=width, color=True)
    ours = re.compile(rf"\x1b\[(?:0|{'|'.join(style.value for style in Style)})m")
    assert ours.sub("", picture).replace("\n", "").isprintable()


@any_snapshot
@given(snapshots())
def test_the_total_row_is_the_sum_of_the_processes(snapshot: Snapshot) -> None:
    lines = render(snapshot, width=240, color=False).split("\n")
    totals = [line.split() for line in lines if line.strip().startswith("total ")]
    expected = [["total", *expected_total(snapshot)]]
    assert totals == (expected if snapshot.processes else [])


def expected_total(snapshot: Snapshot) -> list[str]:
    held = Amounts.total(h for process in snapshot.processes for h in process.devices.values())
    return " ".join(map(human, held)).split()


@given(st.lists(texts.map(clean), unique=True), st.integers(1, 60))
def test_shortened_ids_stay_different(ids: list[str], room: int) -> None:
    assert len(set(short_ids(ids, room).values())) == len(ids)


@given(texts, st.integers(0, 50))
def test_a_clipped_text_fits(text: str, room: int) -> None:
    assert columns(clip(clean(text), room)) <= room


@given(texts, st.integers(2, 50))
def test_wrapping_loses_no_letter(text: str, room: int) -> None:
    lines = wrap(clean(text), room)
    assert "".join("".join(lines).split()) == "".join(clean(text).split())
    assert all(columns(line) <= room for line in lines)
