"""`ttmem dump --exit-code` after processes that ran under the probe."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.probe.watched import Watched
from tests.sources.region_writer import Slot, Written
from tests.views.servers import serving
from ttmem.analysis.history import History
from ttmem.analysis.leaks import LeakVerdict, find_leaks
from ttmem.commands import dump, main
from ttmem.errors import BadInput
from ttmem.feeds import LocalFeed
from ttmem.recording import Recording
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.sources.probe.cleanup import compact

Watch = Callable[..., Watched]
LEAKS = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.mesh_close(mesh)"
FREES = "mesh = lib.mesh_open(1); lib.buffer_free(buffer(mesh, 1, 0, 4000)); lib.mesh_close(mesh)"


def exit_code(folder: Path, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    dump.prepare(parser)
    return dump.run(
        parser.parse_args(["--shm", str(folder), "--exit-code", "--strict", *arguments])
    )


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
        assert dump.run(parser.parse_args(["--exit-code", "--strict"])) == 1
        named = ["--exit-code", "--strict", "--socket", str(tmp_path / "s")]
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

    assert "there may be more that was never freed" in " ".join(capsys.readouterr().out.split())


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

    codes = [exit_code(tmp_path, "--pid", str(watched.process.pid)) for watched in (leaky, sound)]

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

    ((group,),) = [
        process["memory"] for process in json.loads(capsys.readouterr().out)["never_freed"]
    ]
    assert group["ended_ns"] >= group["largest"][0]["time_ns"]
    assert (group["command"], group["share"]) == (None, None)


LOOP = """
from ttmem import phase
mesh = lib.mesh_open(1)
weights = [buffer(mesh, 1000 + n, 0, 4000) for n in range(20)]
kept = []
for n in range(20):
    with phase("step"):
        lib.buffer_free(buffer(mesh, 100 + n, 0, 8000))
        {body}
