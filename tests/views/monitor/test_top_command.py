"""`ttmem top` as people start it: in a terminal of its own, against a real server."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.sources.region_writer import N300_LOCAL, Written, add_n300
from tests.views.monitor.terminal_program import TerminalProgram
from tests.views.servers import reporting, serving
from ttmem.events import Op
from ttmem.views.monitor.pages import PAGES
from ttmem.wire.historical import Head

MIB = 1 << 20
WEIGHTS = Head(Op.ALLOC, 0, 64 * MIB, 0, os.getpid(), 0x1000)
TOP = (sys.executable, "-m", "ttmem", "top", "--interval", "0.2")


def top(path: Path, *options: str, **environment: str) -> TerminalProgram:
    command = [*TOP, "--socket", str(path), *options]
    return TerminalProgram(command, environment=environment)


def once(path: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*TOP, "--socket", str(path), "--once", *options]
    given = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=given)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with serving(tmp_path / "s", "--board", "n300"), reporting(tmp_path / "s", WEIGHTS):
        yield tmp_path / "s"


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_once_prints_each_view_as_text(path: Path, page: str) -> None:
    done = once(path, "--page", page, COLUMNS="100", LINES="30")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert f" {page}" in lines[1]
    assert "\x1b" not in done.stdout


def test_once_in_ascii_has_nothing_else(path: Path) -> None:
    assert once(path, "--ascii").stdout.isascii()
    assert once(path, PYTHONIOENCODING="latin-1").stdout.isascii()


def test_an_idle_host_says_so_and_what_to_try_until_something_runs(tmp_path: Path) -> None:
    with TerminalProgram([*TOP, "--shm", str(tmp_path)]) as program:
        program.wait_for("Nothing is running", "ttmem run -- python model.py", "ttmem demo")
        idle = program.text
        Written(number=7, logical_id=0).write(tmp_path)
        program.wait_for(" UTC")  # the time of a snapshot
    assert "serve" not in idle
    assert "DISCONNECTED" not in idle


def test_with_telemetry_the_device_page_shows_the_sensors_of_its_card(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    sysfs.mkdir()
    add_n300(sysfs)
    Written(number=N300_LOCAL, logical_id=0).write(tmp_path)
    command = [*TOP, "--shm", str(tmp_path), "--once", "--telemetry", "--sysfs", str(sysfs)]
    done = subprocess.run([*command, "--page", "Device"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "temp 51.3 °C" in done.stdout


def test_once_without_a_server_is_exit_code_3(tmp_path: Path) -> None:
    done = once(tmp_path / "none")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"start one with `ttmem serve --socket {tmp_path / 'none'}`" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--page", "Bufers"), "there is no page 'Bufers'; choose one of Overview"),
        (("--page", "7"), "there is no page '7'"),
        (("--interval", "0"), "is not a number of seconds"),
        (("--interval", "nan"), "is not a number of seconds"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    path: Path, options: tuple[str, ...], sentence: str
) -> None:
    done = once(path, *options)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_finished_recording_opens_where_memory_was_allocated_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "leak.ttmem"
    simulate = [
        "simulate",
        "leak",
        "--steps",
        "3",
        "--rate",
        "0",
        "--size",
        "small",
        "-o",
        str(file),
    ]
    subprocess.run([*TOP[:3], *simulate], capture_output=True, check=True)
    shown = subprocess.run([*TOP, str(file), "--once"], capture_output=True, text=True, check=True)
    at_end = [*TOP, str(file), "--at", "end", "--once"]
    ended = subprocess.run(at_end, capture_output=True, text=True, check=True)

    assert "opened at the peak of DRAM: nothing is allocated at the end" in shown.stdout
    assert "PROCESSES 1" in shown.stdout
    assert "opened" not in ended.stdout
    assert "PROCESSES 0" in ended.stdout


def test_a_live_monitor_goes_back_on_every_page_and_returns(path: Path) -> None:
    with top(path) as program:
        program.wait_for("64.0 MiB", "live")
        end = time.monotonic() + PATIENCE_S
        while "paused" not in program.text:  # the past is kept from the second reading on
            assert time.monotonic() < end, program.text
            program.press("{")
            program.read_for(0.3)
        for digit in "23456":
            program.press(digit)
            program.wait_for("paused")
        program.press("1\x1b[H")  # Home
        program.wait_for("64.0 MiB", " 0.000 s / ")
        with reporting(path, WEIGHTS._replace(id=0x2000)):
            program.press("\x1b[F")  # End
            program.wait_for("live", "128.0 MiB")
        program.press("q")
        assert program.wait_for_end() == 0


def test_a_recording_is_followed_while_it_is_written(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.ttmem"
    recorder = subprocess.Popen(
        [sys.executable, "-m", "ttmem", "record", str(file), "--socket", str(path)],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: file.exists() and file.stat().st_size > 1000)
        with TerminalProgram([*TOP, str(file)]) as program:
            program.wait_for("64.0 MiB", "follows", "still being written")
            with reporting(path, WEIGHTS._replace(id=0x2000)):
                program.wait_for("128.0 MiB")
            recorder.send_signal(signal.SIGINT)
            recorder.wait(PATIENCE_S)
            program.wait_for("paused")
            program.press("2")
            program.wait_for("128.0 MiB")
            assert "still being written" not in program.text
    finally:
        recorder.kill()
        recorder.wait()


def test_without_a_terminal_it_says_what_to_use(path: Path) -> None:
    command = [*TOP, "--socket", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "`ttmem top --once`" in done.stderr
    assert "`ttmem ps --watch`" in done.stderr


def test_a_dumb_terminal_gets_the_same_sentence(path: Path) -> None:
    with top(path, TERM="dumb") as program:
        assert program.wait_for_end() == 2
    assert "`ttmem ps --watch`" in program.text
    assert "\x1b" not in program.text


def test_keys_change_the_screen_and_q_leaves_the_terminal_clean(path: Path) -> None:
    with top(path) as program:
        program.wait_for("64.0 MiB", "1 Overview")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("q")
        assert program.wait_for_end() == 0
        assert program.is_clean


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_clean(path: Path, number: signal.Signals) -> None:
    with top(path) as program:
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.signal(number)
        assert program.wait_for_end() in (128 + number, 0)
        assert program.is_clean
        assert "Traceback" not in program.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_start_leaves_the_terminal_clean(
    path: Path, number: signal.Signals
) -> None:
    with top(path) as program:
        program.wait_for("ttmem")
        program.signal(number)
        assert program.wait_for_end() in (128 + number, 0)
        assert program.is_clean
        assert "Traceback" not in program.text


def test_ctrl_c_ends_it(path: Path) -> None:
    with top(path) as program:
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("\x03")
        assert program.wait_for_end() == 0
        assert program.is_clean


def test_it_can_be_stopped_and_goes_on(path: Path) -> None:
    monitor = shlex.join([*TOP, "--socket", str(path)])
    script = f"{monitor}; echo STOPPED; read; fg; echo ENDED $?"
    with TerminalProgram(["bash", "-m", "-c", script]) as program:
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("\x1a")
        program.wait_for("STOPPED")
        assert program.is_clean

        program.press("\n")
        program.wait_for("Keys of every page")
        program.press("q")
        program.wait_for("ENDED 0")
        program.wait_for_end()
        assert program.is_clean


def test_where_no_shell_could_go_on_with_it_ctrl_z_does_not_stop_it(path: Path) -> None:
    with top(path) as program:  # it leads its session, as in `ssh -t host ttmem top`
        program.wait_for("64.0 MiB")
        program.press("\x1a")
        program.wait_for("64.0 MiB")
        program.press("q")
        assert program.wait_for_end() == 0
        assert program.is_clean


def test_a_terminal_that_takes_nothing_does_not_keep_it_from_ending(path: Path) -> None:
    with top(path, "--interval", "0.1") as program:
        program.wait_for("64.0 MiB")
        for digit in "123456h123456h" * 20:  # far more than a pty keeps
            os.write(program.terminal, digit.encode())
            time.sleep(0.01)
        program.signal(signal.SIGTERM)
        assert program.process.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_keys_that_are_no_text_are_skipped(path: Path) -> None:
    with top(path) as program:
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press_bytes(b"\xff\xfe\x80")
        while program.process.poll() is None:  # a key in the same read is skipped too
            program.press("q")
            program.pump(0.1)
        assert program.wait_for_end() == 0
        assert "Traceback" not in program.text


def test_it_waits_for_a_server_and_survives_its_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with top(path) as program:
        program.wait_for("no server at", "trying again")
        with serving(path), reporting(path, WEIGHTS):
            program.wait_for("64.0 MiB")
        program.press("")
        program.wait_for("trying again; the last snapshot is")
        with serving(path), reporting(path, WEIGHTS):
            program.press("2")
            program.wait_for("64.0 MiB")
        program.press("q")
        assert program.wait_for_end() == 0
        assert program.is_clean


@contextmanager
def talking_nonsense(path: Path, words: bytes) -> Iterator[None]:
    """A server that says the same to everyone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.sendall(words)
                    peer.recv(1 << 16)
                except OSError:
                    pass

    speaker = threading.Thread(target=answer, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        speaker.join()


@pytest.mark.parametrize("words", [b"", b"\x00" * 200, b"HTTP/1.1 400 Bad\r\n\r\n", b"\xff" * 500])
def test_garbage_from_the_server_is_a_sentence(tmp_path: Path, words: bytes) -> None:
    with talking_nonsense(tmp_path / "s", words), top(tmp_path / "s") as program:
        program.wait_for("trying again")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("q")
        assert program.wait_for_end() == 0
        assert program.is_clean
        assert b"Traceback" not in program.output


def test_a_small_window_says_so_and_a_large_one_shows_more(path: Path) -> None:
    with top(path, COLUMNS="90", LINES="20") as program:  # of a shell; they do not follow
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("")
        program.resize(20, 5)
        program.wait_for("window too small")
        program.press("h")
        program.resize(160, 50)
        program.wait_for("64.0 MiB")
        program.press("q")
        assert program.wait_for_end() == 0


def test_no_colour_means_none(path: Path) -> None:
    with top(path, NO_COLOR="1") as program:
        program.wait_for("64.0 MiB")
        program.press("h")
        program.wait_for("Keys of every page")
        program.press("q")
        program.wait_for_end()
    assert program.colours == set()
