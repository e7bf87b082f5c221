from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.builders import device
from tests.views.cases import dump_case, four_devices
from ttmem.errors import BadInput
from ttmem.events import Amounts
from ttmem.snapshots import Anomaly
from ttmem.views.selection import select


@pytest.mark.parametrize("wanted", ["1", "9223372036855000003"])
def test_a_device_is_chosen_by_logical_or_unique_id(wanted: str) -> None:
    chosen = select(four_devices(), [wanted], [])
    assert [device.logical_id for device in chosen.devices] == [1]


def test_what_is_chosen_still_adds_up() -> None:
    chosen = select(four_devices(), ["1", "3"], [])
    held = Amounts.total(h for process in chosen.processes for h in process.devices.values())
    assert held == Amounts.total(device.memory.amounts for device in chosen.devices)


def test_processes_on_other_devices_are_left_out() -> None:
    assert [process.pid for process in select(four_devices(), ["0"], []).processes] == [41235]


def test_details_follow_the_choice() -> None:
    chosen = select(dump_case(), [], [42001])
    assert [row.pid for row in (chosen.buffers or ())] == [42001]


def test_a_process_is_shown_with_the_devices_that_it_uses_alone() -> None:
    chosen = select(four_devices(), [], [42001])
    assert [device.logical_id for device in chosen.devices] == [3]


def test_what_other_processes_left_behind_is_not_remarked_on() -> None:
    case = dump_case()
    (chip,) = case.devices
    ghosts = [Anomaly("ghost", f"process {pid} has died", pid) for pid in (7, 42001)]
    wrong = Anomaly("over_capacity", "more than there is", 7)
    odd = replace(chip, anomalies=(*ghosts, wrong))

    chosen = select(replace(case, devices=(odd,)), [], [42001])

    assert chosen.devices[0].anomalies == (ghosts[1], wrong)


def test_of_many_devices_only_some_are_named() -> None:
    devices = tuple(device(number) for number in range(50))
    with pytest.raises(BadInput, match=r"known are: 0 \(\d+\), .* 7 \(\d+\), and 42 more$"):
        select(replace(four_devices(), devices=devices), ["99"], [])


def test_what_is_not_there_is_said_with_what_is() -> None:
    with pytest.raises(BadInput, match=r"no process has reported device '9'; known are: 0 \(92"):
        select(four_devices(), ["9"], [])
    with pytest.raises(BadInput, match="no process 77 has reported anything"):
        select(four_devices(), [], [77])
