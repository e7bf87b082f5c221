"""A leak is a low-water mark that rises from iteration to iteration; what is kept until the end is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.runs import CHIPS, Run
from ttmem.analysis.history import History, Loss
from ttmem.analysis.leaks import Leaks, LeakVerdict, find_leaks, growth, is_growth
from ttmem.analysis.leftovers import Ignored
from ttmem.commands import main
from ttmem.errors import BadInput
from ttmem.events import Event, MemoryKind, Notice, Op
from ttmem.recording import Recording
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header

MIB = 1 << 20
STEPS = 12
Body = Callable[[Run, int], None]


def recorded(
    path: Path, body: Body, *, marks: bool = False, phases: bool = True, watched: bool = True
) -> Path:
    """Weights, then steps, then an orderly end."""
    with Run(path, watched=watched) as run:
        weights = run.alloc(64 * MIB, "model.py:3 load")
        for number in range(STEPS):
            if marks:
                run.mark(f"step {number}")
            if phases:
                run.phase("step")
            temporary = run.alloc(8 * MIB, "model.py:9 forward")
            body(run, number)
            run.free(temporary)
        if marks:
            run.mark("end")
        if phases:
            run.phase("end")
        run.free(weights)
    return path


def answer(path: Path, by: str | None = None, min_bytes: int = 0) -> Leaks:
    with Recording(str(path)) as recording:
        return find_leaks(History(recording), by, min_bytes=min_bytes)


def clean(run: Run, number: int) -> None:
    del run, number


def leaking(run: Run, number: int) -> None:
    del number
    run.alloc(2 * MIB, "model.py:12 keep")


@pytest.mark.parametrize("marks", [True, False])
def test_a_tensor_kept_by_every_iteration_is_a_leak_with_its_line_and_rate(
    marks: bool, tmp_path: Path
) -> None:
    found = answer(recorded(tmp_path / "a.ttmem", leaking, marks=marks, phases=not marks))

    (leak,) = found.of(LeakVerdict.LEAK)
    assert (leak.line.site, leak.line.kind, leak.devices) == ("model.py:12 keep", "DRAM", CHIPS[:1])
    assert leak.per_iteration == 2 * MIB
    assert leak.until_full is not None
    assert leak.until_full > 1000
    assert found.windows.by == ("mark" if marks else "phase")


def test_weights_that_stay_until_the_end_and_temporaries_are_no_leak(tmp_path: Path) -> None:
    found = answer(recorded(tmp_path / "a.ttmem", clean))

    assert found.of(LeakVerdict.LEAK) == []
    assert found.steady == 2


def test_what_rises_at_first_and_then_no_more_is_warm_up(tmp_path: Path) -> None:
    def body(run: Run, number: int) -> None:
        if number < 4:
            run.alloc(MIB, "model.py:15 cache")

    found = answer(recorded(tmp_path / "a.ttmem", body))

    assert found.of(LeakVerdict.LEAK) == []
    assert [finding.line.site for finding in found.of(LeakVerdict.WARM_UP)] == ["model.py:15 cache"]


@pytest.mark.parametrize(("freed", "left"), [(STEPS, 0), (STEPS // 2, 2 * MIB * STEPS // 2)])
def test_what_grew_and_was_freed_in_the_end_is_no_leak(
    freed: int, left: int, tmp_path: Path
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        kept = []
        for _ in range(STEPS):
            run.phase("step")
            kept.append(run.alloc(2 * MIB, "model.py:12 keep"))
        run.phase("end")
        for number in kept[:freed]:
            run.free(number)

    found = answer(tmp_path / "a.ttmem")

    assert found.of(LeakVerdict.LEAK) == []
    assert [one.held for one in found.of(LeakVerdict.FREED)] == [left]


@pytest.mark.parametrize("steps", [0, 2])
def test_weights_in_a_loop_and_hardly_any_step_get_no_verdict(steps: int, tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for _ in range(200):
            run.alloc(MIB, "model.py:3 load")
        for _ in range(steps * 10):
            run.free(run.alloc(MIB))

    with pytest.raises(Loss, match="repeated too little"):
        answer(tmp_path / "a.ttmem")


def test_weights_in_a_loop_and_many_steps_are_no_leak(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for _ in range(200):
            run.alloc(MIB, "model.py:3 load")
        for _ in range(200):
            run.free(run.alloc(MIB))

    found = answer(tmp_path / "a.ttmem")

    assert [one.verdict for one in found.findings] == [LeakVerdict.WARM_UP]


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_leak_in_a_run_too_short_to_compare_is_not_passed(steps: int, tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(MIB, "model.py:2 weights")
        for _ in range(steps):
            temporaries = [run.alloc(MIB, f"model.py:{line} forward") for line in range(4, 9)]
            run.alloc(MIB, "model.py:12 keep")
            for one in temporaries:
                run.free(one)

    assert main(["leaks", str(tmp_path / "a.ttmem")]) == 1


@pytest.mark.parametrize("steps", [2, 6])
def test_so_few_iterations_get_no_verdict(steps: int, tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for _ in range(steps):
            run.phase("step")
            run.alloc(MIB, "model.py:12 keep")

    with pytest.raises(Loss):
        answer(tmp_path / "a.ttmem")


def test_a_run_that_freed_everything_needs_no_iterations(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.free(run.alloc(MIB))

    assert main(["leaks", str(tmp_path / "a.ttmem")]) == 0


def test_bytes_of_a_row_are_the_sum_of_its_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(run: Run, number: int) -> None:
        del number
        for device in (0, 1):
            run.alloc(2 * MIB, "model.py:12 keep", device=device)

    main(["leaks", str(recorded(tmp_path / "a.ttmem", body))])

    assert "4.0 MiB" in capsys.readouterr().out


def test_kernel_binaries_and_a_growing_program_cache_are_cache_growth(tmp_path: Path) -> None:
    def body(run: Run, number: int) -> None:
        run.alloc(16384, "model.py:9 forward", op="kernel binaries")
        run.event(Event(Op.KERNEL_LOAD, id=number + 1, size=4096, extra=number + 1, number=8))

    found = answer(recorded(tmp_path / "a.ttmem", body))

    assert found.of(LeakVerdict.LEAK) == []
    assert [finding.line.kind for finding in found.of(LeakVerdict.CACHE)] == ["DRAM", "programs"]


def test_a_trace_that_is_never_released_is_a_leak(tmp_path: Path) -> None:
    def body(run: Run, number: int) -> None:
        del number
        run.alloc(MIB, "model.py:30 capture", kind=MemoryKind.TRACE)

    (leak,) = answer(recorded(tmp_path / "a.ttmem", body)).of(LeakVerdict.LEAK)

    assert leak.line.kind == "TRACE"


def test_what_a_process_held_when_it_died_is_left_behind(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for _ in range(STEPS):
            run.phase("step")
            run.free(run.alloc(MIB))
        run.alloc(4 * MIB, "model.py:3 load")
        run.end_process()

    found = answer(tmp_path / "a.ttmem")

    (left,) = found.of(LeakVerdict.LEFT)
    assert (left.line.site, left.low_water) == ("model.py:3 load", (4 * MIB,))


def test_small_growth_and_chosen_phases_can_be_ignored(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.ttmem", leaking)

    assert answer(path, min_bytes=1 << 30).of(LeakVerdict.LEAK) == []
    with Recording(str(path)) as recording:
        found = find_leaks(History(recording), "window", ignore_phases=["step"])
    assert found.of(LeakVerdict.LEAK) == []


def test_losses_give_no_verdict(tmp_path: Path) -> None:
    def body(run: Run, number: int) -> None:
        run.event(Event(Op.FREE, id=1000 + number))

    path = recorded(tmp_path / "a.ttmem", body, phases=False, watched=False)

    with pytest.raises(Loss, match="gives no verdict: unknown free"):
        answer(path)


@pytest.mark.parametrize("watched", [True, False])
def test_a_process_that_lost_events_is_left_out_and_the_others_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, watched: bool
) -> None:
    def body(run: Run, number: int) -> None:
        leaking(run, number)
        other = run.open(99) if not number else max(run.books.processes)
        run.event(Event(Op.ALLOC, MemoryKind.DRAM, id=5000 + number, size=MIB), other)
        run.books.count_lost(run.books.processes[other], number, 0, run.now)

    path = recorded(tmp_path / "a.ttmem", body, phases=watched, watched=watched)
    found = answer(path)
    with Recording(str(path)) as recording:
        whole = growth(History(recording), Ignored())
        of_one = growth(History(recording, pid=41), Ignored())

    assert [one.line.pid for one in found.findings if one.verdict is LeakVerdict.LEAK] == [41]
    assert found.set_aside == ("pid 99 (user u) is left out: its events are not complete",)
    assert whole.not_judged == found.set_aside
    assert (len(of_one.reasons), of_one.not_judged) == (1, ())
    assert main(["leaks", str(path)]) == 1
    assert found.set_aside[0] in capsys.readouterr().out


def test_a_run_of_which_one_process_cannot_be_judged_does_not_pass(tmp_path: Path) -> None:
    def body(run: Run, number: int) -> None:
        other = run.open(99) if not number else max(run.books.processes)
        run.event(Event(Op.FREE, id=1000 + number), other)

    path = recorded(tmp_path / "a.ttmem", body, phases=False, watched=False)

    assert answer(path).of(LeakVerdict.LEAK) == []
    assert main(["leaks", str(path)]) == 1
    with Recording(str(path)) as recording:
        assert growth(History(recording), Ignored()).failed


def test_marks_that_never_come_are_named(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.ttmem", clean)

    with pytest.raises(BadInput, match="has 0 iterations between marks"):
        answer(path, "mark")


def test_the_verb_exits_with_1_on_a_leak_and_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leak = recorded(tmp_path / "leak.ttmem", leaking)
    healthy = recorded(tmp_path / "clean.ttmem", clean)

    assert main(["leaks", str(leak)]) == 1
    assert "model.py:12 keep" in capsys.readouterr().out
    assert main(["leaks", str(healthy)]) == 0
    assert "no leak" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give either a recording or"),
        (["{folder}/none.ttmem"], 2, "none.ttmem"),
        (["{folder}/empty.ttmem"], 1, "has no allocations"),
        (["--pid", "1"], 3, "is not watched"),
        (["{folder}/short.ttmem", "--by", "phase"], 2, "no phase that was entered"),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Run(tmp_path / "empty.ttmem"):
        pass
    with Run(tmp_path / "short.ttmem") as run:
        run.alloc(MIB)

    given = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]

    assert main(["leaks", *given, *(["--shm", str(tmp_path)] if "--pid" in given else [])]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20))
def test_growth_never_falls(marks: list[int]) -> None:
    if is_growth(marks):
        assert marks == sorted(marks)
        assert marks[-1] > marks[0]


def damage(path: Path, kind: ChunkType) -> None:
    """Changes a byte of the first chunk of a kind."""
    data, at = bytearray(path.read_bytes()), 0
    while (header := Header.unpack(bytes(data[at : at + HEADER_SIZE]))).type != kind:
        at += HEADER_SIZE + header.stored
    data[at + HEADER_SIZE + 8] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", [ChunkType.ACCOUNTS, ChunkType.STRINGS])
def test_where_names_cannot_be_read_there_is_no_verdict(
    kind: ChunkType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path / "run.ttmem", leaking)
    whole = str(shutil.copy(path, tmp_path / "whole.ttmem"))
    damage(path, kind)

    codes = [
        main([verb, str(path), *more]) for verb, *more in (["leaks"], ["size"], ["diff", whole])
    ]

    refused = capsys.readouterr().err.splitlines()
    assert codes == [1, 1, 1]
    assert len(refused) == 3
    assert all("is not complete" in line and "1 part of the file" in line for line in refused)


@pytest.mark.parametrize("kind", [ChunkType.ACCOUNTS, ChunkType.STRINGS])
def test_an_explanation_says_that_names_cannot_be_read(
    kind: ChunkType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.ttmem"
    with Run(path) as run:
        run.alloc(2 * MIB, "model.py:12 keep")
        run.event(Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, size=4096))
    damage(path, kind)

    code = main(["explain", str(path)])

    assert code == 0
    assert capsys.readouterr().err.startswith("ttmem: 1 part of the recording cannot be read")
