"""`ttmem run --log-kernels`: the line of the original system, for programs that do not know of it."""

from __future__ import annotations

import re
import subprocess

from tests.probe.watched import DISPATCHING, Launcher

LOADS = f"""{DISPATCHING}
mesh = lib.mesh_open(2)
def make():
    program = lib.program_make(6, mesh, 0, 0)
    lib.program_add_kernel(program, b"reader", 3072)
    lib.program_add_kernel(program, b"writer", 1280)
    return lib.workload_make(mesh, program, None)
def forward(): return make()
workload = forward()
for time in range(3): lib.workload_enqueue(workload)
"""


def logged(
    launcher: Launcher, script: str, *options: str
) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """Its lines, and the run."""
    done = launcher.run(*launcher.program(script), options=("--log-kernels", *options))
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines(), done


def loads(lines: list[str]) -> list[str]:
    return [line for line in lines if "KERNEL_LOAD" in line]


def test_each_kernel_is_reported_once_on_each_device(launcher: Launcher) -> None:
    lines, _ = logged(launcher, LOADS)

    told = [re.sub(r"ID: 0x[0-9a-f]+, PID: [0-9]+", "ID, PID", line) for line in loads(lines)]
    assert told == [
        f"🔍 KERNEL_LOAD Backtrace (Device {device}, Type: Application, Binary Size: {size} KB, Cores: 8, "
        f"Total L1: {total} KB, ID, PID, Kernel: {name}/brisc)"
        for size, total, name in (("3", "24", "reader"), ("1.25", "10", "writer"))
        for device in (0, 1)
    ]


def test_the_frames_are_those_that_made_its_program(launcher: Launcher) -> None:
    lines, _ = logged(launcher, LOADS)

    at = lines.index(loads(lines)[0])
    frames = {"make": "    program =", "forward": "def forward", "<module>": "workload = forward"}
    assert lines[at + 1 : at + 4] == [
        f"  [{number}] {name} (model.py:{line_of(start)})"
        for number, (name, start) in enumerate(frames.items())
    ]


def line_of(start: str) -> int:
    return next(
        number for number, line in enumerate(LOADS.splitlines(), 1) if line.startswith(start)
    )


def test_kernels_that_were_overwritten_before_they_were_read_are_missed_aloud(
    launcher: Launcher,
) -> None:
    lines, _ = logged(launcher, f"{LOADS}lib.churn(mesh, 100, 1000)", "--events", "64")

    said = [line for line in lines if "overwritten before they were read" in line]
    assert re.match(r"ttmem: pid \d+: [\d,]+ events? overwritten", said[0])


def test_a_quiet_run_prints_nothing_but_kernels(launcher: Launcher) -> None:
    lines, done = logged(launcher, LOADS, "--quiet")

    assert len(loads(lines)) == 4
    assert "PEAK OF" not in done.stderr


def test_without_call_sites_the_line_says_so(launcher: Launcher) -> None:
    lines, _ = logged(launcher, LOADS, "--no-sites")

    at = lines.index(loads(lines)[0])
    assert lines[at + 1] == "  call sites are off"


def test_what_runs_no_command_logs_no_kernels(launcher: Launcher) -> None:
    done = launcher.run(options=("--log-kernels", "--env"))

    assert done.returncode == 2
    assert "--log-kernels" in done.stderr
