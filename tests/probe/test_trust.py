"""A region of the probe is trusted only about processes of its owner."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.other_user import OTHER, give_away, needs_root
from tests.own_process import finish, printed
from tests.probe.watched import PRELUDE, Launcher, Watched
from ttmem.feeds import LocalFeed
from ttmem.probe import environment
from ttmem.sources.probe.ended import ended_processes, final_news
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, ForeignRegion, find_regions

Watch = Callable[..., Watched]
HOLDS = "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4000)"
BLOCK = 512 * 8
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child")
PID_AT, TICKS_AT = 24, 32
# Of the process itself: a copy of its region, of a process that never was, which another user made.
FORGE = f"""
import glob, pwd
{HOLDS}
folder, launcher = os.environ["TTMEM_REGION_DIR"], os.environ["TTMEM_LAUNCHER"]
(path,) = glob.glob(folder + "/ttmem_*_*")
data = bytearray(open(path, "rb").read())
data[{PID_AT}:{PID_AT + 4}] = (77).to_bytes(4, "little")
data[{TICKS_AT}:{TICKS_AT + 8}] = (1).to_bytes(8, "little")
open(folder + "/copy", "wb").write(data)
open(folder + "/none", "wb").close()
for name, goal in (("copy", "ttmem_77_1"), ("none", f"ttmem_no_room_{{launcher}}_78")):
    os.chown(f"{{folder}}/{{name}}", pwd.getpwnam({OTHER!r}).pw_uid, -1)
    os.rename(f"{{folder}}/{{name}}", f"{{folder}}/{{goal}}")
