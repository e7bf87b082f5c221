"""What was alive at a peak adds up to it, and is split by why it is there."""

from __future__ import annotations

from pathlib import Path

from tests.analysis.runs import CHIPS, Run, opened
from ttmem.analysis.composition import Composition, Part, compositions
from ttmem.analysis.free_space import least_free
from ttmem.analysis.history import History
from ttmem.clock import now_ns
from ttmem.events import Event, MemoryKind, Notice, Op
from ttmem.recording import Recording

MIB = 1 << 20
P150 = opened()
MATMUL = "model.py:20 forward\nmodel.py:40 main"


def of(path: Path) -> dict[str, Composition]:
    with Recording(str(path)) as recording:
        return {composition.memory: composition for composition in compositions(History(recording))}


def step(run: Run, *, keep: bool = False) -> None:
    """An op with a temporary buffer and a result."""
    with run.in_phase("step"):
        temporary = run.alloc(4 * MIB, MATMUL, kind=MemoryKind.L1, op="ttnn.matmul")
        result = run.alloc(2 * MIB, MATMUL, kind=MemoryKind.L1, op="ttnn.matmul")
        run.event(
            Event(Op.PROGRAM_DISPATCH, id=1, name=run.text("ttnn.matmul"), site=run.text(MATMUL))
        )
        run.free(temporary)
        if not keep:
            run.free(result)


def test_l1_is_split_into_circular_buffers_intermediates_persistent_and_stale(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(8 * MIB, "model.py:3 load", kind=MemoryKind.L1)
        run.circular(1, 3 * MIB, 0x20000)
        step(run, keep=True)
        for _ in range(8):
            step(run)
        step(run, keep=True)
        step(run)

    l1 = of(tmp_path / "a.ttmem")["l1_used"]

    assert {part: l1.part(part) for part in Part} == {
        Part.CIRCULAR: 3 * MIB,
        Part.INTERMEDIATE: 6 * MIB,
        Part.PERSISTENT: (8 + 2) * MIB,  # weights, and the result of the last iteration
        Part.STALE: 2 * MIB,  # of the first iteration
        Part.COUNTED: 0,
    }
    assert sum(holder.bytes for holder in l1.holders) == l1.bytes == 21 * MIB
    assert l1.running == ("ttnn.matmul", MATMUL)


def test_without_iterations_nothing_is_called_stale(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        run.alloc(MIB, op=None, site=None)

    dram = of(tmp_path / "a.ttmem")["dram"]

    assert dram.part(Part.STALE) is None
    assert dram.stale_unknown is not None
    assert dram.part(Part.INTERMEDIATE) is None  # nothing says which op was running


def test_results_that_a_loop_keeps_are_not_intermediates(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for _ in range(5):
            run.alloc(MIB, "model.py:7 loop", op="ttnn.add")
            name, site = run.text("ttnn.add"), run.text("model.py:7 loop")
            run.event(Event(Op.PROGRAM_DISPATCH, id=1, name=name, site=site))

    dram = of(tmp_path / "a.ttmem")["dram"]

    assert (dram.part(Part.INTERMEDIATE), dram.part(Part.PERSISTENT)) == (MIB, 4 * MIB)


def test_holders_are_grouped_by_site_stack_op_and_phase(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        with run.in_phase("load"):
            run.alloc(4 * MIB, "a.py:1 f\nb.py:1 g")
        run.alloc(3 * MIB, "a.py:1 f\nb.py:2 g", op="ttnn.ones")

    dram = of(tmp_path / "a.ttmem")["dram"]

    assert [(holder.number, holder.bytes) for holder in dram.by("site")] == [(2, 7 * MIB)]
    assert [holder.bytes for holder in dram.by("stack")] == [4 * MIB, 3 * MIB]
    assert [holder.op for holder in dram.by("op")] == ["ttnn.empty", "ttnn.ones"]
    assert [holder.phase for holder in dram.by("phase")] == ["load", None]


def test_devices_that_did_the_same_are_one(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        for device in (0, 1):
            run.alloc(MIB, device=device)

    dram = of(tmp_path / "a.ttmem")["dram"]

    assert [device.unique_id for device in dram.devices] == list(CHIPS)


def test_the_least_free_block_of_a_phase_is_that_of_a_snapshot_at_its_worst(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        banks, base = P150.dram_banks, P150.dram_reserved
        size = 16 * MIB
        blocks = []
        with run.in_phase("load"):
            for number in range(6):
                place = base + number * size // banks
                blocks.append(run.alloc(size, reserved=size, address=place))
        for number in (1, 3):
            run.free(blocks[number])
        with run.in_phase("step"):
            run.alloc(MIB, reserved=MIB, address=base + size // banks)

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        history = History(recording)
        found = {least.phase: least for least in least_free(history)}
        shown = {
            phase: history.at(least.position).device(least.device) for phase, least in found.items()
        }

    for phase, least in found.items():
        device = shown[phase]
        assert device is not None
        assert least.largest_free == device.memory.dram.largest_free
        assert least.per_bank * P150.dram_banks == least.largest_free
    assert found["load"].largest_free == found["step"].largest_free


def test_tensors_that_a_loop_creates_and_frees_later_are_not_intermediates(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        made = [run.alloc(MIB, kind=MemoryKind.L1) for _ in range(30)]
        for number in made:
            run.free(number)

    l1 = of(tmp_path / "a.ttmem")["l1"]

    assert (l1.part(Part.INTERMEDIATE), l1.part(Part.PERSISTENT)) == (0, 30 * MIB)


def test_results_of_earlier_calls_are_not_intermediates_though_all_are_freed_at_the_end(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        made = []
        for _ in range(5):
            made.append(run.alloc(MIB, "model.py:7 loop", op="ttnn.add"))
            name, site = run.text("ttnn.add"), run.text("model.py:7 loop")
            run.event(Event(Op.PROGRAM_DISPATCH, id=1, name=name, site=site))
        for number in made:
            run.free(number)

    dram = of(tmp_path / "a.ttmem")["dram"]

    assert (dram.part(Part.INTERMEDIATE), dram.part(Part.PERSISTENT)) == (MIB, 4 * MIB)


def test_a_recording_that_joined_late_calls_nothing_stale_that_was_new_at_the_peak(
    tmp_path: Path,
) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        now = now_ns()
        past = now - 60_000_000_000  # the events are read a minute after they happened
        for number in range(8):
            for event in (
                Event(Notice.PHASE_ENTERED, name=run.text("step")),
                Event(Op.ALLOC, MemoryKind.L1, id=number + 1, size=MIB * (number == 0) or 1),
                Event(Op.FREE, id=number + 1),
            ):
                past += 1_000_000_000
                data = event._replace(time=past).pack()
                record = run.books.processes[run.process]
                run.books.apply(record, data, 0, len(data), now)

    l1 = of(tmp_path / "a.ttmem")["l1"]

    assert (l1.part(Part.STALE), l1.part(Part.PERSISTENT)) == (0, MIB)


def test_a_program_has_the_name_of_its_op_before_it_is_dispatched(tmp_path: Path) -> None:
    with Run(tmp_path / "a.ttmem") as run:
        name, site = run.text("ttnn.add"), run.text("model.py:7 loop")
        run.event(Event(Op.CB_ALLOC, id=8, size=MIB, extra=1, address=8, name=name, site=site))

    cb = of(tmp_path / "a.ttmem")["cb"]

    assert [(program.name, program.site) for program in cb.programs] == [
        ("ttnn.add", "model.py:7 loop")
    ]
