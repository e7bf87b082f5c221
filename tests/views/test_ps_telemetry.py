"""`ttmem ps --telemetry` as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.other_user import as_plain_user, needs_root
from tests.own_process import finish
from tests.sources.region_writer import N300_LOCAL, N300_REMOTE, Written, add_card, add_n300
from tests.sources.test_umd_sensors import PACKAGE


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    root.mkdir()
    return root


def _regions(folder: Path) -> None:
    for logical_id, number in enumerate((N300_LOCAL, N300_REMOTE)):
        Written(number=number, logical_id=logical_id).write(folder)


def test_the_table_has_a_section_of_its_own(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    add_card(sysfs, 7, 0x41, tt_card_type="p150a", fan1_input="2400")
    _regions(tmp_path)

    done = finish("ps", "--telemetry", "--shm", str(tmp_path), TTMEM_SYSFS=str(sysfs))

    assert done.returncode == 0
    section = done.stdout.partition("TELEMETRY")[2].partition("PROCESSES")[0]
    local, remote, idle = section.splitlines()[2:5]
    assert local.split()[:3] == ["0", "n300", "wormhole"]
    assert "51.3 °C" in local  # its heartbeat stands still: limits would say nothing
    assert remote.split()[:6] == ["1", "n300", "R", "wormhole", "N/A", "N/A"]
    assert idle.split()[:4] == ["card", "7", "p150", "blackhole"]
    assert "* stale: the heartbeat of device 0, card 7 has not changed" in section
    assert (
        "all readings of device 1: a remote chip: only the user-mode driver reaches it" in section
    )


def test_json_has_values_reasons_and_cards_and_null_where_nobody_asked(
    tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    add_card(sysfs, 7, 0x41, tt_card_type="p150a", power1_input="501000000")
    _regions(tmp_path)
    where = ("--shm", str(tmp_path), "--json")

    asked = json.loads(finish("ps", "--telemetry", "--sysfs", str(sysfs), *where).stdout)
    not_asked = json.loads(finish("ps", *where, TTMEM_SYSFS=str(sysfs)).stdout)

    local, remote = asked["devices"]
    assert (local["telemetry"]["temperature_c"], local["telemetry"]["source"]) == (51.3, "sysfs")
    assert remote["telemetry"]["temperature_c"] is None
    assert "--umd" in remote["telemetry"]["reasons"]["temperature_c"]
    (card,) = asked["cards"]
    assert (card["number"], card["telemetry"]["power_w"]) == (7, None)
    assert card["telemetry"]["reasons"]["power_w"].startswith("501 W is not plausible")
    assert [device["telemetry"] for device in not_asked["devices"]] == [None, None]
    assert [device["remote"] for device in not_asked["devices"]] == [False, True]
    assert not_asked["cards"] == []


def test_with_umd_the_remote_chip_is_read(tmp_path: Path, sysfs: Path) -> None:
    (tmp_path / "tt_umd.py").write_text(PACKAGE)
    add_n300(sysfs)
    _regions(tmp_path)

    done = finish(
        *("ps", "--telemetry", "--umd", "--json", "--shm", str(tmp_path), "--sysfs", str(sysfs)),
        PYTHONPATH=str(tmp_path),
    )

    local, remote = json.loads(done.stdout)["devices"]
    assert (local["telemetry"]["source"], local["telemetry"]["fan_rpm"]) == ("sysfs + umd", 1800)
    assert (remote["telemetry"]["source"], remote["telemetry"]["power_w"]) == ("umd", 21.0)
    assert remote["telemetry"]["stale"] is False


def test_cards_that_nobody_uses_are_enough_for_a_picture(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)

    done = finish("ps", "--telemetry", "--sysfs", str(sysfs), TTMEM_SHM=str(tmp_path))

    assert done.returncode == 0
    assert " card 0 " in done.stdout


def test_with_neither_card_nor_memory_there_is_nothing_to_show(tmp_path: Path, sysfs: Path) -> None:
    done = finish("ps", "--telemetry", "--shm", str(tmp_path), "--sysfs", str(sysfs))

    assert done.returncode == 3
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sysfs", "/"), "--sysfs needs --telemetry"),
        (("--telemetry", "--sysfs", "/none"), "--sysfs /none is not a directory"),
        (("--telemetry", "--sysfs", ""), "it is empty"),
        (("--telemetry", "--by", "pid"), "--by and --telemetry cannot be combined"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], said: str) -> None:
    done = finish("ps", *arguments)

    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.skipif(find_spec("tt_umd") is not None, reason="the user-mode driver is installed")
def test_umd_without_its_package_says_what_to_install() -> None:
    for verb in ("ps", "top", "serve"):
        done = finish(verb, "--umd")

        assert done.returncode == 2
        assert f"{sys.executable} -m pip install 'tt-umd>=" in done.stderr


def test_a_variable_that_names_no_folder_is_refused(tmp_path: Path) -> None:
    done = finish("ps", "--telemetry", TTMEM_SYSFS=str(tmp_path / "none"))

    assert done.returncode == 2
    assert "TTMEM_SYSFS=" in done.stderr


def test_a_watch_follows_heartbeats_from_look_to_look(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    where = ("--shm", str(tmp_path), "--sysfs", str(sysfs))

    command = [sys.executable, "-m", "ttmem", "ps", "--telemetry", "--json", "--watch", "0.6"]
    with subprocess.Popen([*command, *where], stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        looks = [json.loads(watch.stdout.readline()) for _ in range(4)]
        watch.kill()

    stale = [look["devices"][0]["telemetry"]["stale"] for look in looks]
    assert stale[0] is None
    assert stale[-1] is True


@needs_root
def test_no_root_is_needed_and_what_is_closed_is_told(tmp_path: Path, sysfs: Path) -> None:
    files = add_n300(sysfs)
    os.chmod(files.folder / "tt_serial", 0)
    os.chmod(files.hwmon / "power1_input", 0)
    os.chown(files.hwmon / "power1_input", 65534, 65534)

    done = as_plain_user(
        *("ps", "--telemetry", "--json", "--sysfs", str(sysfs)), TTMEM_SHM=str(tmp_path)
    )

    (card,) = json.loads(done.stdout)["cards"]
    assert card["telemetry"]["temperature_c"] == 51.3
    assert card["telemetry"]["power_w"] is None
    assert card["telemetry"]["reasons"]["power_w"] == "you may not read it"
