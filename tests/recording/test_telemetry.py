"""A recording has the sensors of its time, or says that it has none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ttmem
from tests.own_process import finish
from tests.patience import wait_until
from tests.server.conftest import StartServer
from tests.server.conftest import start as start
from tests.sources.region_writer import (
    N300_LOCAL,
    N300_REMOTE,
    CardFiles,
    Written,
    add_card,
    add_n300,
)
from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.errors import BadInput
from ttmem.feeds import LocalFeed
from ttmem.feeds.recorded_telemetry import (
    DAMAGED,
    NO_SAMPLES,
    REMOTE,
    TOO_EARLY,
    TelemetrySampler,
    sample_of,
)
from ttmem.feeds.recording_feed import RecordingFeed
from ttmem.feeds.telemetry import telemetry_feed, with_telemetry
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.chunks import Chunks, FileSource
from ttmem.recording.cut import cut
from ttmem.recording.files import FileSink
from ttmem.recording.flight import FlightRecorder
from ttmem.recording.format import ChunkType
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.recording.received import Received
from ttmem.recording.recorder import described
from ttmem.recording.selected import SelectedDevices
from ttmem.snapshots import Device, Snapshot, to_json
from ttmem.sources.telemetry.source import CardTelemetry, TelemetrySource, read_card

DATA = Path(__file__).parents[1] / "data" / "recordings"
SECOND_NS = 1_000_000_000


def _regions(folder: Path) -> None:
    for logical_id, number in enumerate((N300_LOCAL, N300_REMOTE)):
        Written(number=number, logical_id=logical_id).write(folder)


def _at(file: Path, when: str | float = "end") -> Snapshot:
    with closing(telemetry_feed(RecordingFeed(str(file), when))) as feed:
        return feed.read()


def _local(snapshot: Snapshot) -> Device:
    device = snapshot.device(str(N300_LOCAL))
    assert device is not None
    return device


def _reasons(snapshot: Snapshot) -> set[str]:
    return {
        reason
        for device in snapshot.devices
        if device.telemetry is not None
        for reason in device.telemetry.reasons.values()
    }


def _one_sample(
    folder: Path,
    file: Path,
    change: Callable[[dict[str, Any]], Any] = lambda sample: sample,
    **options: bool,
) -> None:
    """A recording of this host with a sample of its sensors, which may be changed."""
    with closing(LocalFeed(str(folder))) as feed:
        recorder = feed.record(FileSink(str(file)), described(), **options)
        feed.poll()
        sample = json.loads(json.dumps(sample_of(TelemetrySource().read())))
        recorder.telemetry(change(sample), now_ns())
        recorder.close()


def test_every_instant_has_the_telemetry_that_the_live_view_showed(
    tmp_path: Path, sysfs: Path
) -> None:
    card = add_n300(sysfs)
    add_card(sysfs, 7, 0x41, tt_card_type="galaxy-wormhole", power1_input="501000000")
    _regions(tmp_path)
    file, source, shown = tmp_path / "run.ttmem", TelemetrySource(), []
    with closing(LocalFeed(str(tmp_path))) as feed:
        recorder = feed.record(FileSink(str(file)), described())
        start = feed.poll()
        for number in range(4):
            card.set(temp1_input=str(40_000 + number * 1000), tt_heartbeat=str(100 + number))
            reading, now = source.read(), start + (number + 1) * SECOND_NS
            recorder.telemetry(sample_of(reading), now)
            live = with_telemetry(feed.read(), reading)
            shown.append((now, live))
        recorder.close()

    for now, live in reversed(shown):
        for later in (0, SECOND_NS - 1):
            found = _at(file, f"@{now + later}")
            assert _local(found).telemetry == _local(live).telemetry
            assert _local(found).pci == _local(live).pci
            assert found.cards == live.cards
            assert _reasons(found) - _reasons(live) == {REMOTE}  # there is no --umd to advise
    assert _reasons(_at(file, f"@{start + SECOND_NS - 1}")) == {TOO_EARLY}


def test_without_being_asked_a_snapshot_has_no_telemetry(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"
    _one_sample(tmp_path, file)

    with closing(RecordingFeed(str(file))) as feed:
        found = feed.read()

    assert {device.telemetry for device in found.devices} == {None}
    assert found.cards == ()


def test_a_snapshot_of_a_recording_has_every_key_of_the_live_one(
    tmp_path: Path, sysfs: Path
) -> None:
    """Also capacities, grid and core counts: only the time differs, and the advice for remote chips."""
    add_n300(sysfs)
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"
    with closing(LocalFeed(str(tmp_path))) as feed:
        recorder = feed.record(FileSink(str(file)), described())
        reading = TelemetrySource().read()
        live = to_json(with_telemetry(feed.read(), reading))
        recorder.telemetry(sample_of(reading), now_ns())
        recorder.close()

    found = to_json(_at(file))

    assert found["host"].pop("recording")["file"] == str(file)  # the one key that is not live
    remote = next(device for device in live["devices"] if device["unique_id"] == str(N300_REMOTE))
    remote["telemetry"]["reasons"] = dict.fromkeys(remote["telemetry"]["reasons"], REMOTE)
    assert found | {"time_ns": 0} == live | {"time_ns": 0}


def test_a_recording_from_before_telemetry_says_that_it_has_none() -> None:
    found = _at(DATA / "version-1.ttmem")

    assert _reasons(found) == {NO_SAMPLES}
    assert found.cards == ()


def test_the_telemetry_of_version_1_stays_readable() -> None:
    found = _at(DATA / "version-1-telemetry.ttmem")

    telemetry = _local(found).telemetry
    assert telemetry is not None
    assert (telemetry.temperature_c, telemetry.power_w, telemetry.aiclk_mhz) == (51.3, 35.0, 1000)
    assert (telemetry.limits.temperature_c, telemetry.firmware) == (75.0, "18.10.0.0")
    with Recording(str(DATA / "version-1-telemetry.ttmem")) as recording:
        assert recording.verify() == ()
        assert recording.info().telemetry == 1


def test_the_sensors_of_the_present_are_refused_for_a_recording(tmp_path: Path) -> None:
    with closing(RecordingFeed(str(DATA / "version-1.ttmem"))) as feed:
        for options in ({"sysfs": str(tmp_path)}, {"umd": True}):
            with pytest.raises(BadInput, match="a recording has its own"):
                telemetry_feed(feed, **options)


def _telemetry(card: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**card, "telemetry": {**card["telemetry"], **fields}}


CARDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "not a card": lambda card: 5,
    "no telemetry": lambda card: {**card, "telemetry": None},
    "text for a number": lambda card: _telemetry(card, temperature_c="hot"),
    "not a number": lambda card: _telemetry(card, power_w=10**300),
    "hotter than any chip": lambda card: _telemetry(card, temperature_c=4000.0),
    "a number of many digits": lambda card: _telemetry(card, heartbeat=10**4000),
    "a limit of many digits": lambda card: _telemetry(card, limits={"voltage_mv": 10**4000}),
    "no version": lambda card: _telemetry(card, firmware="\x1b[2J"),
    "no source": lambda card: _telemetry(card, source="\x1b[2J"),
    "no serial number": lambda card: {**card, "serial": "\x1b[2J"},
}
SAMPLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda sample: [],
    "no cards": lambda sample: {},
    "nothing": lambda sample: {"cards": [], "absent": None},
    "too many cards": lambda sample: {"cards": sample["cards"] * 257},
}
HOSTILE = SAMPLES | {
    name: lambda sample, change=change: {"cards": [change(card) for card in sample["cards"]]}
    for name, change in CARDS.items()
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_sample_that_ttmem_cannot_have_written_is_not_interpreted(
    name: str, tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"
    _one_sample(tmp_path, file, HOSTILE[name])

    found = _at(file)

    if name == "not a number":  # too large for a float of ours, and therefore unknown
        telemetry = _local(found).telemetry
        assert telemetry is not None
        assert (telemetry.power_w, telemetry.reasons["power_w"]) == (None, DAMAGED)
    else:
        assert _reasons(found) == {DAMAGED}
    assert found.cards == ()


def test_a_hostile_reason_is_cut_and_moves_no_cursor(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"
    text = "\x1b[2J" * 10_000
    _one_sample(
        tmp_path,
        file,
        lambda sample: {
            "cards": [
                _telemetry(card, fan_rpm=None, reasons={"fan_rpm": text, text: text})
                for card in sample["cards"]
            ]
        },
    )

    telemetry = _local(_at(file)).telemetry

    assert telemetry is not None
    assert [*telemetry.reasons] == ["fan_rpm"]
    assert telemetry.reasons["fan_rpm"].isprintable()
    assert len(telemetry.reasons["fan_rpm"]) < 3000


def test_a_sampler_writes_what_it_reads_and_a_short_recording_has_a_sample(
    tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    written: list[tuple[Any, int]] = []

    sampler = TelemetrySampler(lambda sample, now: written.append((sample, now)))
    sampler.close()
    sampler.write()

    ((sample, now),) = written
    assert sample["cards"][0]["telemetry"]["temperature_c"] == 51.3
    assert 0 < now <= now_ns()


def test_on_a_host_without_cards_a_sampler_writes_nothing(sysfs: Path) -> None:
    written: list[Any] = []

    sampler = TelemetrySampler(lambda sample, now: written.append(sample))
    sampler.close()

    assert written == []


def test_cards_that_are_gone_leave_their_reason(tmp_path: Path, sysfs: Path) -> None:
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"

    _one_sample(tmp_path, file)

    assert _reasons(_at(file)) == {
        f"the driver is not loaded: there is no {sysfs}/class/tenstorrent"
    }


def test_a_confidential_recording_has_no_directories_in_its_telemetry(
    tmp_path: Path, sysfs: Path
) -> None:
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"

    _one_sample(tmp_path, file, confidential=True)

    assert _reasons(_at(file)) == {"the driver is not loaded: there is no tenstorrent"}


def test_a_recording_of_chosen_devices_shows_no_other_cards(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    add_card(sysfs, 7, 0x41, tt_card_type="p150a")
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"
    with closing(LocalFeed(str(tmp_path))) as feed:
        sink = SelectedDevices(FileSink(str(file)), ["0"])
        recorder = feed.record(sink, {**described(), "devices": ["0"]})
        feed.poll()
        recorder.telemetry(sample_of(TelemetrySource().read()), now_ns())
        recorder.close()

    found = _at(file)

    assert [device.unique_id for device in found.devices] == [str(N300_LOCAL)]
    assert _local(found).telemetry is not None
    assert found.cards == ()


def _recorded(card: CardFiles, folder: Path, file: Path) -> int:
    """Temperatures of 40, 41, ... degrees, one a second; returns the time of the first."""
    with closing(LocalFeed(str(folder))) as feed:
        recorder = feed.record(FileSink(str(file)), described())
        start = feed.poll()
        for number in range(5):
            card.set(temp1_input=str(40_000 + number * 1000))
            reading = TelemetrySource().read()
            recorder.telemetry(sample_of(reading), start + number * SECOND_NS)
        recorder.close()
    return start


def test_a_part_of_a_recording_has_the_samples_of_its_time(tmp_path: Path, sysfs: Path) -> None:
    _regions(tmp_path)
    whole, part = tmp_path / "whole.ttmem", tmp_path / "part.ttmem"
    start = _recorded(add_n300(sysfs), tmp_path, whole)
    with Recording(str(whole)) as recording:
        begin, end = (
            recording.instant(f"@{start + int(seconds * SECOND_NS)}") for seconds in (1.5, 3.5)
        )
        sink = FileSink(str(part))
        cut(recording, begin, end, sink)
        sink.close()

    found = []
    for seconds in (1.5, 2.0, 2.9, 3.5):
        telemetry = _local(_at(part, f"@{start + int(seconds * SECOND_NS)}")).telemetry
        assert telemetry is not None
        found.append(telemetry.temperature_c)
    assert found == [41.0, 42.0, 42.0, 43.0]


def test_samples_are_added_to_what_a_server_sends_but_not_inside_a_document(
    tmp_path: Path, sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    monkeypatch.setattr("ttmem.recording.format.MAX_RAW", 256)  # for documents of several chunks
    sent = ChunkMemory()
    with closing(LocalFeed(str(tmp_path))) as feed:
        recorder = feed.remember(sent)
        feed.poll()
        recorder.close()
    monkeypatch.undo()
    monkeypatch.setenv("TTMEM_SYSFS", str(sysfs))
    file, sample = tmp_path / "run.ttmem", sample_of(TelemetrySource().read())
    received = Received(FileSink(str(file)), described())

    received.telemetry(sample, now_ns())  # nothing has come yet
    for chunk in sent._chunks:
        received.take(chunk)
        received.telemetry(sample, now_ns())
    received.close()

    chunks = Chunks(FileSource(str(file)))
    before = Chunks(MemorySource(sent))
    continued = sum(chunk[6] & 2 for chunk in sent._chunks) // 2
    assert continued > 0
    assert chunks.count(ChunkType.TELEMETRY) == len(sent._chunks) - continued - 1
    assert {kind: chunks.count(kind) for kind in ChunkType if kind != ChunkType.TELEMETRY} == {
        kind: before.count(kind) for kind in ChunkType if kind != ChunkType.TELEMETRY
    }
    chunks.close()
    with Recording(str(file)) as recording:
        assert recording.verify() == ()
        assert recording.info().closed
    assert _local(_at(file)).telemetry is not None


def test_ttmem_info_counts_samples(
    tmp_path: Path, sysfs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _recorded(add_n300(sysfs), tmp_path, file := tmp_path / "run.ttmem")

    main(["info", str(file)])
    text = capsys.readouterr().out
    main(["info", str(file), "--json"])

    assert "  telemetry  5 samples\n" in text
    assert json.loads(capsys.readouterr().out)["telemetry_samples"] == 5


def test_ps_and_the_device_page_of_top_show_the_sample_of_the_instant(
    tmp_path: Path, sysfs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _regions(tmp_path)
    start = _recorded(add_n300(sysfs), tmp_path, file := tmp_path / "run.ttmem")
    at = ("--at", f"@{start + 2 * SECOND_NS}")

    main(["ps", str(file), "--telemetry", *at])
    listed = capsys.readouterr().out
    main(["ps", str(file), "--telemetry", "--json", *at])
    document = json.loads(capsys.readouterr().out)
    main(["top", str(file), "--once", "--page", "device", *at])
    page = capsys.readouterr().out

    assert "42.0 / 75 °C" in listed
    assert document["devices"][0]["telemetry"]["temperature_c"] == 42.0
    assert "temp 42.0 / 75 °C" in page


def test_ttmem_record_and_run_take_samples(tmp_path: Path, sysfs: Path) -> None:
    """Real processes: the recorder reads the sensors, whatever the recorded program does."""
    add_n300(sysfs)
    _regions(tmp_path)
    files = tmp_path / "record.ttmem", tmp_path / "run.ttmem"
    shm = ("--shm", str(tmp_path))
    for arguments in (
        ("record", str(files[0]), "--duration", "0.3s", *shm),
        ("run", "-o", str(files[1]), *shm, "--", "true"),
    ):
        done = finish(*arguments)
        assert done.returncode == 0, done.stderr

    for file in files:
        with Recording(str(file)) as recording:
            assert recording.info().telemetry >= 1
            assert recording.info().closed
    telemetry = _local(_at(files[0])).telemetry
    assert telemetry is not None
    assert telemetry.temperature_c == 51.3


def test_a_program_that_records_itself_takes_samples(tmp_path: Path, sysfs: Path) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    file = tmp_path / "run.ttmem"

    with ttmem.record(str(file), shm=str(tmp_path)):
        pass

    telemetry = _local(_at(file)).telemetry
    assert telemetry is not None
    assert telemetry.temperature_c == 51.3


def _samples(file: Path) -> int:
    """0 while there is nothing in it."""
    try:
        with Recording(str(file)) as recording:
            return recording.info().telemetry
    except BadInput:
        return 0


def test_the_flight_recorder_takes_samples_and_keeps_them_around_a_mark(
    start: StartServer, tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    _regions(tmp_path)
    folder = tmp_path / "flight"
    server = start("--shm", str(tmp_path), "--record", str(folder))
    server.sees(lambda seen: len(seen.devices) == 2)
    (ring,) = wait_until(lambda: list(folder.glob("ring-*.ttmem")))
    wait_until(lambda: _samples(ring) > 0)

    assert main(["mark", "hot", "--socket", server.path]) == 0
    assert server.stop() == 0

    (kept,) = folder.glob("kept-*.ttmem")
    for file in (ring, kept):
        telemetry = _local(_at(file)).telemetry
        assert telemetry is not None
        assert (telemetry.temperature_c, telemetry.power_w) == (51.3, 35.0)


def test_the_flight_recorder_does_not_wait_for_a_driver_that_blocks(
    tmp_path: Path, sysfs: Path
) -> None:
    """As while a card is being reset. If it waited, nobody would ever answer."""
    add_n300(sysfs)
    answer = threading.Event()

    def blocked(number: int, folder: str) -> CardTelemetry:
        answer.wait()
        return read_card(number, folder)

    source = TelemetrySource(read=blocked)
    flight = FlightRecorder(
        Books(),
        str(tmp_path / "flight"),
        1 << 20,
        3600 * SECOND_NS,
        host={},
        sampler=lambda write: TelemetrySampler(write, source),
        info=print,
        problem=print,
    )
    flight.tick(now_ns())
    answer.set()
    flight.close(30)

    (ring,) = (tmp_path / "flight").glob("ring-*.ttmem")
    with Recording(str(ring)) as recording:
        assert recording.info().closed
        assert recording.info().telemetry == 1
