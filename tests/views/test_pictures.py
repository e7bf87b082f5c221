"""The table as pictures. TTMEM_UPDATE_PICTURES=1 takes them anew; then look at them."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timezone
from pathlib import Path

import pytest

from tests.views import builders
from tests.views.cases import CASES, dump_case
from ttmem.text import columns
from ttmem.views.dump import render_dump
from ttmem.views.ps import render

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = (80, 120, 200)
WINDOWS = ((80, 24), (120, 40), (50, 24))


def compare(name: str, picture: str) -> None:
    file = PICTURES / f"{name}.txt"
    if os.environ.get("TTMEM_UPDATE_PICTURES") == "1":
        file.write_text(picture + "\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == picture + "\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_the_table_looks_as_it_did(name: str, width: int) -> None:
    picture = render(CASES[name](), width=width, color=False, zone=timezone.utc)
    compare(f"{name}-{width}", picture)


@pytest.mark.parametrize(("width", "height"), WINDOWS)
@pytest.mark.parametrize("name", CASES)
def test_a_window_shows_what_matters_most(name: str, width: int, height: int) -> None:
    picture = render(
        CASES[name](), width=width, color=False, zone=timezone.utc, height=height - 1
    )  # the cursor has a line too
    assert len(picture.split("\n")) < height
    compare(f"window-{height}-{name}-{width}", picture)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernel_table_looks_as_it_did(width: int) -> None:
    snapshot = CASES["four_devices"]()
    picture = render(snapshot, width=width, color=False, kernels=True, zone=timezone.utc)
    compare(f"kernels-{width}", picture)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_was_never_freed_looks_as_it_did(width: int) -> None:
    case = dump_case()
    endings = {41235: builders.NOW - 200_000_000_000, 42001: None}
    memory = replace(case.without_details(), buffers=case.buffers)
    compare(
        f"never-freed-{width}",
        render_dump(
            builders.snapshot(),
            never_freed=memory,
            ended_ns=endings,
            width=width,
            color=False,
            zone=timezone.utc,
        ),
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_the_dump_looks_as_it_did(width: int) -> None:
    snapshot = dump_case()
    compare(
        f"dump-{width}",
        render_dump(snapshot, width=width, color=False, zone=timezone.utc),
    )
    compare(
        f"dump-all-{width}",
        render_dump(snapshot, single=True, width=width, color=False, zone=timezone.utc),
    )


def test_colours_look_as_they_did() -> None:
    picture = render(CASES["seed_004_on_a_real_n300"](), width=100, color=True, zone=timezone.utc)
    compare("colours", picture.replace("\x1b", "ESC"))


@pytest.mark.parametrize("file", sorted(PICTURES.glob("*-*.txt")), ids=lambda file: file.stem)
def test_no_line_of_a_picture_is_wider_than_its_terminal(file: Path) -> None:
    width = int(file.stem.rpartition("-")[2])
    too_wide = [line for line in file.read_text("utf-8").splitlines() if columns(line) > width]
    assert too_wide == []
