"""Telemetry from a sysfs tree: right, or None with a reason; it never waits for long and never raises."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sources.region_writer import add_card, add_n300
from ttmem.events import Telemetry, TelemetryLimits
from ttmem.hw.cards import Card, card
from ttmem.sources.telemetry.source import CardTelemetry, TelemetrySource, read_card, read_sensors


def _only(root: Path) -> Telemetry:
    ((_, told),) = TelemetrySource(str(root)).read().looks
    return told


def test_a_card_is_read_in_the_units_that_people_use(tmp_path: Path) -> None:
    add_n300(tmp_path, bus=0x41, fan1_input="2400")

    ((of, told),) = TelemetrySource(str(tmp_path)).read().looks

    assert (of.number, of.pci, of.board and of.board.name) == (0, "0000:41:00.0", "n300")
    assert told == Telemetry(
        temperature_c=51.3,
        power_w=35.0,
        current_a=40.0,
        voltage_mv=780,
        aiclk_mhz=1000,
        axiclk_mhz=900,
        arcclk_mhz=540,
        fan_rpm=2400,
        heartbeat=1200,
        firmware="18.10.0.0",
        limits=TelemetryLimits(75.0, 160.0, 160.0, 850),
        source="sysfs",
        stale=None,
        unchanged_s=0.0,
        reasons={},
    )


@pytest.mark.parametrize(
    ("file", "field", "edges", "beyond"),
    [
        ("temp1_input", "temperature_c", (-50_000, 100_000), (-50_001, 100_001, 65_531_000)),
        ("power1_input", "power_w", (0, 500_000_000), (-1, 500_001_000, 4_293_967_296)),
        ("curr1_input", "current_a", (0, 350_000), (-1, 350_001, 4_294_966_296)),
        ("in0_input", "voltage_mv", (0, 900), (-1, 901, 0xFFFFFFFF)),
        ("tt_aiclk", "aiclk_mhz", (1, 1500), (0, 1501, 0xFFFFFFFF)),
        ("tt_axiclk", "axiclk_mhz", (1, 1500), (0, 1501)),
        ("tt_arcclk", "arcclk_mhz", (1, 1500), (0, 1501)),
        ("fan1_input", "fan_rpm", (0, 19_999), (-1, 20_000, 0xFFFFFFFF)),
        ("tt_heartbeat", "heartbeat", (0, 0xFFFFFFFE), (-1, 0xFFFFFFFF)),
    ],
)
def test_a_value_outside_its_window_is_none_with_the_reason(
    tmp_path: Path, file: str, field: str, edges: tuple[int, ...], beyond: tuple[int, ...]
) -> None:
    files = add_n300(tmp_path, fan1_input="100")
    for value in edges:
        files.set(**{file: str(value)})
        assert getattr(_only(tmp_path), field) is not None
    for value in beyond:
        files.set(**{file: str(value)})
        told = _only(tmp_path)

        assert getattr(told, field) is None
        assert list(told.reasons) == [field]
        assert "is not plausible; expected is" in told.reasons[field]


def test_up_to_the_limit_of_the_chip_itself_a_value_is_plausible(tmp_path: Path) -> None:
    files = add_n300(tmp_path, in0_input="950", in0_max="1000", curr1_input="480000")
    files.set(curr1_max="500000", power1_input="501000000", power1_max="501000000")

    told = _only(tmp_path)

    assert (told.voltage_mv, told.current_a, told.power_w) == (950, 480.0, None)
    assert told.limits == TelemetryLimits(75.0, None, 500.0, 1000)
    files.set(in0_max="65535", curr1_max="-1")
    assert {"voltage_mv", "current_a"} <= set(_only(tmp_path).reasons)


GARBAGE = {
    "binary": b"\xff\xfe\x00\x01",
    "huge": b"1" * (8 << 20),
    "empty": b"",
    "blank": b" \n\n",
    "word": b"warm\n",
    "float": b"51.3\n",
    "exponent": b"1e3\n",
    "nan": b"nan\n",
    "two numbers": b"12 34\n",
    "NUL": b"12\x0034",
    "hexadecimal": b"0x10\n",
    "underscores": b"1_000\n",
    "other digits": "٣".encode(),
    "escape": b"\x1b[31m7\n",
    "many digits": b"9" * 60,
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("file", ["temp1_input", "tt_aiclk", "tt_heartbeat", "tt_fw_bundle_ver"])
def test_garbage_is_none_with_a_reason_and_spoils_nothing_else(
    tmp_path: Path, file: str, data: bytes
) -> None:
    good = add_n300(tmp_path, fan1_input="100")
    whole = _only(tmp_path)
    good.set(**{file: data})

    told = _only(tmp_path)

    (field,) = told.reasons
    assert getattr(told, field) is None
    assert told.reasons[field].isprintable()
    assert [getattr(told, name) for name in ("power_w", "current_a", "fan_rpm")] == [
        whole.power_w,
        whole.current_a,
        whole.fan_rpm,
    ]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{place}/{path.name}")  # a path of its own would be too long
    os.close(place)


@pytest.mark.parametrize("make", [_pipe, _folder, _loop, _endless, _socket])
@pytest.mark.parametrize("file", ["temp1_input", "tt_heartbeat", "tt_card_type"])
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path, file: str, make: Callable[[Path], None]
) -> None:
    files = add_n300(tmp_path, fan1_input="100")
    files.without(file)
    make((files.folder if file.startswith("tt_") else files.hwmon) / file)

    told = _only(tmp_path)

    assert len(told.reasons) == (file != "tt_card_type")
    assert told.power_w == 35.0


def test_a_pipe_with_a_writer_is_not_read(tmp_path: Path) -> None:
    files = add_n300(tmp_path)
    files.without("tt_aiclk")
    path = files.folder / "tt_aiclk"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"1000\n")

    told = _only(tmp_path)

    os.close(writer)
    assert told.aiclk_mhz is None


def test_links_that_lead_nowhere_are_cards_without_values(tmp_path: Path) -> None:
    place = tmp_path / "class" / "tenstorrent"
    place.mkdir(parents=True)
    (place / "tenstorrent!0").symlink_to("tenstorrent!0")
    (place / "tenstorrent!1").symlink_to("../../devices/gone")
    (place / "tenstorrent!2").write_text("a file")
    (place / "tenstorrent!x").mkdir()
    (place / "other").mkdir()

    looks = TelemetrySource(str(tmp_path)).read().looks

    assert [of.number for of, _ in looks] == [0, 1, 2]
    assert all(told.source is None and len(told.reasons) == 10 for _, told in looks)


def test_a_folder_with_too_many_entries_is_read_in_part(tmp_path: Path) -> None:
    place = tmp_path / "class" / "tenstorrent"
    place.mkdir(parents=True)
    for number in range(1000):
        (place / f"tenstorrent!{number}").symlink_to("nowhere")

    assert len(TelemetrySource(str(tmp_path)).read().looks) <= 256


def test_what_the_driver_does_not_have_is_told_as_such(tmp_path: Path) -> None:
    files = add_n300(tmp_path)  # no Wormhole card has a fan of its own
    assert _only(tmp_path).reasons == {"fan_rpm": "the driver has no such sensor for this card"}

    shutil.rmtree(files.hwmon)
    told = _only(tmp_path)

    assert told.aiclk_mhz == 1000
    assert {told.reasons[name] for name in ("temperature_c", "power_w", "fan_rpm")} == {
        "the driver has no hwmon for this card"
    }


def test_without_a_driver_the_reason_names_the_folder(tmp_path: Path) -> None:
    reading = TelemetrySource(str(tmp_path)).read()
    assert reading.looks == ()
    assert reading.absent == f"the driver is not loaded: there is no {tmp_path}/class/tenstorrent"

    (tmp_path / "class" / "tenstorrent").mkdir(parents=True)
    assert TelemetrySource(str(tmp_path)).read().absent == "the driver has no card"


def test_thirty_two_cards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in range(32):
        tray, chip = divmod(number, 8)
        bus = (0xC0, 0x80, 0x00, 0x40)[tray] + chip + 1
        add_card(
            tmp_path,
            number,
            bus,
            tt_card_type="galaxy-wormhole",
            tt_asic_id=f"{1000 + number:016X}",
            tt_aiclk=str(500 + number),
        )

    looks = TelemetrySource(str(tmp_path)).read().looks

    assert [(of.number, of.asic_id, told.aiclk_mhz) for of, told in looks] == [
        (number, 1000 + number, 500 + number) for number in range(32)
    ]


# -- what changes --------------------------------------------------------------------------------


def test_a_heartbeat_that_moves_is_alive_and_one_that_stands_still_is_stale(tmp_path: Path) -> None:
    files = add_n300(tmp_path)
    source = TelemetrySource(str(tmp_path), stale_s=0.0)

    def stale() -> bool | None:
        ((_, told),) = source.read().looks
        return told.stale

    assert stale() is None  # once is not enough to know
    files.set(tt_heartbeat="1201")
    assert stale() is False
    assert stale() is True
    files.set(tt_heartbeat="0")  # the firmware was reset
    assert stale() is False
    files.without("tt_heartbeat")
    assert stale() is None


def test_a_short_pause_of_a_heartbeat_is_no_standstill(tmp_path: Path) -> None:
    files = add_n300(tmp_path)
    source = TelemetrySource(str(tmp_path), stale_s=3600.0)
    source.read()
    files.set(tt_heartbeat="1201")
    source.read()

    ((_, told),) = source.read().looks

    assert told.stale is False


def test_a_settled_look_tells_a_standstill_at_once(tmp_path: Path) -> None:
    add_n300(tmp_path)

    ((_, told),) = TelemetrySource(str(tmp_path), stale_s=0.2).read(settled=True).looks

    assert told.stale is True
    assert told.unchanged_s is not None
    assert told.unchanged_s >= 0.2
    assert told.temperature_c == 51.3  # the value is shown, and marked


def test_a_settled_look_ends_when_the_heartbeat_moves(tmp_path: Path) -> None:
    files = add_n300(tmp_path)
    beats = iter(range(1, 1 << 30))
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.01):
            files.set(tt_heartbeat=str(next(beats)))

    thread = threading.Thread(target=beat)
    thread.start()
    ((_, told),) = TelemetrySource(str(tmp_path), stale_s=3600.0).read(settled=True).looks
    over.set()
    thread.join()

    assert told.stale is False


def test_cards_come_and_go_and_a_number_may_be_given_to_another(tmp_path: Path) -> None:
    add_n300(tmp_path, 0, 0x01)
    source = TelemetrySource(str(tmp_path), stale_s=0.0)
    source.read()
    shutil.rmtree(tmp_path / "class")
    shutil.rmtree(tmp_path / "devices")
    assert source.read().looks == ()

    add_card(tmp_path, 0, 0x41, tt_card_type="p150a")  # the same heartbeat, by chance
    ((of, told),) = source.read().looks

    assert (of.pci, told.stale) == ("0000:41:00.0", None)


def test_a_card_that_goes_in_the_middle_of_a_read_has_no_values(tmp_path: Path) -> None:
    add_n300(tmp_path)

    def read(number: int, folder: str) -> CardTelemetry:
        of = card(number, folder)
        shutil.rmtree(tmp_path / "devices")
        return of, read_sensors(folder)

    ((of, told),) = TelemetrySource(str(tmp_path), read=read).read().looks

    assert of.board is not None
    assert told.source is None
    assert set(told.reasons.values()) == {"the card was removed while it was read"}


def test_a_tree_that_changes_all_the_time_is_read_right_or_not_at_all(tmp_path: Path) -> None:
    over = threading.Event()

    def rebuild() -> None:
        while not over.is_set():
            add_n300(tmp_path, fan1_input="100")
            shutil.rmtree(tmp_path / "devices")
            shutil.rmtree(tmp_path / "class")

    thread = threading.Thread(target=rebuild)
    thread.start()
    try:
        source = TelemetrySource(str(tmp_path))
        seen = [told for _ in range(200) for _, told in source.read().looks]
    finally:
        over.set()
        thread.join()

    assert {told.temperature_c for told in seen} <= {None, 51.3}
    assert {told.firmware for told in seen} <= {None, "18.10.0.0"}
    assert all((told.power_w is None) == ("power_w" in told.reasons) for told in seen)


def test_a_driver_that_does_not_answer_for_one_card_holds_up_no_other(tmp_path: Path) -> None:
    add_n300(tmp_path, 0, 0x01)
    add_n300(tmp_path, 1, 0x41)
    release = threading.Event()
    asked: list[int] = []

    def read(number: int, folder: str) -> CardTelemetry:
        asked.append(number)
        if number == 1:
            release.wait()
        return read_card(number, folder)

    source = TelemetrySource(str(tmp_path), read=read, patience_s=0.2)
    looks = [source.read().looks for _ in range(3)][-1]
    answers: dict[int | None, tuple[Card, Telemetry]] = {
        of.number: (of, told) for of, told in looks
    }
    assert answers[0][1].temperature_c == 51.3
    assert answers[1][0].pci == "0000:41:00.0"  # which needs no answer of the driver
    assert answers[1][1].source is None
    assert "has not answered for" in answers[1][1].reasons["temperature_c"]
    assert asked.count(1) == 1  # nobody queues up behind the one who waits

    release.set()
    source = TelemetrySource(str(tmp_path), read=read)
    assert {told.temperature_c for _, told in source.read().looks} == {51.3}
