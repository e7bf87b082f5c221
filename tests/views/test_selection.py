from __future__ import annotations

import pytest

from tests.views.cases import four_devices
from tests.views.dump_case import dump_case
from ttmem.errors import BadInput
from ttmem.views.holdings import on_devices, together
from ttmem.views.selection import select


@pytest.mark.parametrize("wanted", ["1", "9223372036855000003"])
def test_a_device_is_chosen_by_logical_or_unique_id(wanted: str) -> None:
    chosen = select(four_devices(), [wanted], [])
    assert [device.logical_id for device in chosen.devices] == [1]


def test_what_is_chosen_still_adds_up() -> None:
    chosen = select(four_devices(), ["1", "3"], [])
    held = together(h for process in chosen.processes for h in process.devices.values())
    assert held == on_devices(chosen.devices)


def test_processes_on_other_devices_are_left_out() -> None:
    assert [process.pid for process in select(four_devices(), ["0"], []).processes] == [41235]


def test_details_follow_the_choice() -> None:
    chosen = select(dump_case(), [], [42001])
    assert [row["pid"] for row in chosen.detail["buffers"]] == [42001]


def test_what_is_not_there_is_said_with_what_is() -> None:
    with pytest.raises(BadInput, match=r"no process has reported device '9'; known are: 0 \(92"):
        select(four_devices(), ["9"], [])
    with pytest.raises(BadInput, match="no process 77 has reported anything"):
        select(four_devices(), [], [77])