"""


def region_of(process: Watched) -> Path:
    (name,) = find_regions(str(process.folder))
    return Path(name.path)


def killed(process: Watched) -> Path:
    process.process.send_signal(signal.SIGKILL)
    process.process.wait()
    return region_of(process)


@needs_root
def test_a_region_of_another_user_than_its_live_process_counts_nowhere(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(HOLDS + "\nsay('made'); input()")
    process.wait_for("made")
    path = region_of(process)

    give_away(path)
    with closing(LocalFeed(str(tmp_path))) as feed:
        picture = feed.read()

    assert (picture.processes, picture.devices) == ((), ())
    (remark,) = picture.remarks
    assert remark.kind == "foreign_probe_region"
    assert f"belongs to user {OTHER}" in remark.text
    with pytest.raises(ForeignRegion):
        ProbeRegion(str(path))
    assert list(ended_processes(str(tmp_path))) == []


@needs_root
def test_a_forged_region_changes_nothing_of_what_a_process_holds(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(HOLDS + "\nsay('made'); input()")
    process.wait_for("made")
    path = region_of(process)
    forged = path.with_name(path.name[:-1])  # what the process maps begins with this name, too

    forged.write_bytes(path.read_bytes())
    give_away(forged)
    with closing(LocalFeed(str(tmp_path))) as feed:
        picture = feed.read()
        forged.unlink()
        afterwards = feed.read()

    for snapshot in (picture, afterwards):
        assert [device.memory.dram.held for device in snapshot.devices] == [BLOCK]
        assert [each.pid for each in snapshot.processes] == [process.process.pid]
    assert "foreign_probe_region" in [remark.kind for remark in picture.remarks]


@needs_root
def test_doctor_names_a_region_that_speaks_for_another_user_with_its_owner(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(HOLDS + "\nsay('made'); input()")
    process.wait_for("made")
    give_away(region_of(process))

    found = printed("doctor", "--shm", tmp_path)["findings"]

    (finding,) = [finding for finding in found if finding["kind"] == "foreign_probe_region"]
    assert f"belongs to user {OTHER}" in finding["text"]
    assert finding["pid"] == process.process.pid


@needs_root
def test_the_region_of_a_dead_process_tells_of_its_owner_whoever_has_the_pid_now(
    done: Watch, tmp_path: Path
) -> None:
    path = killed(done(HOLDS))
    data = bytearray(path.read_bytes())
    data[PID_AT : PID_AT + 4] = os.getpid().to_bytes(4, "little")
    path.write_bytes(data)
    give_away(path)

    (ended,) = ended_processes(str(tmp_path))
    words = final_news(str(path))

    assert words is not None
    assert [update.facts.user for update in (ended.news, words)] == [OTHER, OTHER]
    assert (words.facts.start_time_ns, words.facts.command) == (None, None)


@needs_root
def test_what_another_user_never_freed_is_shown_but_fails_no_leak_check(
    done: Watch, tmp_path: Path
) -> None:
    path = killed(done(HOLDS))
    check = ("dump", "--exit-code", "--shm", str(tmp_path))
    before = finish(*check)

    give_away(path)
    after = finish(*check)

    assert (before.returncode, after.returncode) == (1, 0)
    assert "NEVER FREED" in after.stdout
    assert f"belongs to user {OTHER}; --exit-code ignores it" in " ".join(after.stdout.split())


@needs_root
def test_nobody_else_adds_a_line_to_the_summary_of_a_run(launcher: Launcher) -> None:
    said = launcher.summary(FORGE)

    assert "4.0 KiB" in said
    assert (launcher.folder / "ttmem_77_1").exists()
    assert re.search(r"\bpids? 7[78]\b", said) is None


def test_a_region_with_a_second_name_is_refused(done: Watch, tmp_path: Path) -> None:
    path = killed(done(HOLDS))
    os.link(path, tmp_path / "second")

    with pytest.raises(BadRegion, match="2 names"):
        ProbeRegion(str(path))


def test_links_and_pipes_are_no_regions(done: Watch, tmp_path: Path) -> None:
    path = killed(done(HOLDS))
    link, pipe = tmp_path / "ttmem_5_5", tmp_path / "ttmem_6_6"
    link.symlink_to(path)
    os.mkfifo(pipe)

    assert [name.path for name in find_regions(str(tmp_path))] == [str(path)]
    for other in (link, pipe):
        with pytest.raises(BadRegion, match=r"Too many levels|not a plain file"):
            ProbeRegion(str(other))


def test_a_process_that_maps_a_longer_name_does_not_speak_for_a_shorter_one(watch: Watch) -> None:
    process = watch(HOLDS + "\nsay('made'); input()")
    process.wait_for("made")
    path = region_of(process)
    copy = path.with_name(path.name[:-1])

    copy.write_bytes(path.read_bytes())

    with closing(ProbeRegion(str(path))) as one, closing(ProbeRegion(str(copy))) as other:
        assert [one.process_alive(), other.process_alive()] == [True, False]


def in_container(library: Path, folder: Path, script: str) -> subprocess.Popen[str]:
    """A watched process that has pids of its own; skips where nobody may make such a place."""
    if subprocess.run([*CONTAINER, "true"], check=False).returncode:
        pytest.skip("no PID namespace can be made here")
    return subprocess.Popen(
        [*CONTAINER, sys.executable, "-c", PRELUDE + script, str(library)],
        env=environment({**os.environ, "TTMEM_REGION_DIR": str(folder)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@needs_root
def test_a_process_in_a_container_is_known_by_the_pid_that_it_has_here(
    runtime: Path, tmp_path: Path
) -> None:
    with in_container(runtime, tmp_path, HOLDS + "\nsay(os.getpid()); input()") as process:
        assert process.stdout is not None
        inside = int(process.stdout.readline())
        (name,) = find_regions(str(tmp_path))
        with closing(LocalFeed(str(tmp_path))) as feed:
            picture = feed.read()
        ended = list(ended_processes(str(tmp_path)))
        process.communicate("\n")
        after = list(ended_processes(str(tmp_path)))

    (known,) = picture.processes
    assert (name.pid, known.container_pid) == (inside, inside)
    assert known.pid not in (inside, process.pid)
    assert [device.memory.dram.held for device in picture.devices] == [BLOCK]
    assert (ended, len(after)) == ([], 1)


@needs_root
def test_a_process_in_a_container_does_not_speak_for_the_region_of_another_user(
    runtime: Path, tmp_path: Path
) -> None:
    with in_container(runtime, tmp_path, HOLDS + "\nsay('made'); input()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        (name,) = find_regions(str(tmp_path))
        give_away(Path(name.path))
        with closing(LocalFeed(str(tmp_path))) as feed:
            picture = feed.read()
        process.communicate("\n")

    assert picture.processes == ()
