from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import NOW, snapshot, snapshots
from tests.views.cases import CASES, n300_and_an_idle_card
from tests.views.monitor.monitors import PICTURED, SECOND, SIZES, compare, draw, look_at, look_back
from ttmem.snapshots import Anomaly, MemoryUse, Provenance, Question, Snapshot
from ttmem.views.figures import Units
from ttmem.views.monitor.live_data import Choice, LiveData, Reading
from ttmem.views.monitor.pages.device import DevicePage, provenance_lines
from ttmem.views.monitor.state import SPANS, MonitorState


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", PICTURED)
def test_the_device_page_looks_as_it_did(case: str, width: int, height: int) -> None:
    picture = draw(DevicePage(), look_back(CASES[case](), width, height))
    compare(f"device-{case}-{width}x{height}", picture)


def test_the_device_page_looks_as_it_did_in_ascii() -> None:
    look = look_back(CASES["four_devices"](), 80, 20)._replace(ascii=True)
    compare("device-ascii-80x20", draw(DevicePage(), look))


def test_the_chosen_device_is_shown() -> None:
    four = CASES["four_devices"]()
    look = look_back(four, state=MonitorState(device=four.devices[2].unique_id))
    picture = draw(DevicePage(), look)
    assert picture[0].startswith(" device 2 ")
    assert "59.4 MiB" in "\n".join(picture)


def test_a_time_without_samples_is_a_gap() -> None:
    picture = draw(DevicePage(), look_back(CASES["four_devices"](), 200, 56))
    floor = next(line for line in picture if line.lstrip().startswith("0│"))
    before, _, rest = floor.partition("│")[2].partition(" ")
    assert before
    assert set(rest.split("0│")[0].strip()) <= {chr(sign) for sign in range(0x2801, 0x2900)}
    assert rest.startswith("   ")


def test_a_peak_between_two_samples_is_marked_with_its_time() -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    peaked = replace(device, l1_peak=77 << 20, l1_peak_time_ns=NOW - 30 * SECOND)
    picture = draw(DevicePage(), look_back(replace(snapshot, devices=(peaked,)), 200, 56))
    assert "◆ 77.0 MiB 14:02:41" in picture[1]


def test_a_peak_has_one_time_in_chart_and_table() -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    highest = max(look_back(snapshot).history[device.unique_id]["l1_used"])
    peaked = replace(device, l1_peak=highest, l1_peak_time_ns=NOW - 17 * SECOND)  # between samples
    picture = draw(DevicePage(), look_back(replace(snapshot, devices=(peaked,)), 200, 56))

    (row,) = [line for line in picture if line.startswith(" L1 used ") and "◆" not in line]
    assert row.endswith("14:02:54")
    assert re.findall(r"L1 used .*? ◆ \S+ \S+ (\S+)", picture[1]) == ["14:02:54"]


def test_what_is_highest_in_sight_is_not_called_the_peak() -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    peaked = replace(device, l1_peak=device.l1_used + 1, l1_peak_time_ns=NOW - 400 * SECOND)
    picture = draw(DevicePage(), look_back(replace(snapshot, devices=(peaked,)), 200, 56))

    assert "◆ 38.0 MiB in this chart" in picture[1]


@pytest.mark.parametrize(
    ("hits", "misses", "rate"),
    [
        (1_000_000, 0, "100.0 %"),
        (1_000_000, 68, ">99.9 %"),
        (0, 9, "0.0 %"),
        (1, 1_000_000, "<0.1 %"),
        (3, 1, "75.0 %"),
    ],
)
def test_a_hit_rate_is_all_or_nothing_only_if_it_is(hits: int, misses: int, rate: str) -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    code = replace(device.kernels, cache_hits=hits, cache_misses=misses)
    of = replace(snapshot, devices=(replace(device, kernels=code),))

    assert f"hit rate {rate}" in "\n".join(draw(DevicePage(), look_back(of, 120, 36)))


@pytest.mark.parametrize("height", range(5, 12))
def test_a_low_window_still_says_how_many_processes_there_are(height: int) -> None:
    picture = draw(DevicePage(), look_back(CASES["sixty_processes"](), 40, height))
    told = picture[-1]
    assert told.endswith("below") or told == " 60 processes, no space to list them", told


@pytest.mark.parametrize("height", range(5, 12))
def test_a_low_window_keeps_the_sums_of_dram_and_l1(height: int) -> None:
    picture = draw(DevicePage(), look_back(CASES["one_device"](), 40, height))
    kinds = [line.split("  ")[0].strip() for line in picture]
    assert {"DRAM", "L1 used"} <= set(kinds)


def test_a_peak_before_the_span_is_in_the_table_only() -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    peaked = replace(device, l1_peak=77 << 20, l1_peak_time_ns=NOW - 400 * SECOND)
    picture = draw(DevicePage(), look_back(replace(snapshot, devices=(peaked,)), 200, 56))
    (row,) = [line for line in picture if line.startswith(" L1 used ") and "◆" not in line]
    assert "◆ 77.0 MiB" not in "\n".join(picture)
    assert row.split()[-3:] == ["77.0", "MiB", "13:56:31"]


@pytest.mark.parametrize(("span", "shown"), [(60, 60), (300, 300), (900, 600), (3600, 600)])
def test_the_chart_shows_the_chosen_span_if_there_is_as_much_history(span: int, shown: int) -> None:
    """Of 400 seconds of history an hour would show mostly nothing."""
    picture = draw(DevicePage(), look_back(CASES["one_device"](), 200, 56, MonitorState(span=span)))
    axis = next(line for line in picture if re.match(r" +\d\d:\d\d:\d\d ", line))
    first, last = (datetime.strptime(text, "%H:%M:%S") for text in axis.split()[:2])
    assert abs((last - first).total_seconds() - shown) <= shown / 20


