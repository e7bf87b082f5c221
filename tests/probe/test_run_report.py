"""What `ttmem run` says on standard error: at the end, and when an allocation fails."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.probe.watched import Launcher
from ttmem.sources.probe.ended import ended_processes
from ttmem.sources.probe.region_file import find_regions

TOO_MUCH = 2 << 40


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_peak_comes_with_its_size_and_the_line_that_made_it(launcher: Launcher) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        "a = buffer(mesh, 1, 0, 1 << 20, 1 << 20)\n"
        "b = lib.buffer_make(mesh, 2, 0, 1 << 20, 1 << 20)\n"
        "lib.buffer_allocate(b)\n"
        "lib.buffer_free(a); lib.buffer_free(b)\n"
    )

    (row,) = [row for row in rows(said) if row[:1] == ["DRAM"]]
    assert row[1:5] == ["16.0", "MiB", "31.9", "GiB"]
    assert row[-2:] == ["model.py:4", "<module>"]


def test_a_peak_keeps_its_line_when_the_program_resets_its_own_peak(launcher: Launcher) -> None:
    said = launcher.summary(
        "import ttmem\n"
        "mesh = lib.mesh_open(1)\n"
        "a = lib.buffer_make(mesh, 1, 0, 1 << 20, 1 << 20)\n"
        "lib.buffer_allocate(a)\n"
        "ttmem.reset_peak()\n"
    )

    (row,) = [row for row in rows(said) if row[:1] == ["DRAM"] and "GiB" in row]
    assert row[-2:] == ["model.py:4", "<module>"]


def test_regions_whose_size_users_choose_stand_beside_their_setting(launcher: Launcher) -> None:
    said = launcher.summary("mesh = lib.mesh_open(1); buffer(mesh, 1, 3, 640, 640)")

    assert "l1_small_size=32768: 640 were needed" in said


def test_a_region_that_was_too_small_is_not_reported_as_sufficient(launcher: Launcher) -> None:
    said = launcher.summary(
        f"mesh = lib.mesh_open(1); buffer(mesh, 1, 3, 640, 640); buffer(mesh, 2, 3, {TOO_MUCH})"
    )

    assert "l1_small_size=32768: more than 32768 were needed" in said


def test_a_region_that_was_never_used_is_reported_as_well(launcher: Launcher) -> None:
    said = launcher.summary("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4096)")

    (trace,) = [line for line in said.splitlines() if line.startswith("  TRACE")]
    assert trace.split()[1:3] == ["0", "B"]
    assert trace.endswith("never used")


def test_devices_that_did_the_same_are_one_row(launcher: Launcher) -> None:
    said = launcher.summary("mesh = lib.mesh_open(4); buffer(mesh, 1, 0, 4096)")

    assert "devices 0-3" in said.splitlines()[0]
    assert len([row for row in rows(said) if row[:1] == ["DRAM"]]) == 2  # its peak; never freed


def test_only_devices_that_held_memory_are_named(launcher: Launcher) -> None:
    said = launcher.summary("all = lib.mesh_open(4); one = lib.mesh_open(1); buffer(one, 1, 0, 64)")

    assert said.splitlines()[0].endswith(": device 0")
    assert "devices" not in said


def test_devices_that_were_opened_and_never_used_are_reported_as_such(
    launcher: Launcher,
) -> None:
    said = launcher.summary("lib.mesh_open(4)")

    head, body = said.splitlines()
    assert head.endswith(": devices 0-3 opened")
    assert body == "  nothing was allocated"


def test_what_a_process_holds_at_its_end_was_never_freed(launcher: Launcher) -> None:
    script = "mesh = lib.mesh_open(1)\nfor i in range(3): lib.buffer_allocate(lib.buffer_make(mesh, i, 0, 8, 64))\n"
    said = launcher.summary(script + "import os; os._exit(0)")

    head, *_ = said.splitlines()
    title = next(at for at, row in enumerate(rows(said)) if row[:2] == ["NEVER", "FREED"])
    assert "ended by _exit" in head
    assert rows(said)[title + 1][:5] == ["DRAM", "1.5", "KiB", "3", "x"]
    assert "model.py:2" in said.splitlines()[title + 1]


def test_what_went_with_its_device_was_never_freed(launcher: Launcher) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        "from ttmem import phase\n"
        "with phase('load'): lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, 8, 64))\n"
        "lib.mesh_close(mesh)\n"
    )

    assert "model.py:3 <module>  in load" in said.split("NEVER FREED")[1]


def test_what_was_freed_with_its_device_is_reported_even_if_the_ring_lost_it(
    launcher: Launcher,
) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        "from ttmem import phase\n"
        "with phase('load'): lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, 8, 64))\n"
        "lib.mesh_close(mesh)\n"
        "mesh = lib.mesh_open(1); lib.churn(mesh, 100, 1000); lib.mesh_close(mesh)",
        "--events",
        "64",
    )

    assert "model.py:3 <module>  in load" in said.split("NEVER FREED")[1]


NESTED = (
    "mesh = lib.mesh_open(1)\n"
    "def inner(size): lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, size, 64))\n"
    "def outer(size): inner(size)\n"
)


def test_without_call_sites_it_says_that_they_are_off(launcher: Launcher) -> None:
    said = launcher.summary(f"{NESTED}outer(8); outer({TOO_MUCH})", "--no-sites")

    assert "asked by   unknown: call sites are off" in said
    assert "held by    512 B  1 buffer\n" in said
    assert said.splitlines()[-1].endswith("call sites are off")
    assert "outside any op" not in said


def test_with_stacks_the_callers_stand_below(launcher: Launcher) -> None:
    said = launcher.summary(f"{NESTED}outer(8)\nouter({TOO_MUCH})", "--stacks")

    failure, _, leftovers = said.partition("PEAK OF")
    lines = [line.strip() for line in failure.splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("asked by"))
    assert lines[at].endswith("model.py:2 inner")
    assert lines[at + 1 : at + 3] == [
        "called by model.py:3 outer",
        "called by model.py:5 <module>",
    ]
    assert "called by model.py:4 <module>" in leftovers.split("NEVER FREED")[1]


def test_where_no_program_ran_no_demand_is_explained(launcher: Launcher) -> None:
    plain = launcher.summary("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 8)")

    assert "demand" not in plain


def test_what_was_freed_is_not_mentioned(launcher: Launcher) -> None:
    said = launcher.summary("mesh = lib.mesh_open(1); lib.buffer_free(buffer(mesh, 1, 0, 8))")

    assert "NEVER FREED" not in said


def test_a_program_that_never_loads_the_runtime_has_one_line(launcher: Launcher) -> None:
    done = launcher.run("true")

    assert done.stderr == (
        "ttmem: no process of this command opened a device, so there is nothing to report\n"
    )


def test_quiet_says_nothing(launcher: Launcher) -> None:
    script = f"mesh = lib.mesh_open(1); buffer(mesh, 1, 0, {TOO_MUCH})"

    assert launcher.run(*launcher.program(script), options=("--quiet",)).stderr == ""


def test_each_child_has_its_own_summary(launcher: Launcher) -> None:
    child = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 8)"
    parent = (
        "import subprocess\n"
        f"children = [subprocess.Popen({launcher.program(child)!r}) for _ in range(2)]\n"
        "print(*[child.pid for child in children])\n"
        "[child.wait() for child in children]\n"
    )

    done = launcher.run(sys.executable, "-c", parent)

    heads = {line for line in done.stderr.splitlines() if line.startswith("ttmem: pid")}
    assert heads == {f"ttmem: pid {pid}: device 0" for pid in done.stdout.split()}


def test_regions_of_others_are_left_alone(launcher: Launcher) -> None:
    launcher.run(*launcher.program("lib.mesh_open(1)"))

    assert "nothing to report" in launcher.run("true").stderr


def test_a_process_that_outlives_the_command_is_still_running(launcher: Launcher) -> None:
    script = "mesh = lib.mesh_open(1); say('open'); import signal; signal.pause()"
    parent = (
        "import subprocess\n"
        f"child = subprocess.Popen({launcher.program(script)!r}, "
        "stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "child.stdout.readline(); print(child.pid)\n"
    )

    done = launcher.run(sys.executable, "-c", parent)

    child = int(done.stdout)
    os.kill(child, signal.SIGKILL)
    assert f"ttmem: pid {child} (still running): device 0" in done.stderr


def test_a_failure_is_reported_while_the_program_continues(launcher: Launcher) -> None:
    script = f"mesh = lib.mesh_open(1); buffer(mesh, 1, 0, {TOO_MUCH}); input()"
    with launcher.running(*launcher.program(script)) as process:
        assert process.stderr is not None
        assert process.stdin is not None

        head = process.stderr.readline()

        assert process.poll() is None
        assert head.endswith("no space for a buffer in DRAM of device 0\n")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait() == 0


def test_a_failure_names_those_who_held_the_memory_then(launcher: Launcher) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        "held = [lib.buffer_make(mesh, i, 1, 8, 64 << i) for i in range(7)]\n"
        "for one in held[:3]: lib.buffer_allocate(one)\n"
        "for one in held[3:]: lib.buffer_allocate(one)\n"
        f"late = lib.buffer_make(mesh, 8, 1, {TOO_MUCH}, 64); lib.buffer_allocate(late)\n"
        "for one in held: lib.buffer_free(one)\n"
        "lib.buffer_allocate(lib.buffer_make(mesh, 9, 1, 8, 64))\n"
    )

    failure = said.split("PEAK OF")[0].splitlines()
    kib = [(64 << i) * 110 / 1024 for i in range(7)]
    assert "model.py:5 <module>" in failure[1]
    first = next(at for at, line in enumerate(failure) if "held by" in line)
    assert f"{sum(kib[3:]):.1f} KiB  4 x" in failure[first]
    assert f"{sum(kib[:3]):.1f} KiB  3 x" in failure[first + 1]


def test_a_failure_without_figures_is_counted(launcher: Launcher) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 1, 8, 1 << 20)\n"
        f"lib.buffer_allocate(lib.buffer_make(mesh, 2, 1, {TOO_MUCH}, 64))\n"
    )

    free = next(line for line in said.splitlines() if line.startswith("  free"))
    assert free.split()[1:6] == ["370.9", "KiB", "of", "1.4", "MiB"]
    assert "too large" in said


def test_the_same_failure_is_reported_once_and_counted(launcher: Launcher) -> None:
    said = launcher.summary(
        f"mesh = lib.mesh_open(1)\nfor i in range(20): buffer(mesh, i, 0, {TOO_MUCH})"
    )

    assert said.count("no space for") == 1
    assert "device 0 opened, 20 allocations failed" in said


def test_a_truncated_or_removed_region_does_no_harm(launcher: Launcher) -> None:
    script = "mesh = lib.mesh_open(1); say('open'); input(); sys.exit(5)"
    with launcher.running(*launcher.program(script)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdout.readline()
        (region,) = launcher.folder.glob("ttmem_*")

        region.unlink()
        process.stdin.write("\n")
        process.stdin.flush()

        assert process.wait() == 5
        assert "Traceback" not in process.stderr.read()


def test_a_killed_command_ended_when_it_was_killed(launcher: Launcher) -> None:
    holds = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4096); say('made'); input()"
    with launcher.running(*launcher.program(holds)) as run:
        assert run.stdout is not None
        assert run.stdout.readline().strip() == "made"
        (name,) = find_regions(str(launcher.folder))
        idle = time.time_ns()
        os.kill(name.pid, signal.SIGKILL)
        run.wait()

    (found,) = ended_processes(str(launcher.folder))

    assert found.ended_ns is not None
    assert idle < found.ended_ns < time.time_ns()
    assert not found.in_order


def asked_for(said: str) -> list[str]:
    return [" ".join(row[2:4]) for row in rows(said) if row[:2] == ["asked", "for"]]


def test_a_second_and_different_failure_on_the_same_line_is_explained_the_same_again_is_counted(
    launcher: Launcher,
) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        f"for times in (1, 2, 2, 1): lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, times * {TOO_MUCH}, 8))"
    )

    assert asked_for(said) == ["2.0 TiB:", "4.0 TiB:"]
    assert "4 allocations failed" in said


def test_a_line_that_keeps_retrying_does_not_hide_the_failures_of_others(
    launcher: Launcher,
) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        f"for times in range(1, 9): lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, times * {TOO_MUCH}, 8))\n"
        f"lib.buffer_allocate(lib.buffer_make(mesh, 1, 0, 9 * {TOO_MUCH}, 8))"
    )

    assert asked_for(said) == ["2.0 TiB:", "4.0 TiB:", "6.0 TiB:", "18.0 TiB:"]


@pytest.mark.parametrize("recorded", [True, False])
def test_the_largest_holders_stand_under_the_peak_they_make_up(
    launcher: Launcher, recorded: bool, tmp_path: Path
) -> None:
    options = ("-o", str(tmp_path / "run.ttmem")) if recorded else ()
    said = launcher.summary(
        "mesh = lib.mesh_open(1)\n"
        "weights = [lib.buffer_make(mesh, n, 0, 4000, 512) for n in range(9)]\n"
        "for one in weights: lib.buffer_allocate(one)\n"
        "for n in range(20):\n"
        "    temporary = lib.buffer_make(mesh, 100 + n, 0, 6000, 1024)\n"
        "    lib.buffer_allocate(temporary)\n"
        "    lib.buffer_free(temporary)\n",
        *options,
    )

    peaks = said.partition("PEAK OF")[2].partition("NEVER FREED")[0]
    lines = [" ".join(line.split()) for line in peaks.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("held by"))
    assert lines[at].endswith("9 x outside any op model.py:3 <module>")
    assert lines[at + 1].endswith("outside any op model.py:6 <module>")


def test_without_a_line_to_add_only_the_peak_is_shown(launcher: Launcher) -> None:
    said = launcher.summary("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 8)")

    assert "held by" not in said
