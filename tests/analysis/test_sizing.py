"""Sizes follow from what a run needed, in their own unit, and nothing is advised without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.runs import Run, opened
from ttmem.analysis.history import History, Loss
from ttmem.analysis.sizing import Advice, KvCache, sizes
from ttmem.commands import main
from ttmem.events import Event, MemoryKind, Notice, Op
from ttmem.recording import Recording

P150 = opened()
MIB = 1 << 20


def advice(path: Path, **kv: str | int) -> dict[str, Advice]:
    with Recording(str(path)) as recording:
        found = sizes(History(recording), 0.25, KvCache(**kv))  # type: ignore[arg-type]
    return {one.name: one for one in found.advice}


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

    assert (trace.configured, trace.observed, trace.at_least) == (configured, first + more, True)
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


def test_tokens_are_what_weights_and_activations_leave_of_dram(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(100 * MIB, "model.py:3 load")
        run.alloc(32 * MIB, "model.py:5 kv_cache")

    name = "KV-cache tokens that fit"
    found = advice(tmp_path / "a.ttmem", site="kv_cache", bytes_per_token=MIB)[name]
    capacity = P150.dram_banks * (P150.dram_bank_size or 0)

    assert (found.observed, found.advised) == (32, (capacity - 100 * MIB) // MIB)
    unknown = advice(tmp_path / "a.ttmem")[name]
    assert unknown.advised is None
    assert unknown.reason is not None
    nowhere = advice(tmp_path / "a.ttmem", site="nowhere", bytes_per_token=1)[name]
    assert (nowhere.advised, "nowhere" in (nowhere.reason or "")) == (None, True)


def test_nothing_is_advised_from_a_run_with_losses(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem", watched=False) as run:
        run.alloc(MIB)
        run.event(Event(Op.FREE, id=99))

    with pytest.raises(Loss, match="gives no advice"):
        advice(tmp_path / "a.ttmem")


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