def test_other_charts_are_a_key_away() -> None:
    look = look_back(CASES["four_devices"](), 80, 20)
    page = DevicePage()
    seen = {draw(page, look)[1].split()[0]}
    for _ in range(5):
        seen.add(draw(page, look, ["c"])[1].split()[0])
    assert seen == {"DRAM", "L1", "CB", "L1_SMALL", "TRACE"}  # 'L1' is L1 used as well


def test_every_figure_is_the_snapshots_to_the_byte() -> None:
    four = CASES["four_devices"]()
    memory = four.devices[1].memory
    exact = MemoryUse(
        10_000_019, 3_000_017, 4_000_037, 4_000_037, 6_000_011, 5_000_011, 1_234, 5_000_077, NOW
    )
    device = replace(four.devices[1], memory=replace(memory, dram=exact))
    shown = replace(four, devices=(device,))
    picture = draw(DevicePage(), look_back(shown, 200, 56, MonitorState(units=Units.BYTES)))
    (row,) = [
        line
        for line in picture
        if line.startswith(" DRAM ") and "14:03:11" in line and "◆" not in line
    ]
    numbers = (4_000_037, 10_000_019, 3_000_017, 4_000_037, 6_000_011, 5_000_011, 1_234, 5_000_077)
    figures = [word for word in row.split() if word != "B"]
    assert figures == ["DRAM", *(f"{number:,}" for number in numbers), "14:03:11"]


def test_the_program_cache_has_a_hit_rate() -> None:
    picture = "\n".join(draw(DevicePage(), look_back(CASES["four_devices"](), 200, 56)))
    assert "cached programs 180  hits 47,940  misses 180" in picture
    assert "hit rate 99.6 %" in picture


def test_anomalies_are_there_in_full() -> None:
    trouble = CASES["seed_004_on_a_real_n300"]()
    picture = draw(DevicePage(), look_back(trouble, 120, 36))
    (anomaly,) = trouble.devices[0].anomalies
    assert anomaly.text in " ".join(" ".join(line.split()) for line in picture)


def test_provenance_is_there_where_there_is_room() -> None:
    snapshot = CASES["one_device"]()
    (device,) = snapshot.devices
    said = {"dram": Provenance("socket", "requested bytes", "what came before the server")}
    told = replace(snapshot, devices=(replace(device, provenance=said),))
    picture = draw(DevicePage(), look_back(told, 200, 56))
    assert " dram  socket: requested bytes; misses: what came before the server" in picture


def test_only_the_holders_of_the_device_are_listed() -> None:
    four = CASES["four_devices"]()
    look = look_back(four, 200, 56, MonitorState(device=four.devices[0].unique_id))
    picture = "\n".join(draw(DevicePage(), look))
    assert "41235" in picture
    assert "42001" not in picture


def test_enter_shows_the_buffers_of_the_process() -> None:
    look = look_back(CASES["four_devices"]())
    assert DevicePage().key("enter", look) == "Buffers"
    assert look.state.filter == "41235"


any_picture = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
sizes = st.tuples(st.integers(20, 240), st.integers(5, 70))


@any_picture
@given(snapshots(), sizes, st.sampled_from(list(Units)), st.sampled_from(SPANS), st.booleans())
def test_any_snapshot_fits_any_size(
    snapshot: Snapshot, size: tuple[int, int], units: Units, span: int, ascii: bool
) -> None:
    look = look_back(snapshot, *size, MonitorState(units=units, span=span))._replace(ascii=ascii)
    draw(DevicePage(), look, ["c", "down", "s", "S", "end"])


def test_numbers_of_one_origin_share_its_words() -> None:
    (chip,) = CASES["one_device"]().devices
    stock = Provenance("shared memory v3", "sum of live slots", "other threads")
    probe = Provenance("probe", "counted", None)
    known = replace(chip, provenance={"dram": stock, "ring": probe, "l1": stock, "cb": stock})
    text = ["".join(span.text for span in line).rstrip() for line in provenance_lines(known, 80)]
    assert text == [
        " SOURCES",
        " dram, l1, cb  shared memory v3: sum of live slots; misses: other threads",
        " ring          probe: counted",
    ]


def test_what_changes_no_number_is_said_last_and_in_a_line() -> None:
    (chip,) = CASES["one_device"]().devices
    alarm, odd = Anomaly("x", "ALARM"), Anomaly("totals_disagree", "the stored totals " * 20)
    host = snapshot([replace(chip, anomalies=(odd, alarm))])
    picture = draw(DevicePage(), look_back(host, 120, 36))
    at = [number for number, line in enumerate(picture) if "stored totals" in line]
    assert "ALARM" in picture[1]
    assert at == [len(picture) - 1]


def test_sensors_have_charts_with_their_limits_and_unknown_ones_have_none() -> None:
    host = n300_and_an_idle_card()
    watch = LiveData(Choice())
    for second in range(5):
        later = replace(host, time_ns=host.time_ns + second * SECOND)
        watch.take([Reading(Question(), 0.0, later)])
    assert watch.shown is not None
    look = look_at(watch.shown.snapshot, 200, 56)._replace(
        history=watch.history, sensors=watch.sensors
    )
    local = "\n".join(draw(DevicePage(), look))
    look.state.device = host.devices[1].unique_id
    remote = "\n".join(draw(DevicePage(), look))

    assert "TEMP 51.3 °C / 75 °C" in local
    assert "POWER 35 W / 160 W" in local
    assert "AICLK 1000 MHz" in local
    assert "telemetry N/A: a remote chip" in remote
    assert "TEMP" not in remote
