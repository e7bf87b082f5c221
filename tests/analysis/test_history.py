"""A history has everything that happened, in its order, and says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.runs import CHIPS, Run
from ttmem.analysis.composition import compositions
from ttmem.analysis.history import History, Loss
from ttmem.analysis.leaks import LeakVerdict, find_leaks
from ttmem.analysis.sizing import sizes
from ttmem.commands import main
from ttmem.events import EVENT_SIZE, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.procfs import ProcessFacts
from ttmem.recording import BufferChange, Recording
from ttmem.web.lives import Lives
from ttmem.web.report import report

MIB = 1 << 20


def test_the_buffers_alive_at_a_peak_add_up_to_it_and_are_those_of_the_snapshot(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(7 * MIB, "model.py:3 weights", reserved=8 * MIB)
        for _ in range(3):
            kept = run.alloc(2 * MIB, "model.py:9 step", kind=MemoryKind.L1)
            run.alloc(MIB, "model.py:9 step", kind=MemoryKind.L1, device=1)
            run.free(kept)

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        peaks = {(peak.device, peak.memory): peak for peak in history.peaks}
        alive: dict[tuple[str, str, int], BufferChange] = {}
        found = {}
        for change in history.buffers():
            key = (change.device, change.kind, change.id)
            if change.begins:
                alive[key] = change
            else:
                assert alive.pop(key).origin == change.origin
            for (device, memory), peak in peaks.items():
                if memory != "l1_used" and peak.position == change.position + 1:
                    held = (
                        change.held
                        for change in alive.values()
                        if (change.device, change.kind.lower()) == (device, memory)
                    )
                    found[device, memory] = sum(held)
        shown = history.at(peaks[CHIPS[1], "l1"].position, "buffers")

    assert {key: peak.bytes for key, peak in peaks.items()} == {
        (CHIPS[0], "dram"): 8 * MIB,
        (CHIPS[0], "l1"): 2 * MIB,
        (CHIPS[0], "l1_used"): 2 * MIB,
        (CHIPS[1], "l1"): 3 * MIB,
        (CHIPS[1], "l1_used"): 3 * MIB,
    }
    assert found == {key: peak.bytes for key, peak in peaks.items() if key[1] != "l1_used"}
    assert sum(b.held for b in shown.buffers or () if b.device == CHIPS[1]) == 3 * MIB
    assert {change.origin.site for change in alive.values()} == {
        "model.py:3 weights",
        "model.py:9 step",
    }


def test_what_a_process_held_ends_with_it_and_its_successor_is_another_process(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(MIB, "first.py:1 main")
        run.end_process()
        run.process = run.open(42)
        run._strings.clear()
        run.alloc(MIB, "second.py:1 main")

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        changes = list(History(recording).buffers())

    assert [
        (change.begins, change.origin.process.pid, change.origin.site) for change in changes
    ] == [
        (True, 41, "first.py:1 main"),
        (False, 41, "first.py:1 main"),
        (True, 42, "second.py:1 main"),
    ]


def test_marks_are_the_iterations_if_there_are_enough_else_the_most_frequent_phase(
    tmp_path: Path,
) -> None:
    for name, marks in (("phases", 2), ("marks", 7)):
        with Run(tmp_path / f"{name}.ttmem") as run:
            for number in range(7):
                if number < marks:
                    run.mark(f"step {number}")
                with run.in_phase("decode"):
                    run.free(run.alloc(MIB))

    found = {}
    for name in ("phases", "marks"):
        with Recording(str(tmp_path / f"{name}.ttmem")) as recording:
            windows = History(recording).windows()
            found[name] = (windows.by, windows.what, len(windows.windows))

    assert found == {"phases": ("phase", "phase decode", 6), "marks": ("mark", "the marks", 6)}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event(Op.FREE, id=99), "unknown free"),
        (Event(Op.ALLOC, MemoryKind.L1, id=1, size=0), "rejected"),
    ],
)
def test_an_anomaly_is_a_loss_even_if_its_process_has_ended(
    event: Event, said: str, tmp_path: Path
) -> None:
    with Run(tmp_path / "a.ttmem", watched=False) as run:
        run.alloc(MIB)
        run.event(event)
        run.end_process()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        with pytest.raises(Loss, match="gives no verdict: .*" + said):
            history.need_everything("verdict")


def test_a_recording_without_events_gives_no_verdict(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem"):
        pass

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        assert (history.peaks, list(history.buffers())) == ((), [])
        with pytest.raises(Loss, match="has no allocations"):
            history.need_everything("verdict")


def test_equal_parts_are_the_same_however_often_the_recorder_read(tmp_path: Path) -> None:
    found = {}
    for each in (1, 7):
        path, waiting = tmp_path / f"{each}.ttmem", bytearray()
        with Run(path) as run:
            record = run.books.processes[run.process]
            for number in range(700):
                event = Event(Op.ALLOC, MemoryKind.DRAM, id=number + 1, size=MIB)
                waiting += event._replace(time=run.now).pack()
                if len(waiting) >= each * EVENT_SIZE * (1 if number < 350 else 10):
                    run.books.apply(record, bytes(waiting), 0, len(waiting), run.now)
                    waiting.clear()
            run.books.apply(record, bytes(waiting), 0, len(waiting), run.now)
        with Recording(str(path)) as recording:
            history = History(recording)
            begins = [change.position for change in history.buffers()]
            parts = history.windows("window").windows
            found[each] = [begins.index(part.first) for part in parts]

    assert found[1] == found[7]
    assert found[1] == [700 * number // 12 for number in range(12)]


def _with_a_lossy_process(path: Path, device: int = 1) -> None:
    """One process leaks on the first chip; another one, on `device`, reports what cannot be."""
    with Run(path) as run:
        record = run.books.open_process(ProcessFacts(77, 77, "v", "python other.py"))
        run.books.declare(record, DeviceDeclaration(logical_id=device, unique_id=CHIPS[device]))
        other = record.index
        run.event(Event(Op.ALLOC, device=device, id=1, size=1 << 63), process=other)
        run.event(Event(Op.ALLOC, device=device, id=2, size=64), process=other)
        for _ in range(8):
            with run.in_phase("step"):
                run.alloc(MIB, "model.py:9 step")


def test_what_one_process_lost_is_not_held_against_others(tmp_path: Path) -> None:
    _with_a_lossy_process(tmp_path / "a.ttmem")

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        assert history.losses == ("rejected (1 time)",)
        leaks, advice = find_leaks(history), sizes(history)
        alone = History(recording, pid=77)
        with pytest.raises(Loss, match="rejected"):
            find_leaks(alone)

    assert [finding.line.pid for finding in leaks.of(LeakVerdict.LEAK)] == [41]
    assert leaks.set_aside == advice.set_aside
    assert leaks.set_aside == ("pid 77 (user v) is left out: its events are not complete",)


def test_a_device_whose_entry_was_reused_keeps_its_name(tmp_path: Path) -> None:
    # given: more devices than one user may have, each while no other is open
    with Run(tmp_path / "a.ttmem") as run:
        run.end_process()
        for number in range(80):
            process = run.books.open_process(ProcessFacts(100 + number, number, "v", "x"))
            declaration = DeviceDeclaration(logical_id=number, unique_id=f"card{number}")
            run.books.declare(process, declaration)
            event = Event(Op.ALLOC, device=number, id=1, size=(1 + number) * MIB)
            run.event(event, process=process.index)
            run.books.release(process, run.now)

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        peaks = {peak.device: peak.bytes for peak in history.peaks if peak.memory == "dram"}
        found = {
            device.unique_id: at_peak.bytes
            for at_peak in compositions(history)
            for device in at_peak.devices
            if at_peak.memory == "dram"
        }
        assert len(history.devices) < 80

    assert peaks == found == {f"card{number}": (1 + number) * MIB for number in range(80)}


def test_an_address_that_no_memory_has_ends_no_report_and_no_export(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    with Run(path) as run:
        run.alloc(MIB, address=(1 << 63) + 5)
        run.alloc(MIB, address=4096)

    with Recording(str(path)) as recording:
        assert report(recording)
        lives = Lives(History(recording), CHIPS, lambda position: None)
        assert lives.remarks() == [
            "1 allocation reported an address that no memory has: it is shown as unknown"
        ]
        assert list(lives.buffers.address) == [-1, 4096]
    assert main(["export", str(path), "--to", "visualizer", "-o", str(tmp_path / "out")]) == 0
