"""`ttmem ps FILE` and `ttmem dump FILE`: which recording, which instant, and where to look instead."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ttmem._native import Ledger
from ttmem.commands import main
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType, encode_long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """It has freed everything at its end; it uses no trace region."""
    file = tmp_path_factory.mktemp("instants") / "run.ttmem"
    simulated = ["simulate", "clash", "--rate", "0", "--size", "small", "--steps", "20"]
    assert main([*simulated, "-o", str(file)]) == 0
    return str(file)


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main([*command]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("verb", ["ps", "dump"])
def test_the_header_names_the_recording_and_the_instant(
    verb: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(r"· run\.ttmem at 0\.000 s, #\d+ ·", shown(capsys, verb, run, "--at", "start"))
    assert ", its end ·" in shown(capsys, verb, run, "--at", "end")


def test_the_position_in_the_header_leads_back_to_the_same_state(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    peak = shown(capsys, "ps", run, "--at", "peak:l1_used", "--json")
    position = json.loads(peak)["host"]["recording"]["position"]

    again = shown(capsys, "ps", run, "--at", f"#{position}", "--json")

    assert json.loads(again) == json.loads(peak)


def test_the_time_that_peak_prints_leads_back_to_the_peak(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(
        r"PEAK OF L1 used .*?, at ([\d.]+s) \(--at '#(\d+)'", shown(capsys, "peak", run)
    )
    assert found is not None

    by_time, by_position = (
        json.loads(shown(capsys, "ps", run, "--at", at, "--json"))
        for at in (found[1], f"#{found[2]}")
    )

    assert by_time["devices"] == by_position["devices"]


def test_ps_opens_a_recording_where_memory_was_last_in_use(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = json.loads(shown(capsys, "ps", run, "--json"))
    end = json.loads(shown(capsys, "ps", run, "--at", "end", "--json"))

    assert sum(device["memory"]["dram"]["held"] for device in opened["devices"]) > 0
    assert [one["text"] for one in opened["remarks"]] == [
        "opened at the peak of DRAM: nothing is allocated at the end (--at end shows that)"
    ]
    assert (end["host"]["recording"]["at_end"], end["remarks"]) == (True, [])


@pytest.mark.parametrize("verb", ["ps", "dump"])
def test_where_nothing_is_allocated_other_instants_are_named(
    verb: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        "hint: nothing is allocated at this instant; try --at peak:dram or --at peak:l1"
        in shown(capsys, verb, run, "--at", "end")
    )
    assert "hint: nothing" not in shown(capsys, verb, run, "--at", "peak:l1")


def test_a_recording_gets_no_advice_for_an_idle_host(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "ps", run, "--at", "start")

    assert "no device was in use at this instant of the recording" in text
    assert "ttmem run" not in text


def test_a_peak_of_memory_that_was_never_used_says_so(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "ps", run, "--at", "peak:trace")

    assert "nothing was allocated in TRACE, so it has no peak: this is the start" in text


def test_an_instant_after_the_end_is_the_end_and_says_so(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(shown(capsys, "ps", run, "--at", "99s", "--json"))

    assert document["host"]["recording"]["at_end"]
    assert "has no instant 99.000 s: it ends at" in document["remarks"][0]["text"]


@pytest.mark.parametrize(
    ("hours", "edge"), [(-2, "it begins at"), (2, "it ends at")], ids=["before", "after"]
)
def test_a_clock_time_outside_the_recording_is_its_edge_and_says_so(
    hours: int, edge: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recording(run) as recording:
        started, ended = recording.span
    at = datetime.fromtimestamp(started / 10**9) + timedelta(hours=hours)

    document = json.loads(shown(capsys, "ps", run, "--at", at.isoformat(), "--json"))

    assert document["time_ns"] == (started if hours < 0 else ended)
    (said,) = (one["text"] for one in document["remarks"] if one["kind"] == "instant")
    assert said.startswith(f"the recording has no instant {at:%Y-%m-%d %H:%M:%S}")
    assert edge in said


def test_a_position_after_the_end_is_the_end_and_says_so(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "ps", run, "--at", "#99999999")

    assert "the recording has no instant #99999999: it ends at #" in text


def test_a_time_of_day_is_looked_for_after_midnight_too(tmp_path: Path) -> None:
    """A recording from 23:50 to 00:10."""
    evening = datetime(2026, 11, 17, 23, 50).astimezone()
    start = int(evening.timestamp()) * 10**9
    minute = 60 * 10**9
    sink = FileSink(str(tmp_path / "night.ttmem"))
    for kind, minutes in ((ChunkType.FILE, 0), (ChunkType.STATE, 0), (ChunkType.END, 20)):
        payload = Ledger().save() if kind is ChunkType.STATE else b"{}"
        for chunk in encode_long(kind, payload, 1, position=0, time=start + minutes * minute):
            sink.append(chunk)
    sink.close()

    with Recording(str(tmp_path / "night.ttmem")) as recording:
        found = {
            at: recording.instant(at) for at in ("23:55", "0:05", "00:09:30", "23:40", "12:00")
        }
    after = {at: (instant.time_ns - start) / minute for at, instant in found.items()}
    assert after == {"23:55": 5, "0:05": 15, "00:09:30": 19.5, "23:40": 0, "12:00": 0}
    assert [at for at, instant in found.items() if instant.remark] == ["23:40", "12:00"]
