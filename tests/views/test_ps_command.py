"""`ttmem ps` and `ttmem dump` against a real server."""

from __future__ import annotations

import argparse
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.patience import PATIENCE_S
from tests.views.servers import reporting, serving
from ttmem.commands import dump, ps, top
from ttmem.errors import BadInput, NoServer
from ttmem.events import Op
from ttmem.wire.historical import Head

MIB = 1 << 20
WEIGHTS = Head(Op.ALLOC, 0, 64 * MIB, 0, os.getpid(), 0x1000)
CIRCULAR = Head(Op.CB_ALLOC, 0, 3 * MIB, 0, os.getpid(), 0x19D60)
KERNEL = Head(Op.KERNEL_LOAD, 0, 917_504, 1, os.getpid(), 7)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with serving(tmp_path / "s", "--board", "n300"):
        yield tmp_path / "s"


def call(verb: ModuleType, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    verb.prepare(parser)
    code: int = verb.run(parser.parse_args([str(argument) for argument in arguments]))
    return code


def test_the_table_shows_what_a_process_holds(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporting(path, WEIGHTS, CIRCULAR, KERNEL):
        assert call(ps, "--socket", path) == 0
    shown = capsys.readouterr().out
    assert "64.0 MiB / 12.0 GiB" in shown
    assert "= L1 0 B + L1_SMALL 0 B + CB 3.0 MiB demand" in shown
    assert f" {os.getpid()} " in shown
    assert "\x1b" not in shown


def test_json_is_one_line_when_it_goes_to_a_program(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporting(path, WEIGHTS):
        call(ps, "--socket", path, "--json")
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert document["schema"] == "ttmem.snapshot/1"
    assert document["devices"][0]["memory"]["dram"]["requested"] == 64 * MIB


def test_details_stand_beside_the_fixed_keys(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporting(path, WEIGHTS, KERNEL):
        call(ps, "--socket", path, "--json", "--detail", "buffers,programs")
    document = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in document["buffers"]] == [0x1000]
    assert [row["type"] for row in document["kernels"]] == ["fabric"]


def test_the_kernel_table_counts_by_type(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(path, KERNEL):
        call(ps, "--socket", path, "--kernels")
    lines = capsys.readouterr().out.splitlines()
    assert ["Fabric", "1", "896.0", "KiB"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--detail", "buffers"), "--detail needs --json"),
        (("--json", "--detail", "bufers"), "there is no detail 'bufers'; known are programs"),
        (("--json", "--kernels"), "use --detail programs"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        call(ps, *arguments)


@pytest.mark.parametrize("verb", [ps, dump], ids=["ps", "dump"])
def test_without_a_server_it_says_what_to_do(verb: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(NoServer, match="start one with `ttmem serve --socket ") as problem:
        call(verb, "--socket", tmp_path / "none")
    assert problem.value.exit_code == 3


@pytest.mark.parametrize("option", ["--device", "--devices"])
def test_devices_are_chosen_alike_in_all_verbs(option: str) -> None:
    for verb in (ps, dump, top):
        parser = argparse.ArgumentParser()
        verb.prepare(parser)
        chosen = parser.parse_args([option, "0, 3", option, "7"]).device
        assert chosen == ["0", "3", "7"]


def test_a_device_that_nobody_reported_is_refused(path: Path) -> None:
    with reporting(path, WEIGHTS), pytest.raises(BadInput, match="no process has reported device"):
        call(ps, "--socket", path, "--device", "17")


def test_the_dump_lists_single_buffers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(path, WEIGHTS, CIRCULAR):
        assert call(dump, "--socket", path, "--all") == 0
    shown = capsys.readouterr().out
    assert ["KIND", "SIZE", "AGE", "ADDRESS"] in [line.split()[:4] for line in shown.splitlines()]
    assert "0x1000" in shown
    assert "0x19d60" in shown


def test_the_dump_as_json_holds_the_same_groups(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporting(path, WEIGHTS, CIRCULAR, KERNEL):
        call(dump, "--socket", path, "--json", "--top", "1")
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    groups = [(group["kind"], group["count"], group["held"]) for group in device["memory"]]
    assert groups == [("DRAM", 1, 64 * MIB), ("CB", 1, 3 * MIB)]
    assert device["kernels"][0]["held"] == 917_504


def test_the_exit_code_tells_whether_anything_is_left(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(dump, "--socket", path, "--exit-code", "--strict") == 0
    assert "nothing is allocated" in capsys.readouterr().out
    with reporting(path, WEIGHTS):
        assert call(dump, "--socket", path, "--exit-code", "--strict") == 1
        assert call(dump, "--socket", path) == 0
    freed = Head(Op.FREE, 0, 0, 0, os.getpid(), 0x1000)
    with reporting(path, freed, KERNEL):
        assert call(dump, "--socket", path, "--exit-code", "--strict") == 0


_WATCH = """
import argparse, sys
from ttmem.commands import ps
parser = argparse.ArgumentParser()
ps.prepare(parser)
sys.exit(ps.run(parser.parse_args(sys.argv[1:])))
"""


def watch(path: Path, *arguments: str, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WATCH, "--socket", str(path), "--watch", "0.05", *arguments]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)


def read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 65_536)
    return seen


def test_a_watch_waits_for_the_server_redraws_in_place_and_gives_the_cursor_back(
    tmp_path: Path,
) -> None:
    terminal, inside = pty.openpty()
    watching = watch(tmp_path / "s", output=inside)
    os.close(inside)
    seen = read_until(terminal, b"trying again; Ctrl-C ends")
    assert b"no server at" in seen
    with serving(tmp_path / "s"), reporting(tmp_path / "s", WEIGHTS):
        seen += read_until(terminal, b"64.0 MiB")
        watching.send_signal(signal.SIGINT)
        seen += read_until(terminal, b"\x1b[?25h")
    assert seen.startswith(b"\x1b[?25l")
    assert b"\x1b[H" in seen
    assert watching.wait(PATIENCE_S) == 0
    os.close(terminal)


def test_a_watch_for_programs_is_one_document_per_line(path: Path) -> None:
    with reporting(path, WEIGHTS):
        watching = watch(path, "--json", output=subprocess.PIPE)
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        watching.communicate()
    assert {json.loads(line)["schema"] for line in lines} == {"ttmem.snapshot/1"}
    assert watching.returncode == 0


def test_the_commands_import_neither_numpy_nor_yaml_nor_the_native_part() -> None:
    script = (
        "import sys, ttmem.api, ttmem.commands.ps, ttmem.commands.dump;"
        "print([m for m in ('numpy', 'yaml', 'ttmem._native') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
