"""`ttmem dump --exit-code` after processes that ran under the probe."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.probe.watched import Watched
from tests.views.servers import serving
from ttmem.commands import dump
from ttmem.errors import BadInput

Watch = Callable[..., Watched]
LEAKS = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.mesh_close(mesh)"
FREES = "mesh = lib.mesh_open(1); lib.buffer_free(buffer(mesh, 1, 0, 4000)); lib.mesh_close(mesh)"


def exit_code(folder: Path, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    dump.prepare(parser)
    return dump.run(parser.parse_args(["--shm", str(folder), "--exit-code", *arguments]))


def test_what_was_never_freed_fails_the_check(watch: Watch, tmp_path: Path) -> None:
    watch(LEAKS).end()

    assert exit_code(tmp_path) == 1


def test_a_server_that_the_environment_names_hides_no_leak(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(LEAKS).end()
    monkeypatch.setenv("TTMEM_SHM", str(tmp_path))
    monkeypatch.setenv("TTMEM_SOCKET", str(tmp_path / "s"))
    parser = argparse.ArgumentParser()
    dump.prepare(parser)

    with serving(tmp_path / "s"):
        assert dump.run(parser.parse_args(["--exit-code"])) == 1
        named = ["--exit-code", "--socket", str(tmp_path / "s")]
        assert dump.run(parser.parse_args(named)) == 0  # that server alone


def test_a_leak_fails_the_check_however_long_ago_its_device_was_closed(
    watch: Watch, tmp_path: Path
) -> None:
    later = "mesh = lib.mesh_open(1); lib.churn(mesh, 100, 1000); lib.mesh_close(mesh)"
    watch(f"{LEAKS}; {later}", TTMEM_EVENTS="64").end()

    assert exit_code(tmp_path) == 1


def test_leaks_that_the_table_had_to_forget_fail_the_check_and_are_said(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = "[lib.buffer_free(one) for one in [buffer(mesh, 100 + n, 0, 4000) for n in range(500)]]"
    script = f"{LEAKS}; mesh = lib.mesh_open(1); {many}; lib.mesh_close(mesh)"
    watch(script, TTMEM_EVENTS="64", TTMEM_LIVE="64").end()

    assert exit_code(tmp_path) == 1
    assert "1 more buffer was never freed" in capsys.readouterr().out


def test_leaks_that_had_no_room_in_the_table_are_said_to_be_possible(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = "made = [buffer(mesh, n, 0, 4000) for n in range(200)]"
    watch(f"mesh = lib.mesh_open(1); {many}; lib.mesh_close(mesh)", TTMEM_LIVE="64").end()

    exit_code(tmp_path)

    assert "more may never have been freed than is told" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_process_that_freed_all_passes_the_check(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(FREES).end()

    assert exit_code(tmp_path) == 0
    assert "nothing is allocated" in capsys.readouterr().out


def test_one_process_is_checked_whatever_ran_before(watch: Watch, tmp_path: Path) -> None:
    leaky, sound = watch(LEAKS), watch(FREES)
    leaky.end()
    sound.end()

    codes = [exit_code(tmp_path, "--pid", str(one.process.pid)) for one in (leaky, sound)]

    assert codes == [1, 0]


def test_a_process_that_nobody_knows_is_no_success(watch: Watch, tmp_path: Path) -> None:
    watch(FREES).end()

    with pytest.raises(BadInput, match="no process 1 has reported anything"):
        exit_code(tmp_path, "--pid", "1")


def test_json_tells_when_the_process_ended_and_no_share_of_other_runs(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(LEAKS).end()

    exit_code(tmp_path, "--json")

    ((group,),) = [one["memory"] for one in json.loads(capsys.readouterr().out)["never_freed"]]
    assert group["ended_ns"] >= group["largest"][0]["time_ns"]
    assert (group["command"], group["share"]) == (None, None)
