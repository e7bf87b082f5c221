"""The section TELEMETRY, as pictures and in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timezone

import pytest

from tests.views.builders import device
from tests.views.cases import TELEMETRY_CASES, galaxy, n300_and_an_idle_card
from tests.views.test_pictures import WIDTHS, compare
from ttmem.errors import BadInput
from ttmem.text import columns
from ttmem.views.names import board, model
from ttmem.views.ps import render
from ttmem.views.selection import select


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TELEMETRY_CASES)
def test_telemetry_looks_as_it_did(name: str, width: int) -> None:
    picture = render(TELEMETRY_CASES[name](), width=width, color=False, zone=timezone.utc)
    compare(f"{name}-{width}", picture)


@pytest.mark.parametrize("width", [20, 40, 60])
def test_it_fits_a_narrow_window_too(width: int) -> None:
    for case in TELEMETRY_CASES.values():
        text = render(case(), width=width, color=False, zone=timezone.utc)
        assert max(map(columns, text.split("\n"))) <= width


def test_a_window_that_is_too_low_says_that_telemetry_is_missing() -> None:
    text = render(galaxy(), width=80, color=False, zone=timezone.utc, height=24)

    assert "TELEMETRY" not in text
    assert "telemetry" in text.split("\n")[-1]


def test_without_telemetry_there_is_no_section() -> None:
    picture = n300_and_an_idle_card()
    bare = replace(picture, devices=(device(0),), cards=())

    assert "TELEMETRY" not in render(bare, width=120, color=False)


def test_chips_are_named_as_people_know_them() -> None:
    chip = device(0)
    assert (model(chip), board(chip)) == ("n300 wormhole", "n300")
    assert model(replace(chip, remote=False)) == "n300 wormhole"
    assert model(replace(chip, remote=True)) == "n300 R wormhole"
    placed = replace(chip, board="galaxy", position="T2:N3", remote=False)
    assert (model(placed), board(placed)) == ("galaxy T2:N3 wormhole", "galaxy T2:N3")


def test_a_chip_of_a_galaxy_can_be_chosen_by_its_place() -> None:
    (chosen,) = select(galaxy(), ["T2:N3"], []).devices

    assert chosen.logical_id == 10
    with pytest.raises(BadInput):
        select(galaxy(), ["T5:N1"], [])


def test_who_chooses_devices_gets_no_other_cards() -> None:
    assert select(n300_and_an_idle_card(), ["0"], []).cards == ()
