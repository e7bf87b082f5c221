"""A recording of chosen devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.own_process import finish
from tests.recording.test_replay import BATCHES, NOW, _apply, _books
from ttmem.events import EVENT_SIZE, Event, MemoryKind, Notice, Op
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType, encode_long
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.selected import SelectedDevices
from ttmem.snapshots import DETAILS, Question, Snapshot, to_json


def _recorders(books: Books, folder: Path, wanted: list[str]) -> tuple[Recorder, Recorder]:
    """One of everything, and one of what is wanted."""
    about = described("test")
    whole = Recorder(books, FileSink(str(folder / "whole.ttmem")), about)
    sink = SelectedDevices(FileSink(str(folder / "part.ttmem")), wanted)
    return whole, Recorder(books, sink, {**about, "devices": wanted})


def _at(path: Path, position: int) -> Snapshot:
    with Recording(str(path)) as recording:
        return recording.snapshot(recording.instant(f"#{position}"), Question(DETAILS))


@settings(max_examples=12, deadline=None)
@given(BATCHES, BATCHES, st.sampled_from([["chip1"], ["0", "chip2"]]))
def test_chosen_devices_are_at_every_position_what_they_are_in_the_whole_recording(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[int, list[Event]]],
    during: list[tuple[int, list[Event]]],
    wanted: list[str],
) -> None:
    books, folder = _books(), tmp_path_factory.mktemp("selected")
    for process, events in before:
        _apply(books, process, events)
    whole, part = _recorders(books, folder, wanted)
    positions = [whole.position]
    for process, events in during:
        _apply(books, process, events)
        positions.append(whole.position)
    whole.close()
    part.close()
    chosen = {"chip1"} if wanted == ["chip1"] else {"chip0", "chip2"}

    for position in positions[:: max(1, len(positions) // 4)]:
        expected = _at(folder / "whole.ttmem", position).on_devices(chosen)
        found = _at(folder / "part.ttmem", position)
        assert {device.unique_id for device in found.devices} == chosen
        shown, wanted_rows = to_json(found), to_json(expected)
        assert shown["devices"] == wanted_rows["devices"]
        assert shown["processes"] == wanted_rows["processes"]
        assert found.buffers == expected.buffers
        assert found.programs == expected.programs


def test_events_of_other_devices_are_not_in_the_file(tmp_path: Path) -> None:
    books = _books()
    secret = 0x5EC2E7_5EC2E7
    whole, part = _recorders(books, tmp_path, ["1"])
    events = [
        Event(
            Op.ALLOC, MemoryKind.DRAM, device=number % 3, id=64 + number, size=4096, address=secret
        )
        for number in range(90)
    ]
    _apply(
        books, 0, [event._replace(address=0) if event.device == 1 else event for event in events]
    )
    whole.close()
    part.close()

    with Recording(str(tmp_path / "part.ttmem")) as recording:
        raw = b"".join(data for _, data in recording.records())
        found = [
            Event.unpack(batch.events, at)
            for batch in recording.batches()
            for at in range(0, len(batch.events), EVENT_SIZE)
        ]
        assert recording.selection == ("1",)
        assert secret.to_bytes(8, "little") not in raw
        assert [event.device for event in found] == [1] * 30
        assert [event.id for event in found] == [64 + number for number in range(1, 90, 3)]
        assert [device.unique_id for device in _at(tmp_path / "part.ttmem", 10**6).devices] == [
            "chip1"
        ]


def test_what_belongs_to_no_device_stays(tmp_path: Path) -> None:
    books = _books()
    process = books.processes[0]
    books.native.follow_table(process.index)
    whole, part = _recorders(books, tmp_path, ["chip1"])
    books.define_string(process, 1, "decode")
    phase = Event(Notice.PHASE_ENTERED, device=0, name=1, time=NOW)
    failed = Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, device=0, size=64, time=NOW)
    _apply(books, 0, [phase, failed, failed._replace(device=1)])
    whole.close()
    part.close()

    with Recording(str(tmp_path / "part.ttmem")) as recording:
        kinds = [
            (marker.kind, marker.device) for marker in recording.markers if marker.kind != "start"
        ]
        assert kinds == [("phase", None), ("failure", "chip1")]


def test_what_was_lost_at_the_end_is_counted_in_a_recording_of_chosen_devices(
    tmp_path: Path,
) -> None:
    sink = SelectedDevices(FileSink(str(tmp_path / "a.ttmem")), ["0"])
    about, when = {"position": 0, "time": NOW}, {"position": 7, "time": NOW}
    for chunk in encode_long(ChunkType.FILE, b"{}", 1, **about):
        sink.append(chunk)
    for chunk in encode_long(ChunkType.END, b"{}", 1, **when, lost=7):
        sink.append(chunk)
    sink.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        assert (recording.info().lost, recording.info().end) == (7, 7)


def test_what_was_selected_and_never_appeared_is_known(tmp_path: Path) -> None:
    sink = SelectedDevices(FileSink(str(tmp_path / "a.ttmem")), ["chip1", "2", "77", "chip9"])
    recorder = Recorder(_books(), sink, described("test"))
    recorder.close()

    assert sink.unseen == ["77", "chip9"]


def test_the_verb_names_ids_that_it_has_not_seen(tmp_path: Path) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    file = ["record", str(tmp_path / "a.ttmem"), "--shm", str(folder), "--duration", "0.1"]

    code, _, error = finish(*file, "--device", "77", "--pid", "1")

    assert code == 0
    assert error == (
        "ttmem: device 77 was not seen; `ttmem ps` prints ids\n"
        "ttmem: pid 1 was not seen; --pid selects processes under `ttmem run`\n"
    )
