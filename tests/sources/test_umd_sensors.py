"""Telemetry through the user-mode driver: a child process asks a package `tt_umd`, here a small one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.region_writer import N300_LOCAL, N300_REMOTE, add_n300
from ttmem.sources.telemetry.source import CardTelemetry, TelemetrySource
from ttmem.sources.telemetry.umd import UmdSensors

PACKAGE = f"""
import os
print("the driver logs to standard output")

class TelemetryTag:
    ASIC_TEMPERATURE = 11

class wormhole:
    class TelemetryTag:
        ASIC_TEMPERATURE = 29

class Reader:
    def __init__(self, raw): self.raw = raw
    def read_entry(self, tag): return self.raw[tag]

class SmBusArcTelemetryReader(Reader): pass

class Version:
    def to_string(self): return "18.10.0"

class Provider:
    beats = 0
    def get_tdp(self): return int(os.environ.get("FAKE_TDP", "21"))
    def get_tdc(self): return 17
    def get_vcore(self): return 700
    def get_aiclk(self): return 500
    def get_axiclk(self): raise RuntimeError("no such tag")
    def get_fan_rpms(self): return [None, 1800]
    def get_heartbeat(self):
        self.beats += 1
        return self.beats
    def get_firmware_version(self): return Version()
    def get_thm_limit_throttle(self): return 75.0

class Device:
    def __init__(self, reader): self.reader, self.provider = reader, Provider()
    def get_firmware_info_provider(self): return self.provider
    def get_arc_telemetry_reader(self): return self.reader

class Cluster:
    def get_chip_unique_ids(self): return {{0: {N300_LOCAL}, 1: {N300_REMOTE}}}
    def get_chip_pci_bdfs(self): return {{0: "0000:01:00.0"}}
    def get_board_type(self, chip): return "N300"

def board_type_to_string(board): return "n300"

class TopologyDiscovery:
    @staticmethod
    def discover():
        if "FAKE_CRASH" in os.environ: os.abort()
        while "FAKE_HANG" in os.environ: pass
        local = Device(SmBusArcTelemetryReader({{29: 36 * 16}}))
        remote = Device(Reader({{11: (1 << 32) - (5 << 16)}}))
        return Cluster(), {{0: local, 1: remote}}
"""


@pytest.fixture
def umd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UmdSensors]:
    package = tmp_path / "packages"
    package.mkdir()
    (package / "tt_umd.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(package))
    sensors = UmdSensors()
    yield sensors
    sensors.close()


def _by_id(looks: tuple[CardTelemetry, ...]) -> dict[int | None, CardTelemetry]:
    return {of.asic_id: (of, told) for of, told in looks}


def test_a_remote_chip_is_read_and_a_local_one_has_what_sysfs_lacks(
    umd: UmdSensors, tmp_path: Path
) -> None:
    add_n300(tmp_path)

    looks = _by_id(TelemetrySource(str(tmp_path), umd=umd).read().looks)

    of, remote = looks[N300_REMOTE]
    assert (of.number, of.pci, of.board and of.board.name) == (None, None, "n300")
    assert (remote.temperature_c, remote.power_w, remote.aiclk_mhz) == (-5.0, 21.0, 500)
    assert (remote.source, remote.firmware, remote.limits.temperature_c) == ("umd", "18.10.0", 75.0)
    assert remote.reasons == {
        "axiclk_mhz": "the user-mode driver does not report it",
        "arcclk_mhz": "the user-mode driver does not report it",
    }
    of, local = looks[N300_LOCAL]
    assert of.number == 0
    assert (local.temperature_c, local.axiclk_mhz) == (51.3, 900)  # of sysfs
    assert (local.fan_rpm, local.source, local.reasons) == (1800, "sysfs + umd", {})


def test_its_values_are_believed_no_more_than_those_of_sysfs(
    umd: UmdSensors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TDP", "501")

    looks = _by_id(TelemetrySource(str(tmp_path), umd=umd).read().looks)

    told = looks[N300_REMOTE][1]
    assert told.power_w is None
    assert told.reasons["power_w"] == "501 W is not plausible; expected is 0 to 500 W"


def test_one_child_answers_all_questions_so_heartbeats_are_followed(
    umd: UmdSensors, tmp_path: Path
) -> None:
    source = TelemetrySource(str(tmp_path), umd=umd)
    source.read()

    looks = _by_id(source.read().looks)

    assert (looks[N300_REMOTE][1].heartbeat, looks[N300_REMOTE][1].stale) == (2, False)


def test_a_driver_that_crashes_costs_the_remote_chips_only(
    umd: UmdSensors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_n300(tmp_path)
    monkeypatch.setenv("FAKE_CRASH", "1")

    reading = TelemetrySource(str(tmp_path), umd=umd).read()

    ((_, told),) = reading.looks
    assert told.temperature_c == 51.3
    assert reading.remote == "the user-mode driver failed: it ended (signal 6)"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import time; time.sleep(600)", "no answer within 0 s"),
        ("raise SystemExit(3)", "it ended (exit code 3)"),
        ("print('[1, 2]', flush=True); input()", "its answer cannot be understood"),
        ("print('x' * (2 << 20), flush=True); input()", "its answer is too long"),
    ],
)
def test_an_answer_that_does_not_come_or_is_none_is_a_problem_with_words(
    program: str, problem: str
) -> None:
    patience = 0.2 if "sleep" in program else 60.0
    sensors = UmdSensors((sys.executable, "-c", program), patience_s=patience)

    assert sensors.ask() == []
    assert sensors.problem == f"the user-mode driver failed: {problem}"


def test_chips_that_make_no_sense_are_chips_without_values(tmp_path: Path) -> None:
    program = (
        "import json; input(); print(json.dumps([{}, {'unique_id': 'x', 'pci': 7, 'board': [],"
        " 'values': {'power_w': True, 'aiclk_mhz': 1e999, 'heartbeat': 10**400}, 'limits': 3}]),"
        " flush=True); input()"
    )
    sensors = UmdSensors((sys.executable, "-c", program))

    looks = TelemetrySource(str(tmp_path), umd=sensors).read().looks
    sensors.close()

    assert [told.source for _, told in looks] == [None, None]
