from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.builders import KIB, NOW, device, process, snapshot, use
from ttmem.events import Amounts
from ttmem.snapshots import LeftBehind
from ttmem.text import short_command
from ttmem.views.dump import render_dump
from ttmem.views.names import DeviceNames, in_order, short_ids
from ttmem.views.ps import render


def test_runs_of_devices_are_joined() -> None:
    devices = [device(number) for number in (0, 1, 2, 3, 7)]
    assert DeviceNames(devices).some(d.unique_id for d in devices) == "0-3,7"


def test_where_two_devices_have_one_number_all_go_by_their_unique_ids() -> None:
    devices = [
        device(0, unique_id="aaaa"),
        device(0, unique_id="bbbb"),
        device(1, unique_id="cccc"),
    ]
    assert DeviceNames(devices).some(["bbbb", "cccc"]) == "bbbb,cccc"


def test_a_device_that_nobody_uses_takes_no_number_from_one_in_use() -> None:
    devices = [*(device(number) for number in range(4)), device(0, unique_id="dead"), device(9)]
    names = DeviceNames(devices, [one.unique_id for one in devices[:4]])

    assert names.some(one.unique_id for one in devices) == "0-3,9,dead"


def test_where_numbers_repeat_the_devices_of_one_process_come_together() -> None:
    ids = ("m", "b", "c", "k")
    chips = [device(at % 2, unique_id=one) for at, one in enumerate(ids)]
    unused = device(0, unique_id="a")
    users = [
        process(pid, "a", dict.fromkeys(pair, Amounts())) for pid, pair in ((1, "mk"), (2, "bc"))
    ]

    ordered = in_order(snapshot([*chips, unused], users))

    assert [one.unique_id for one in ordered.devices] == ["c", "b", "m", "k", "a"]


def test_a_device_that_is_not_in_the_picture_goes_by_its_unique_id() -> None:
    assert DeviceNames([]).some(["1234"]) == "1234"


def test_a_unique_id_that_looks_like_a_number_says_what_it_is() -> None:
    devices = [device(0, unique_id="0"), device(0, unique_id="4476187513037")]
    assert DeviceNames(devices).some(d.unique_id for d in devices) == "id 0,4476…3037"


def test_in_a_sentence_names_stand_apart_and_are_not_too_many() -> None:
    devices = [device(0, unique_id=f"chip-{letter}") for letter in "abcdef"]
    names = DeviceNames([*devices, device(1, unique_id="one")], ["one"])

    told = names.sentence([*(d.unique_id for d in devices), "one"])

    assert told == "devices 1, chip-a, chip-b, chip-c, chip-d, and 2 more"


def test_ids_are_cut_in_the_middle() -> None:
    assert short_ids(["9223372036854000000"], 9) == {"9223372036854000000": "9223…0000"}


def test_ids_that_differ_in_the_middle_only_keep_their_middle() -> None:
    ids = ["aaaaaaaaaa1zzzzzzzzzz", "aaaaaaaaaa2zzzzzzzzzz"]
    assert len(set(short_ids(ids, 9).values())) == 2


def test_ids_that_differ_at_the_end_only_keep_their_end() -> None:
    ids = [f"very-long-host-name.example:{number}" for number in range(32)]
    short = short_ids(ids, 9)
    assert len(set(short.values())) == 32
    assert max(map(len, short.values())) == 9


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/opt/venv/bin/python3.12 /srv/models/generate.py --batch 8", "generate.py --batch 8"),
        ("python -m pytest models/demo.py -k fast", "pytest models/demo.py -k fast"),
        ("python3 -u -X dev -Wignore serve.py", "serve.py"),
        ("python -c import ttnn; ttnn.open_device()", "python -c import ttnn; ttnn.open_device()"),
        ("/usr/bin/python3 -", "python3 -"),
        ("/usr/bin/python3", "python3"),
        ("/opt/tt/bin/llama-server --port 8000", "llama-server --port 8000"),
        ("python ", "python "),
        ("/", "/"),
        ("", ""),
        (None, "N/A"),
    ],
)
def test_of_a_command_line_the_script_and_its_arguments_are_kept(
    command: str | None, shown: str
) -> None:
    assert short_command(command) == shown


def test_a_hidden_device_changes_no_name_on_a_screen() -> None:
    """An unused device of an unknown board has the number of one that is in use."""
    used = [replace(device(number), memory=device(number, l1=KIB).memory) for number in range(2)]
    hidden = device(0, unique_id="8083000000002984", board=None, dram=use(0), l1_capacity=None)
    held = {one.unique_id: Amounts(l1=KIB) for one in used}
    died = LeftBehind(7, "python a.py", NOW, held)
    before = snapshot([*used, hidden], [process(8, "python b.py", held)], left_behind=[died])
    grown = {one: Amounts(l1=2 * KIB) for one in held}
    now = replace(before, processes=(process(8, "python b.py", grown),))
    ended = replace(before, devices=tuple(used))

    shown = render(now, previous=before, width=120, color=False)
    dumped = render_dump(now, never_freed=ended, ended_ns={8: NOW}, width=120, color=False)

    for title in ("PROCESSES", "CHANGES", "LEFT BEHIND"):
        assert " 0-1 " in shown[shown.index(title) :].splitlines()[2]
    for title in ("NEVER FREED", "LEFT BEHIND"):
        assert " 0-1 " in "".join(dumped[dumped.index(title) :].splitlines()[1:4])
