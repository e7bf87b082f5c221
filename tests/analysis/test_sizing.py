"""Sizes follow from what a run needed, in their own unit, and nothing is advised without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.runs import Run, opened
from ttmem.analysis.history import History, Loss
from ttmem.analysis.sizing import Advice, KvCache, sizes
from ttmem.commands import main
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Notice, Op
from ttmem.procfs import ProcessFacts
from ttmem.recording import Recording

P150 = opened()
MIB = 1 << 20


def advice(path: Path, **kv: str | int) -> dict[str, Advice]:
    with Recording(str(path)) as recording:
        found = sizes(History(recording), 0.25, KvCache(**kv))  # type: ignore[arg-type]
    return {advice.name: advice for advice in found.advice}


def test_a_trace_region_that_was_a_little_too_small_is_named_with_what_it_needs(
    tmp_path: Path,
) -> None:
    configured = (P150.trace_bank_size or 0) * P150.dram_banks
    with Run(tmp_path / "a.ttmem") as run:
        first = configured // 2
        run.alloc(first, "model.py:8 capture", kind=MemoryKind.TRACE)
        more = configured - first + configured * 6 // 1000
        run.event(Event(Notice.ALLOCATION_FAILED, MemoryKind.TRACE, size=more))

    trace = advice(tmp_path / "a.ttmem")["trace_region_size"]

    per_bank = -(-(first + more) // P150.dram_banks)  # banks are alike
    needed = per_bank * P150.dram_banks
    assert (trace.configured, trace.observed, trace.at_least) == (configured, needed, True)
    assert trace.over == pytest.approx(0.006, rel=0.01)
    assert trace.advised is not None
    assert trace.advised >= 1.25 * (first + more)
    assert trace.advised % (8192 * P150.dram_banks) == 0


def test_l1_small_is_advised_per_core(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(1000 * P150.l1_banks, kind=MemoryKind.L1_SMALL)

    small = advice(tmp_path / "a.ttmem")["l1_small_size"]

    assert (small.unit, small.observed, small.advised) == ("bytes per core", 1000, 1280)
    assert small.configured == P150.l1_small_bank_size


def test_more_than_a_core_has_is_not_advised(tmp_path: Path) -> None:
    core = (P150.l1_bank_size or 0) + (P150.l1_small_bank_size or 0)
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc((core + 64) * P150.l1_banks, kind=MemoryKind.L1)

    worker = advice(tmp_path / "a.ttmem")["worker_l1_size"]

    assert worker.over is not None
    assert worker.advised is None
    assert "hold less in L1" in (worker.reason or "")


def test_worker_l1_includes_the_configured_l1_small_which_the_runtime_takes_out_of_it(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(8000 * P150.l1_banks, kind=MemoryKind.L1)

    worker = advice(tmp_path / "a.ttmem")["worker_l1_size"]

    assert worker.observed == 8000 + 32_768
    assert worker.advised == -(-(10_000 + 32_768) // 64) * 64
    assert "l1_small_size=32768" in worker.unit


def test_tokens_are_what_weights_and_activations_leave_of_dram(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(100 * MIB, "model.py:3 load")
        run.alloc(32 * MIB, "model.py:5 kv_cache")

    name = "KV-cache tokens that fit"
    found = advice(tmp_path / "a.ttmem", site="kv_cache", bytes_per_token=MIB)[name]
    capacity = P150.dram_banks * (P150.dram_bank_size or 0)

    free = capacity - 100 * MIB
    assert (found.observed, found.advised) == (32, int(free / 1.25 // MIB))
    unknown = advice(tmp_path / "a.ttmem")[name]
    assert unknown.advised is None
    assert unknown.reason is not None
    nowhere = advice(tmp_path / "a.ttmem", site="nowhere", bytes_per_token=1)[name]
    assert (nowhere.advised, "nowhere" in (nowhere.reason or "")) == (None, True)


def test_weights_from_the_same_line_are_not_counted_as_cache(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        with run.in_phase("load"):
            run.alloc(100 * MIB, "model.py:3 tensor")
        with run.in_phase("prefill"):
            run.alloc(32 * MIB, "model.py:3 tensor")

    name = "KV-cache tokens that fit"
    unclear = advice(tmp_path / "a.ttmem", site="tensor", bytes_per_token=MIB)[name]
    found = advice(tmp_path / "a.ttmem", site="tensor", bytes_per_token=MIB, phase="prefill")[name]
    by_phase = advice(tmp_path / "a.ttmem", bytes_per_token=MIB, phase="prefill")[name]

    assert (unclear.observed, unclear.advised) == (None, None)
    assert "several phases: load, prefill" in (unclear.reason or "")
    assert found.observed == by_phase.observed == 32


def test_nothing_is_advised_from_a_run_with_losses(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem", watched=False) as run:
        run.alloc(MIB)
        run.event(Event(Op.FREE, id=99))

    with pytest.raises(Loss, match="gives no advice"):
        advice(tmp_path / "a.ttmem")


def test_devices_of_a_process_that_lost_events_are_not_considered(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    with Run(path, watched=False) as run:
        run.alloc(1000 * P150.l1_banks, kind=MemoryKind.L1_SMALL)
        facts = ProcessFacts(99, start_time_ns=99, user="u", command="python other.py")
        other = run.books.open_process(facts, "socket")
        run.books.declare(other, DeviceDeclaration.from_spec(P150, 0, unique_id="chip7"))
        size = 3000 * P150.l1_banks
        run.event(Event(Op.ALLOC, MemoryKind.L1_SMALL, id=5000, size=size), other.index)
        run.books.count_lost(other, 3, 0, run.now)

    with Recording(str(path)) as recording:
        found = sizes(History(recording))
    small = next(one for one in found.advice if one.name == "l1_small_size")

    assert small.observed == 1000
    assert found.set_aside == ("pid 99 (user u) is left out: its events are not complete",)


def test_yaml_is_in_the_vendors_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(MIB, kind=MemoryKind.TRACE)

    assert main(["size", str(tmp_path / "a.ttmem"), "--yaml", "--model", "llama3.1-8b"]) == 0

    document = yaml.safe_load(capsys.readouterr().out)
    sku = document["sizes"]["llama3.1-8b"]["skus"]["bh_p150"]
    assert sku["trace_region_size"] == 20 * 8192 * P150.dram_banks


def test_the_table_says_what_was_too_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(MIB)
        run.event(Event(Notice.ALLOCATION_FAILED, MemoryKind.TRACE, size=1 << 40))

    assert main(["size", str(tmp_path / "a.ttmem")]) == 0
    assert "too small" in capsys.readouterr().out


def test_worker_l1_counts_the_circular_buffers_of_what_ran_and_advises_for_all_that_is_cached(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.books.define_cores(run.books.processes[run.process], 1, 1)
        for program, size in ((1, 262_144), (2, 4096)):
            wanted = Event(Op.CB_ALLOC, id=program, size=size, extra=program, address=200_000)
            run.event(wanted._replace(cores=1))
            run.event(Event(Op.PROGRAM_DISPATCH, id=program))
        run.alloc(1_300_000 * P150.l1_banks, kind=MemoryKind.L1)

    worker = advice(tmp_path / "a.ttmem")["worker_l1_size"]

    assert worker.observed == 1_300_000 + 4096 + 32_768
    assert (worker.over, worker.advised) == (None, worker.configured)


def test_worker_l1_was_too_small_by_what_the_refused_request_lacked(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(8000 * P150.l1_banks, kind=MemoryKind.L1)
        size = ((P150.l1_bank_size or 0) + 640) * P150.l1_banks
        run.event(Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, size=size))

    worker = advice(tmp_path / "a.ttmem")["worker_l1_size"]

    assert (worker.observed, worker.at_least) == ((worker.configured or 0) + 640, True)
