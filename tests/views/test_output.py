"""An answer that cannot be written is one sentence and no success."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_process import ran
from tests.sources.region_writer import Written
from ttmem.commands import main


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    """`ttmem LINE`, with the redirections in it."""
    command = f"{shlex.quote(sys.executable)} -m ttmem {line}"
    return ran(["sh", "-c", command])


@pytest.mark.parametrize("verb", ["ps", "ps --json", "ps --watch --json", "dump", "doctor"])
@pytest.mark.parametrize(
    ("redirection", "said"),
    [
        (">/dev/full", "ttmem: the answer could not be written: No space left on device\n"),
        (">&-", "ttmem: standard output is closed, so there is no place for an answer\n"),
    ],
)
def test_an_answer_that_cannot_be_written_is_an_error(
    tmp_path: Path, verb: str, redirection: str, said: str
) -> None:
    Written(7).write(tmp_path)

    done = in_shell(f"{verb} --shm {tmp_path} {redirection}")

    assert (done.returncode, done.stderr) == (1, said)


def test_an_error_does_not_go_to_standard_output_where_nobody_wants_it(tmp_path: Path) -> None:
    done = in_shell(f"ps --shm {tmp_path}/missing 2>&-")

    assert (done.returncode, done.stdout) == (2, "")


def test_a_command_runs_without_standard_output(tmp_path: Path) -> None:
    assert in_shell(f"run --quiet --shm {tmp_path} -- true >&-").returncode == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("pss", "there is no verb 'pss'; did you mean `ttmem ps`? `ttmem --help` lists them"),
        ("qqqqq", "there is no verb 'qqqqq'; `ttmem --help` lists them"),
    ],
)
def test_a_verb_that_does_not_exist_is_answered_with_one_that_does(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([given]) == 2
    assert capsys.readouterr().err == f"ttmem: {said}\n"
