"""A chip that was used once and left an empty region behind does not hide those in use."""

from __future__ import annotations

from dataclasses import replace

from tests.views.builders import device, use
from tests.views.cases import one_device
from ttmem.events import Amounts
from ttmem.snapshots import Device, LeftBehind
from ttmem.views.monitor.watch import Choice
from ttmem.views.ps import render
from ttmem.views.selection import TRY, idle_sentence, without_idle


def _blank(unique_id: str) -> Device:
    return device(0, unique_id=unique_id, board=None, dram=use(0), l1_capacity=None)


def test_blank_devices_are_counted_instead_of_shown() -> None:
    used = one_device()
    busy = replace(used, devices=(*used.devices, _blank("77"), _blank("78")))

    shown, count = without_idle(busy)

    assert (shown.devices, count) == (used.devices, 2)
    assert idle_sentence(2) in render(busy, width=120, color=False)
    assert Choice().of(busy) == (used, idle_sentence(2))


def test_a_device_that_was_asked_for_is_shown_blank_or_not() -> None:
    used = one_device()
    busy = replace(used, devices=(*used.devices, _blank("77")))

    picture, sentence = Choice(devices=("77",)).of(busy)

    assert [one.unique_id for one in picture.devices] == ["77"]
    assert sentence == ""


def test_a_device_that_a_dead_process_left_bytes_on_is_not_idle() -> None:
    used = one_device()
    left = LeftBehind(9, "python", 1, {"77": Amounts(1, 0, 0, 0, 0)})
    busy = replace(used, devices=(*used.devices, _blank("77")), left_behind=(left,))

    assert without_idle(busy) == (busy, 0)


def test_an_idle_host_says_so_and_suggests_two_commands_instead_of_a_server() -> None:
    used = one_device()
    host = {"name": "tt-box-7", "shared_memory": "/dev/shm"}
    idle = replace(used, devices=(_blank("77"),), processes=(), left_behind=(), host=host)

    text = render(idle, width=120, color=False)

    assert idle_sentence(1) in text
    assert "nothing is running on a Tenstorrent device; try" in text
    assert [command for command in TRY if command in text] == list(TRY)
    assert "serve" not in text


def test_the_idle_chips_of_a_galaxy_share_a_line() -> None:
    used = one_device()
    chips = tuple(device(number, board="galaxy", dram=use(0)) for number in range(1, 32))
    galaxy = replace(used, devices=(*used.devices, *chips))

    text = render(galaxy, width=120, color=False)

    assert " 31 idle: devices 1-31 (galaxy)" in text
    assert len(text.splitlines()) < 30


def test_a_chip_that_a_process_has_opened_is_not_folded_away() -> None:
    chips = tuple(device(number, board="galaxy", dram=use(0)) for number in range(32))
    used = one_device()
    opened = replace(used.processes[0], devices={chips[5].unique_id: Amounts()})
    galaxy = replace(used, devices=chips, processes=(opened,))

    assert " 31 idle: devices 0-4,6-31 (galaxy)" in render(galaxy, width=120, color=False)
