"""A chip that was used once and left an empty region behind does not hide those in use."""

from __future__ import annotations

from dataclasses import replace

from tests.views.builders import device, use
from tests.views.cases import one_device
from ttmem.events import Amounts
from ttmem.snapshots import Device, LeftBehind
from ttmem.views.monitor.watch import Choice
from ttmem.views.ps import render
from ttmem.views.selection import idle_sentence, without_idle


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


def test_where_all_devices_are_idle_no_region_is_said_to_be_missing() -> None:
    used = one_device()
    host = {"name": "tt-box-7", "shared_memory": "/dev/shm"}
    idle = replace(used, devices=(_blank("77"),), processes=(), left_behind=(), host=host)

    text = render(idle, width=120, color=False)

    assert idle_sentence(1) in text
    assert "no device is in use" in text
    assert "no region" not in text
