"""`ttmem run` is transparent to the command and its caller."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.patience import wait_until
from tests.probe.watched import Launcher

# Says 'ready', then each signal that it is sent, and leaves with 7 after SIGUSR1.
LISTENER = """
import os, signal, sys
def tell(number, frame):
    os.write(1, b" %d \\n" % number)  # not print: the signal may come while that is still at work
    if number == signal.SIGUSR1:
        os._exit(7)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, tell)
print("ready", os.getpid(), flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_that_of_the_command(launcher: Launcher, code: int) -> None:
    assert launcher.run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_command_killed_by_a_signal_looks_so(launcher: Launcher, number: signal.Signals) -> None:
    assert launcher.run("sh", "-c", f"kill -{number.value} $$").returncode == -number


def test_a_shell_sees_128_and_the_signal(launcher: Launcher) -> None:
    line = shlex.join(launcher.line("sh", "-c", "kill -TERM $$"))

    done = subprocess.run(["sh", "-c", f"{line}; exit $?"], capture_output=True, check=False)

    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_reaches_the_command(
    launcher: Launcher, number: signal.Signals
) -> None:
    with launcher.running(sys.executable, "-c", LISTENER) as process:
        assert process.stdout is not None
        process.stdout.readline()

        process.send_signal(number)
        told = process.stdout.readline()
        process.send_signal(signal.SIGUSR1)

        assert int(told) == number
        assert process.wait() == 7


def test_ctrl_c_reaches_the_command_once(launcher: Launcher) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        line = launcher.line(sys.executable, "-c", LISTENER)
        os.execv(line[0], line)
    with os.fdopen(terminal, "rb+", buffering=0) as screen:
        assert b"ready" in screen.readline()

        screen.write(b"\x03")
        told = [screen.readline().split()[-1]]
        # A second SIGINT would be passed on before this one: its number is lower.
        os.kill(pid, signal.SIGUSR1)
        told.append(screen.readline().split()[-1])

        assert list(map(int, told)) == [signal.SIGINT, signal.SIGUSR1]
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_the_launcher_stops_and_goes_on_with_its_command(launcher: Launcher) -> None:
    with launcher.running(sys.executable, "-c", LISTENER) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[1])

        process.send_signal(signal.SIGTSTP)
        wait_until(lambda: (_state(process.pid), _state(child)) == ("T", "T"))
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: _state(child) != "T")
        process.send_signal(signal.SIGUSR1)

        assert process.wait() == 7


def test_a_launcher_that_was_stopped_invents_no_signals(launcher: Launcher) -> None:
    with launcher.running(sys.executable, "-c", LISTENER) as process:
        assert process.stdout is not None
        process.stdout.readline()

        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: _state(process.pid) == "T")
            time.sleep(0.15)  # longer than it waits at a time
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: _state(process.pid) != "T")
        process.send_signal(signal.SIGUSR1)

        assert process.wait() == 7
        assert [int(line) for line in process.stdout] == [signal.SIGUSR1]


def test_signals_are_blocked_and_ignored_as_without_it(launcher: Launcher) -> None:
    question = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")

    masks = [line.split()[1] for line in launcher.run(*question).stdout.splitlines()]
    others = [line.split()[1] for line in subprocess.check_output(question, text=True).splitlines()]

    # 31 have names; some versions of the C library ignore two of the others in a new process.
    assert [int(mask, 16) & 0x7FFFFFFF for mask in masks] == [
        int(mask, 16) & 0x7FFFFFFF for mask in others
    ]


def test_standard_output_belongs_to_the_command(launcher: Launcher) -> None:
    done = launcher.run(*launcher.program("mesh = lib.mesh_open(1); print('words')"))

    assert done.stdout == "words\n"
    assert "device 0" in done.stderr


def test_a_missing_command_is_127_with_a_sentence(launcher: Launcher) -> None:
    done = launcher.run("no-such-command")

    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("ttmem: no-such-command: no such command")


def test_a_command_that_may_not_be_run_is_126_with_a_sentence(
    launcher: Launcher, tmp_path: Path
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("words")
    text.chmod(stat.S_IRUSR)

    done = launcher.run(str(text))

    assert (done.returncode, done.stderr) == (
        126,
        f"ttmem: {text} cannot be run: Permission denied\n",
    )


def test_no_command_is_a_wrong_argument(launcher: Launcher) -> None:
    done = launcher.run()

    assert (done.returncode, done.stderr) == (
        2,
        "ttmem: no command; give it after --: ttmem run -- python model.py\n",
    )


@pytest.mark.parametrize("wrong", [("--events", "7"), ("--live", "99999999")])
def test_a_size_that_the_library_would_not_take_is_refused(
    launcher: Launcher, wrong: tuple[str, str]
) -> None:
    done = launcher.run("true", options=wrong)

    assert done.returncode == 2
    assert f"{wrong[0]} must be between 64 and 16777216" in done.stderr


def test_options_of_the_command_stay_with_it(launcher: Launcher) -> None:
    line = [word for word in launcher.line("echo", "--stacks", "--", "-q") if word != "--"]

    done = subprocess.run([*line[:-1], "--", "-q"], capture_output=True, text=True, check=True)

    assert done.stdout == "--stacks -- -q\n"


def test_what_was_preloaded_stays_preloaded(launcher: Launcher, runtime: Path) -> None:
    done = launcher.run(
        "sh", "-c", 'echo "$LD_PRELOAD"; grep -c "$0" /proc/self/maps', str(runtime),
        LD_PRELOAD=str(runtime),
    )  # fmt: skip

    preloaded, mapped = done.stdout.split()
    assert preloaded.split(":")[1:] == [str(runtime)]
    assert int(mapped) > 0


def test_the_environment_alone_does_the_same(launcher: Launcher, tmp_path: Path) -> None:
    ttmem = f"{sys.executable} -m ttmem run --shm {tmp_path}"
    script = tmp_path / "job.sh"
    script.write_text(f'eval "$({ttmem} --env)"\nexec "$@"\n')

    subprocess.run(["sh", str(script), *launcher.program("lib.mesh_open(1)")], check=True)

    assert len(list(tmp_path.glob("ttmem_*"))) == 1


def test_regions_are_made_where_the_other_verbs_look(launcher: Launcher, tmp_path: Path) -> None:
    done = finish("run", "--quiet", *launcher.program("lib.mesh_open(1)"), TTMEM_SHM=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("ttmem_*"))) == 1


def test_the_path_of_the_library_can_be_asked_for(launcher: Launcher) -> None:
    path = finish("run", "--print-preload").stdout.strip()

    assert Path(path).name == "_library.abi3.so"
    assert Path(path).is_file()


def _state(pid: int) -> str:
    """One letter, as the kernel says."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_log_that_cannot_be_written_is_wrong_by_option_and_by_variable(
    launcher: Launcher,
) -> None:
    missing = f"{launcher.folder}/missing/log"
    by_option = launcher.run("true", options=("--log", missing))
    by_variable = launcher.run("true", options=("--quiet",), TTMEM_LOG=missing)

    assert (by_option.returncode, by_variable.returncode) == (2, 2)
    assert f"--log {missing} cannot be written" in by_option.stderr
    assert f"TTMEM_LOG={missing} cannot be written" in by_variable.stderr
