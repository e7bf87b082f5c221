"""`ttmem run` on programs as users write them, with the real runtime."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ttmem
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import Machine
from tests.ttnn.probed import CLASH, MODEL, NARROW_CLASH, OUT_OF_MEMORY
from ttmem.events import Op
from ttmem.events.record import EVENT, Event
from ttmem.probe.layout import SIDE
from ttmem.sizes import human
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import find_regions

PATIENCE_S = 600
Made = tuple[str | None, str | None, str | None]  # op, site, phase


class UserProgram:
    """One run of model.py on a mocked machine."""

    def __init__(
        self,
        there: Machine,
        python: Path,
        text: str,
        *arguments: str,
        options: tuple[str, ...] = (),
    ) -> None:
        self.folder = there.folder
        self.text = text
        (self.folder / "model.py").write_text(text)
        run = [sys.executable, "-m", "ttmem", "run", "--shm", str(self.folder), *options, "--"]
        self.done = subprocess.run(
            [*run, str(python), "model.py", *arguments],
            cwd=self.folder,
            env=there.variables(self.folder) | {"COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @property
    def log(self) -> Path:
        """All that the program and its runtime printed, as somebody else would send it."""
        file = self.folder / "log.txt"
        file.write_text(self.done.stdout)
        return file

    @property
    def said(self) -> str:
        """By ttmem: its own lines and those that belong to them."""
        lines = self.done.stderr.splitlines()
        return "\n".join(line for line in lines if line.startswith(("ttmem: ", "  ")))

    def line_of(self, code: str) -> int:
        """Where the program does that."""
        (found,) = [at for at, line in enumerate(self.text.splitlines(), 1) if code in line]
        return found

    def made(self) -> list[Made]:
        """Who made each buffer, in order."""
        (name,) = find_regions(str(self.folder))
        with closing(ProbeRegion(name.path)) as region:
            batch = region.new_events()
            texts = region.new_strings()
            events = map(Event._make, EVENT.iter_unpack(batch.events))
            return [
                (texts.get(event.name), texts.get(event.site), texts.get(phase))
                for event, (phase, _, _) in zip(events, SIDE.iter_unpack(batch.sides), strict=True)
                if event.op == Op.ALLOC
            ]


@pytest.fixture
def run(machine: Callable[[str], Machine], environment: Environment) -> Callable[..., UserProgram]:
    return lambda text, *arguments, board="p150", options=(): UserProgram(
        machine(board), environment.python, text, *arguments, options=options
    )


def test_every_buffer_has_the_op_and_the_line_of_the_users_own_file(
    run: Callable[..., UserProgram],
) -> None:
    program = run(MODEL, "1")
    lines = MODEL.splitlines()

    made = program.made()

    wrong = []
    for op, site, _ in made:
        found = re.fullmatch(r"(.*/)?model\.py:(\d+) (\w+|<module>)", site or "")
        line = lines[int(found[2]) - 1] if found else ""
        if not op or f"{op}(" not in line:
            wrong.append((op, site, line))
    assert wrong == []
    assert {op for op, _, _ in made} == {
        "ttnn.empty",
        "ttnn.matmul",
        "ttnn.transpose",
        "ttnn.softmax",
        "ttnn.add",
        "ttnn.conv2d",
        "ttnn.relu",
    }


def test_phases_tag_what_happens_inside(run: Callable[..., UserProgram]) -> None:
    made = run(MODEL, "1").made()

    phases = {op: phase for op, _, phase in made if op != "ttnn.empty"}
    assert phases == {
        "ttnn.matmul": "decode",
        "ttnn.transpose": "decode",
        "ttnn.softmax": "decode",
        "ttnn.add": "decode",
        "ttnn.conv2d": "vision",
        "ttnn.relu": "vision",
    }
    assert [phase for op, _, phase in made if op == "ttnn.empty"] == [
        *["load"] * 2,
        *["decode"] * 3,
        "vision",
    ]


@pytest.mark.parametrize(("board", "chips"), [("p150", 1), ("p150x4", 4)])
def test_the_summary_has_the_peak_of_the_runtime_and_the_line_that_made_it(
    run: Callable[..., UserProgram], board: str, chips: int
) -> None:
    program = run(MODEL, str(chips), board=board)

    most = json.loads(program.done.stdout.splitlines()[-1])["most"]
    (dram,) = [line for line in program.said.splitlines() if line.startswith("  DRAM")][:1]
    assert program.done.returncode == 0
    assert dram.split()[1:3] == human(most).split()
    assert dram.endswith(f"ttnn.add  model.py:{program.line_of('ttnn.add(')} attention")
    assert "trace_region_size=1048576 (rounded to banks): never used" in program.said


def test_what_the_model_kept_is_named_as_never_freed(run: Callable[..., UserProgram]) -> None:
    program = run(MODEL, "1")

    kept = program.said.split("NEVER FREED")[1]
    cache = program.line_of("kept = ttnn.matmul(")
    assert f"3 x  ttnn.matmul  model.py:{cache} attention  in decode" in kept
    assert "2 x  ttnn.empty" in kept


def test_running_out_of_memory_is_explained_with_the_figures_of_the_runtime(
    run: Callable[..., UserProgram],
) -> None:
    program = run(OUT_OF_MEMORY)

    figures = re.findall(
        r"^Out of Memory.*needs to store (\d+) B.*free: (\d+) B, largest free block: (\d+) B",
        program.done.stdout,
        re.MULTILINE,  # the runtime's log says it once more, in a line that begins with the time
    )
    told = re.findall(
        r"asked for .*: (.*) in each of 110 banks\n  free +(.*) of .*, largest block (.*)\n"
        r"  verdict +(\w+)",
        program.said,
    )
    assert program.done.returncode == 3
    assert [row[:3] for row in told] == [
        tuple(human(int(figure)) for figure in row) for row in figures
    ]
    assert [row[3] for row in told] == ["exhausted", "fragmented"]


def test_who_held_the_memory_is_named_though_it_was_freed_since(
    run: Callable[..., UserProgram],
) -> None:
    program = run(OUT_OF_MEMORY)

    held = re.findall(r"held by +\S+ MiB  (\d+) x ttnn.empty  model.py:(\d+) tensor", program.said)
    line = program.line_of("return ttnn.empty(")
    assert [int(at) for _, at in held] == [line, line]
    first, second = (int(count) for count, _ in held)
    assert second == first // 2, program.said


def test_a_clash_with_circular_buffers_is_explained_with_the_figures_of_the_runtime(
    run: Callable[..., UserProgram],
) -> None:
    program = run(CLASH)

    lowest, end = re.findall(
        r"L1 buffer allocated at (\d+) and static \w+ buffer region ends at (\d+)",
        program.done.stderr,
    )[-1]
    assert program.done.returncode == 1
    assert "RuntimeError" in program.done.stderr
    assert "buffers clash with L1 buffers on device 0" in program.said
    assert f"asked by   ttnn.softmax  model.py:{program.line_of('ttnn.softmax')}" in program.said
    assert f"up to {int(end):#x}" in program.said
    assert f"below {int(lowest):#x}, ttnn.empty  model.py:" in program.said
    assert re.search(r"held by +\S+ MiB  36 x ttnn.empty", program.said)


def test_a_clash_by_1600_bytes_names_the_buffer_at_that_address_and_the_buffers_of_the_op(
    run: Callable[..., UserProgram], tmp_path: Path
) -> None:
    recording = tmp_path / "run.ttmem"
    program = run(NARROW_CLASH, options=("-o", str(recording)))
    (printed,) = [line for line in program.done.stdout.splitlines() if line.startswith("[")]
    end, address = json.loads(printed)
    holder = f"model.py:{program.line_of('ttnn.empty((110')} hold"

    (_, explained), (_, told) = (_explained(recording), _explained(program.log))

    assert explained["clash"] == told["said"] | {"cores": explained["clash"]["cores"]}
    assert (explained["clash"]["lowest_buffer"], explained["clash"]["end"]) == (address, end)
    assert explained["short_by"] == told["short_by"] == 1600
    assert explained["in_the_way"]["address"] == address
    assert explained["in_the_way"]["site"].endswith(holder)
    assert [each["site"].endswith(holder) for (each,) in explained["to_free"]] == [True]
    wanted = explained["wanted"]
    starts = [buffer["address"] for buffer in wanted]
    assert [buffer["address"] + buffer["per_core"] for buffer in wanted] == [*starts[1:], end]
    assert {buffer["cores"] for buffer in wanted} == {110}
    assert f"below {address:#x}, ttnn.empty  {holder}" in program.said
    assert "1,600 B are missing" in program.said


def test_a_recording_of_a_run_says_on_which_board_it_was(
    run: Callable[..., UserProgram], tmp_path: Path
) -> None:
    # Which ttnn it is, and so where the ring begins, can be seen only while the process is alive.
    lingering = f"{NARROW_CLASH}\nimport time\ntime.sleep(3)\n"
    run(lingering, options=("-o", str(tmp_path / "run.ttmem")))

    (device,) = ttmem.snapshot(str(tmp_path / "run.ttmem"), at="peak:l1").devices

    assert device.board == "p150"
    assert device.kernels.ring.capacity is not None


def _explained(file: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", "explain", str(file), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    found: list[dict[str, Any]] = document["messages" if document["log"] else "failures"]
    return found


@pytest.mark.parametrize(("board", "chips"), [("p150", 1), ("p150x4", 4)])
def test_each_kernel_load_is_told_with_the_lines_of_the_users_own_file(
    run: Callable[..., UserProgram], board: str, chips: int
) -> None:
    program = run(MODEL, str(chips), board=board, options=("--log-kernels",))

    lines = program.done.stderr.splitlines()
    loads = [at for at, line in enumerate(lines) if "KERNEL_LOAD Backtrace" in line]
    (name,) = find_regions(str(program.folder))
    with closing(ProbeRegion(name.path)) as region:
        loaded = {
            device.logical_id: done
            for device, done in zip(region.devices(), region.activity(), strict=False)
            if device
        }
    assert loads
    for chip, activity in loaded.items():
        told = [at for at in loads if f"(Device {chip}, Type: Application, " in lines[at]]
        assert len(told) == activity.kernels_loaded
    figures = re.compile(r"Binary Size: (\S+) KB, Cores: (\d+), Total L1: (\S+) KB, ID: 0x")
    for at in loads:
        found = figures.search(lines[at])
        assert found is not None
        size, cores, total = map(float, found.groups())
        assert total == pytest.approx(size * cores, rel=1e-4)
        assert re.match(r"  \[0\] (attention|convolution) \(.*model\.py:\d+\)", lines[at + 1])
        assert re.match(r"  \[1\] <module> \(.*model\.py:\d+\)", lines[at + 2])
