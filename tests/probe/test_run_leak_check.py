"""`ttmem run --check-leaks`: the exit code says whether this run leaks."""

from __future__ import annotations

import pytest

from tests.probe.watched import Launcher

CHECK = ("--check-leaks", "--quiet")
LOOP = """
from ttmem import phase
mesh = lib.mesh_open(1)
weights = [buffer(mesh, 1000 + n, 0, 4000) for n in range(20)]
kept = []
for n in range({times}):
    with phase("step"):
        lib.buffer_free(buffer(mesh, 100000 + n, 0, 8000))
        {body}
lib.mesh_close(mesh)
"""
RECORDED = """
import time
def recorded(file):
    before = os.path.getsize(file)
    while os.path.getsize(file) == before: time.sleep(0.05)
"""
HEALTHY = LOOP.format(times=20, body="pass")
LEAKY = LOOP.format(times=20, body="kept.append(buffer(mesh, 2000 + n, 0, 6000))")


def said(text: str) -> str:
    return " ".join(text.split())


def test_weights_that_stay_until_the_end_pass(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(HEALTHY), options=CHECK)

    assert done.returncode == 0, done.stderr
    assert "leak check (growth): passed" in done.stderr


def test_a_leak_is_exit_code_1_and_is_named(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(LEAKY), options=CHECK)

    assert done.returncode == 1
    assert "leaks DRAM at" in said(done.stderr)


def test_a_leak_of_an_earlier_run_does_not_count(launcher: Launcher) -> None:
    launcher.run(*launcher.program(LEAKY))

    done = launcher.run(*launcher.program(HEALTHY), options=CHECK)

    assert done.returncode == 0, done.stderr


def test_a_run_with_more_events_than_the_ring_holds_is_judged(launcher: Launcher) -> None:
    file = launcher.folder / "run.ttmem"
    wait = f"not n % 20 and recorded({str(file)!r})"
    body = f"kept.append(buffer(mesh, 2000 + n, 0, 6000)); {wait}"
    long = RECORDED + LOOP.format(times=100, body=body)

    options = (*CHECK, "--events", "256", "-o", str(file))
    done = launcher.run(*launcher.program(long), options=options)

    assert done.returncode == 1
    assert "leaks DRAM at" in said(done.stderr)


def test_a_short_process_among_many_is_judged_by_its_own_iterations(launcher: Launcher) -> None:
    short = launcher.program(LEAKY.replace('with phase("step")', "if True"))
    long = LOOP.format(times=2000, body="pass").replace('with phase("step")', "if True")
    script = f"import subprocess; subprocess.run({short!r}, check=True)\n{long}"

    done = launcher.run(*launcher.program(script), options=CHECK)

    assert done.returncode == 1, done.stderr
    assert said(done.stderr).count("leaks DRAM") == 1


@pytest.mark.parametrize(
    "options", [("--ignore-phase", "step"), ("--min-bytes", "1GiB")], ids=lambda given: given[0]
)
def test_what_is_ignored_passes(launcher: Launcher, options: tuple[str, ...]) -> None:
    done = launcher.run(*launcher.program(LEAKY), options=(*CHECK, *options))

    assert done.returncode == 0, done.stderr


def test_a_run_too_short_to_judge_is_no_success(launcher: Launcher) -> None:
    script = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.mesh_close(mesh)"

    done = launcher.run(*launcher.program(script), options=CHECK)

    assert done.returncode == 1
    assert "leak check (growth): no verdict" in done.stderr


@pytest.mark.parametrize("steps", [2, 4, 6])
@pytest.mark.parametrize("iteration", ['with phase("step")', "if True"])
def test_a_leak_in_so_few_iterations_is_not_passed(
    launcher: Launcher, steps: int, iteration: str
) -> None:
    body = "kept.append(buffer(mesh, 2000 + n, 0, 6000))"
    script = LOOP.format(times=steps, body=body).replace('with phase("step")', iteration)

    done = launcher.run(*launcher.program(script), options=CHECK)

    assert done.returncode == 1
    assert "leak check (growth): passed" not in done.stderr


def test_a_run_without_iterations_is_told_how_to_mark_them(launcher: Launcher) -> None:
    script = HEALTHY.replace('with phase("step")', "if True")

    done = launcher.run(*launcher.program(script), options=CHECK)

    assert "ttmem.phase" in done.stderr


@pytest.mark.parametrize("unwatched", [False, True])
def test_a_run_in_which_nothing_was_watched_has_no_verdict(
    launcher: Launcher, unwatched: bool
) -> None:
    leaky = ("env", "-u", "LD_PRELOAD", *launcher.program(LEAKY))

    done = launcher.run(*(leaky if unwatched else ("true",)), options=CHECK)

    assert done.returncode == 1
    assert "no process of this command opened a device under the probe" in said(done.stderr)


def test_the_code_of_a_failed_command_is_kept(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program(f"{LEAKY}\nsys.exit(7)"), options=CHECK)

    assert done.returncode == 7


def test_a_process_that_could_not_be_watched_is_no_success(launcher: Launcher) -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\nlib.mesh_open(1)"
    )

    done = launcher.run(*launcher.program(script), options=CHECK)

    assert done.returncode == 1
    assert "could not be watched" in done.stderr


def test_what_only_a_leak_check_uses_is_refused_without_one(launcher: Launcher) -> None:
    done = launcher.run("true", options=("--min-bytes", "1MiB"))

    assert done.returncode == 2
    assert "are for --check-leaks" in done.stderr


def test_a_process_that_ends_by_exit_is_not_said_to_be_killed(launcher: Launcher) -> None:
    hold = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000)"
    script = f"{hold}; os._exit(3)"

    forked = f"pid = os.fork()\nif not pid:\n {script}\nos.waitpid(pid, 0)"
    done = launcher.run(*launcher.program(forked), options=CHECK)

    assert done.returncode == 1
    assert "ended without closing the device (killed, or ended by _exit)" in said(done.stderr)


def test_a_command_that_ended_by_exit_with_0_is_judged_by_its_iterations(
    launcher: Launcher,
) -> None:
    kept = HEALTHY.replace("lib.mesh_close(mesh)", "os._exit(0)")

    done = launcher.run(*launcher.program(kept), options=CHECK)

    assert done.returncode == 0, done.stderr
