"""A chip that was used once and left an empty region behind does not hide those in use."""

from __future__ import annotations

from dataclasses import replace

from tests.views.builders import device, use
from tests.views.cases import one_device
from tests.views.monitor.monitors import draw, look_at
from ttmem.errors import NothingToRead
from ttmem.events import Amounts
from ttmem.snapshots import Anomaly, Device, LeftBehind, Snapshot
from ttmem.views.monitor.frame import ScreenFrame, Status
from ttmem.views.monitor.live_data import Choice
from ttmem.views.monitor.pages.overview import OverviewPage
from ttmem.views.monitor.state import Drawn, MonitorState
from ttmem.views.ps import render
from ttmem.views.selection import TRY, idle_sentence, select, without_idle


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

    assert [device.unique_id for device in picture.devices] == ["77"]
    assert sentence == ""


def test_a_number_names_the_device_in_use_not_an_unused_one_with_the_same_number() -> None:
    used = one_device()
    busy = replace(used, devices=(*used.devices, _blank("77")))

    assert select(busy, ["0"], ()).devices == used.devices
    assert [one.unique_id for one in select(busy, ["77"], ()).devices] == ["77"]


def test_a_chip_kept_only_for_a_ghost_takes_neither_a_row_nor_a_number_from_those_in_use() -> None:
    used = one_device()
    left = LeftBehind(9, "python", 1, {"77": Amounts(1, 0, 0, 0, 0)}, ghost=True)
    ghost = Anomaly("ghost", "process 9 (python) has died and left 1 B behind", 9, 1)
    stored = Anomaly("totals_disagree", "the stored totals are not the sum", None, 1)
    chip = replace(_blank("77"), anomalies=(ghost, stored))
    busy = replace(used, devices=(*used.devices, chip), left_behind=(left,))

    shown, count = without_idle(busy)
    lines = render(busy, width=120, color=False).splitlines()

    assert (shown.devices, count) == (used.devices, 1)
    assert idle_sentence(1) in "\n".join(lines)
    (dead,) = [line for line in lines[lines.index(_title("LEFT BEHIND", lines)) :] if " 9*" in line]
    assert "id 77" in dead
    live = lines[lines.index(_title("PROCESSES", lines)) + 2].split()
    assert (live[0], live[2]) == (str(used.processes[0].pid), "0")


def _title(beginning: str, lines: list[str]) -> str:
    return next(line for line in lines if line.startswith(beginning))


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


def test_a_server_without_processes_suggests_what_to_try() -> None:
    chips = tuple(device(number, board="galaxy", dram=use(0)) for number in range(32))
    idle = replace(one_device(), devices=chips, processes=(), left_behind=())

    text = " ".join(render(idle, width=120, color=False).split())
    overview = draw(OverviewPage(), look_at(idle, 120, 50))

    assert f"no process uses a device; {NothingToRead.advice}" in text
    assert NothingToRead.advice in " ".join(overview)
    assert (
        len([line for line in overview if line.strip()]) < 16
    )  # not a line of zeros for each chip


def test_what_cannot_be_read_is_not_called_live() -> None:
    def header(shown: Snapshot | None, problem: str | None = None) -> str:
        status = Status("server /tmp/x.sock", 1.0, 1, 0.0, problem, live=True)
        frame = ScreenFrame(status, MonitorState(), shown, ["Overview"], (), 120, 24)
        return "".join(span.text for span in frame.around(lambda *_: Drawn([])).lines[0])

    assert "live" in header(one_device())
    assert "live" not in header(one_device(), "no server")
    assert "live" not in header(None)


def test_devices_that_are_not_shown_are_mentioned_on_the_overview_alone() -> None:
    def shown(page: int) -> str:
        status = Status("server /tmp/x.sock", 1.0, 1, 0.0, missing=idle_sentence(2))
        frame = ScreenFrame(status, MonitorState(page=page), one_device(), ["A", "B"], (), 120, 24)
        drawn = frame.around(lambda *_: Drawn([]))
        return "".join(span.text for line in drawn.lines for span in line)

    assert idle_sentence(2) in shown(0)
    assert f"! {idle_sentence(2)}" not in shown(0)
    assert idle_sentence(2) not in shown(1)


def test_what_is_unknown_about_an_unused_chip_is_not_noted_beside_one_in_use() -> None:
    used = one_device()
    unused = device(1, unique_id="77", board="p150", dram=use(0), l1_capacity=None)
    both = replace(used, devices=(*used.devices, unused))
    alone = replace(both, devices=(unused,), processes=(), left_behind=())

    notes = [render(each, width=120, color=False) for each in (both, alone)]

    assert ["capacity N/A on device" in text for text in notes] == [False, True]