lib.mesh_close(mesh)
"""


def growth_code(folder: Path, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    dump.prepare(parser)
    return dump.run(parser.parse_args(["--shm", str(folder), "--exit-code", *arguments]))


def test_a_healthy_program_that_keeps_its_weights_until_the_end_passes(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(LOOP.format(body="pass")).end()

    assert growth_code(tmp_path) == 0
    said = capsys.readouterr().out
    assert "NEVER FREED" in said
    assert "leak check (growth): passed" in said
    assert growth_code(tmp_path, "--strict") == 1


def test_what_every_iteration_keeps_fails_the_check_and_is_named(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(LOOP.format(body="kept.append(buffer(mesh, 2000 + n, 0, 6000))")).end()

    assert growth_code(tmp_path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "leak check (growth): 1 problem" in said
    assert "its low-water mark rose in 9 of the 9 iterations of the second half" in said
    assert growth_code(tmp_path, "--ignore-phase", "step") == 0
    assert growth_code(tmp_path, "--min-bytes", "1GiB") == 0


KEEPS = LOOP.format(body="kept.append(buffer(mesh, 2000 + n, 0, 6000))")
LONG = "[lib.buffer_free(buffer(mesh, 5000 + n, 0, 4000)) for n in range(200)]"


def test_a_leak_is_still_found_when_its_region_has_been_compacted(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(KEEPS).end()
    (path,) = tmp_path.glob("ttmem_*")

    assert compact(str(path))

    assert growth_code(tmp_path) == 1
    assert "rose in 9 of the 9" in " ".join(capsys.readouterr().out.split())


def test_weights_still_pass_when_the_region_has_been_compacted(
    watch: Watch, tmp_path: Path
) -> None:
    watch(LOOP.format(body="pass")).end()
    (path,) = tmp_path.glob("ttmem_*")

    assert compact(str(path))

    assert growth_code(tmp_path) == 0


def test_events_are_not_kept_for_a_process_that_freed_everything(
    watch: Watch, tmp_path: Path
) -> None:
    watch(f"mesh = lib.mesh_open(1); {LONG}; lib.mesh_close(mesh)").end()
    (path,) = tmp_path.glob("ttmem_*")

    assert compact(str(path))

    assert path.stat().st_size < 16 << 10
    assert growth_code(tmp_path) == 0


def test_memory_that_was_never_freed_and_cannot_be_judged_fails_the_check(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(KEEPS.replace("lib.mesh_close", f"{LONG}; lib.mesh_close"), TTMEM_EVENTS="64").end()

    assert growth_code(tmp_path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "leak check (growth): no verdict" in said
    assert "too few of its events are left to tell whether that is a leak" in said
    assert growth_code(tmp_path, "--min-bytes", "1GiB") == 0


def test_what_a_killed_process_left_fails_the_check(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); say('made'); input()")
    killed.wait_for("made")
    killed.process.kill()
    killed.process.wait()

    assert growth_code(tmp_path) == 1
    assert "(killed, or ended by _exit), and left" in capsys.readouterr().out


def test_a_baseline_allows_what_was_there_before_and_no_more(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(LEAKS).end()
    parser = argparse.ArgumentParser()
    dump.prepare(parser)
    dump.run(parser.parse_args(["--shm", str(tmp_path), "--json", "--top", "0"]))
    baseline = tmp_path / "baseline.json"
    baseline.write_text(capsys.readouterr().out)

    assert growth_code(tmp_path, "--baseline", str(baseline)) == 0
    watch(LEAKS).end()
    assert growth_code(tmp_path, "--baseline", str(baseline)) == 1
    assert "more of DRAM at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "is not JSON"),
        ('{"schema": "ttmem.snapshot/1"}', "is not a dump"),
        ('{"schema": "ttmem.dump/1", "devices": 3}', "is not a dump"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(
    text: str, said: str, watch: Watch, tmp_path: Path
) -> None:
    watch(LEAKS).end()
    (tmp_path / "baseline.json").write_text(text)

    with pytest.raises(BadInput, match=said):
        growth_code(tmp_path, "--baseline", str(tmp_path / "baseline.json"))


def test_a_running_process_is_judged_by_what_it_does_meanwhile(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = watch(
        "import itertools, time\n"
        "mesh = lib.mesh_open(1); say('open')\n"
        "for n in itertools.count():\n"
        " lib.buffer_free(buffer(mesh, 1, 0, 800)); buffer(mesh, 1000 + n, 0, 4000); time.sleep(0.002)"
    )
    endless.wait_for("open")

    pid = str(endless.process.pid)
    code = main(["leaks", "--pid", pid, "--duration", "1s", "--shm", str(tmp_path)])

    assert code == 1
    assert f"pid {pid}: 1 line leaks" in capsys.readouterr().out


STEADY_LEAK = (
    "for n in range(40): buffer(mesh, 9000 + n, 0, 4000); lib.churn(mesh, 20000 + 2 * n, 2)"
)


def test_a_process_that_ran_for_long_before_is_judged_by_what_it_does_meanwhile(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = watch(
        "import itertools, time\n"
        "mesh = lib.mesh_open(1); lib.churn(mesh, 100, 5000); say('open')\n"
        "for n in itertools.count():\n"
        " lib.buffer_free(buffer(mesh, 1, 0, 800)); buffer(mesh, 10000 + n, 0, 4000); time.sleep(0.002)",
        TTMEM_EVENTS="4096",
    )
    endless.wait_for("open")
    pid, file = str(endless.process.pid), str(tmp_path / "late.ttmem")

    codes = [
        main([verb, *where, "--pid", pid, "--duration", "1s", "--shm", str(tmp_path)])
        for verb, where in (("leaks", ()), ("record", (file,)))
    ]

    assert codes == [1, 0]
    assert main(["leaks", file]) == 1
    said = capsys.readouterr()
    assert said.out.count(f"pid {pid}: 1 line leaks") == 1
    assert "no verdict" not in said.out + said.err


def test_a_recording_that_begins_after_its_reader_has_lost_events_gets_a_verdict(
    watch: Watch, tmp_path: Path
) -> None:
    memory = ChunkMemory()
    with closing(LocalFeed(str(tmp_path))) as feed:
        feed.poll()
        process = watch(
            f"mesh = lib.mesh_open(1); lib.churn(mesh, 100, 500); say('lost'); input()\n"
            f"{STEADY_LEAK}\nsay('done'); input()",
            TTMEM_EVENTS="256",
        )
        process.wait_for("lost")
        lost = feed.read().losses.dropped_events
        recorder = feed.remember(memory)
        process.go_on()
        process.wait_for("done")
        feed.poll()
        recorder.close()

    history = History(Recording(MemorySource(memory)))

    assert lost > 0
    assert history.losses == ()
    assert len(find_leaks(history).of(LeakVerdict.LEAK)) == 1


def test_a_killed_process_that_counters_list_as_well_is_one_problem(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = watch("mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4000); say('made'); input()")
    killed.wait_for("made")
    killed.process.kill()
    killed.process.wait()
    Written(slots=[Slot(killed.process.pid, (4000, 0, 0, 0, 8000))]).write(tmp_path)

    assert growth_code(tmp_path) == 1

    said = " ".join(capsys.readouterr().out.split())
    assert "leak check (growth): 1 problem" in said
    assert (
        f"pid {killed.process.pid} ended without closing the device (killed, or ended by _exit), and left 4.0 KiB"
        in said
    )
    assert "died, and left" not in said
