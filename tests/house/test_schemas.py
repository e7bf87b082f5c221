"""The JSON Schemas that are installed with ttmem describe what its commands print, key by key."""

from __future__ import annotations

import copy
import importlib.resources
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.runs import Run
from tests.clean.conftest import dead as dead
from tests.doctor.hosts import write_probe_region
from tests.exporters.history import record
from tests.fleet.answers import answering, fleet_of_three
from tests.other_user import sleepers
from tests.own_process import finish, printed, start
from tests.patience import PATIENCE_S, wait_until
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.test_ps_failures import TOO_MUCH
from tests.probe.watched import Watched
from tests.sources.region_writer import N300_LOCAL, N300_REMOTE, Slot, Written, add_card, add_n300
from tests.views.servers import reporting, serving
from tests.views.test_explain_command import LOG
from ttmem.events import Op
from ttmem.wire.historical import Head

pytestmark = pytest.mark.slow

NAMES = (
    "snapshot",
    "groups",
    "dump",
    "doctor",
    "clean",
    "peak",
    "leaks",
    "diff",
    "size",
    "explain",
    "info",
    "fleet",
    "fleet-host",
)
ALL_DETAILS = ("--detail", "programs,buffers,cores,events,history")
Watch = Callable[..., Watched]
REPOSITORY = Path(__file__).parents[2]


def schema(name: str) -> dict[str, Any]:
    file = importlib.resources.files("ttmem") / "schemas" / f"{name}-1.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def strict(part: Any) -> Any:
    """The same schema without the freedom to add keys, which programs must allow."""
    if isinstance(part, list):
        return [strict(each) for each in part]
    if not isinstance(part, dict):
        return part
    closed = {key: strict(value) for key, value in part.items()}
    if "properties" in part:
        closed["additionalProperties"] = False
    return closed


def problems(document: dict[str, Any]) -> list[str]:
    """Where the document is not what the schema that it names says."""
    import jsonschema

    name, _, version = document["schema"].removeprefix("ttmem.").partition("/")
    assert (name in NAMES, version) == (True, "1")
    validator = jsonschema.Draft202012Validator(strict(schema(name)))
    return [f"{each.json_path}: {each.message:.300}" for each in validator.iter_errors(document)]


@contextmanager
def simulated(socket: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A workload of the model that runs until the block ends."""
    workload = start("simulate", *arguments, "--steps", "0", "--socket", socket)
    try:
        yield workload
    finally:
        workload.terminate()
        workload.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_what_two_schemas_define_under_one_name_is_the_same() -> None:
    defined: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        for key, definition in schema(name).get("$defs", {}).items():
            assert defined.setdefault(key, definition) == definition, key


def test_what_a_simulated_workload_reports_is_as_the_schemas_say(tmp_path: Path) -> None:
    path = tmp_path / "s"
    unknown_free = Head(Op.FREE, 3, 0, 0, os.getpid(), 0x2000)
    weights = Head(Op.ALLOC, 3, 1 << 20, 0, os.getpid(), 0x1000)
    with serving(path, "--board", "n300"), reporting(path, weights, unknown_free):
        code, _, error = finish("simulate", "leak", "--steps", "3", "--rate", "0", "--socket", path)
        assert code == 0, error
        with simulated(path, "cnn", "--size", "small"):
            wanted = ("programs", "circular_buffers", "kernels", "l1_buffers", "cores", "history")

            def complete() -> bool:
                seen = printed("ps", "--socket", path, *ALL_DETAILS)
                return all(seen[key] for key in wanted) and any(seen["resident"].values())

            wait_until(complete)
            snapshot = printed("ps", "--socket", path, *ALL_DETAILS)
            groups = [printed("ps", "--socket", path, "--by", by) for by in ("site", "op", "pid")]
            dump = printed("dump", "--socket", path)

    assert problems(snapshot) == []
    assert [problems(each) for each in groups] == [[], [], []]
    assert problems(dump) == []
    assert any(device["anomalies"] for device in snapshot["devices"])
    assert snapshot["history"]


def test_what_counters_and_sensors_say_is_as_the_schemas_say(
    tmp_path: Path, dead: Callable[[], int]
) -> None:
    shm, sysfs = tmp_path / "shm", tmp_path / "sys"
    shm.mkdir()
    sysfs.mkdir()
    add_n300(sysfs)
    add_card(sysfs, 7, 0x41, tt_card_type="p150a", power1_input="501000000")
    with sleepers(1) as (owner,):
        slots = [Slot(owner.pid, (5000, 0, 0, 0, 64)), Slot(dead(), (1 << 20, 0, 0, 0, 0))]
        Written(N300_LOCAL, slots=slots).write(shm)
        Written(N300_REMOTE, logical_id=1).write(shm)
        where = ("--shm", str(shm))
        snapshot = printed("ps", *where, "--telemetry", "--sysfs", sysfs, "--detail", "history")
        groups = printed("ps", *where, "--by", "pid")
        dump = printed("dump", *where)

    assert problems(snapshot) == []
    assert problems(groups) == []
    assert problems(dump) == []
    assert (len(snapshot["cards"]), len(snapshot["left_behind"])) == (1, 1)


def test_what_the_probe_sees_is_as_the_schemas_say(watch: Watch, tmp_path: Path) -> None:
    ended = watch(
        "from ttmem import phase\n"
        "mesh = lib.mesh_open(1)\n"
        "with phase('load'): buffer(mesh, 1, 0, 4000)\n"
        "lib.mesh_close(mesh)"
    )
    ended.end()
    alive = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)\n"
        "program = lib.program_make(5, mesh, 4096, 2)\n"
        f"lib.buffer_allocate(lib.buffer_make(mesh, 8, 1, {TOO_MUCH}, 64))\n"
        "say('made'); input()"
    )
    alive.wait_for("made")
    where = ("--shm", str(tmp_path))

    snapshot = printed("ps", *where, *ALL_DETAILS)
    groups = [printed("ps", *where, "--by", by) for by in ("site", "phase")]
    dump = printed("dump", *where)

    assert problems(snapshot) == []
    assert [problems(each) for each in groups] == [[], []]
    assert problems(dump) == []
    assert dump["never_freed"]
    assert "ALLOCATION_FAILED" in {event["op"] for event in snapshot["events"]}


def test_what_doctor_and_clean_say_is_as_the_schemas_say(
    tmp_path: Path, dead: Callable[[], int]
) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    with sleepers(1) as (owner,):
        Written(N300_LOCAL, slots=[Slot(dead(), (4096, 0, 0, 0, 0))]).write(shm)
        Written(N300_REMOTE, slots=[Slot(owner.pid, (4096, 0, 0, 0, 0))]).write(shm)
        write_probe_region(shm, dead())
        (shm / "tt_device_9_memory").write_bytes(b"no region")
        where = ("--shm", str(shm))
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}

        doctor = printed("doctor", *where, "--socket", shm / "absent")
        plan = printed("clean", *where, "--force", **state)
        done = printed("clean", *where, "--force", "--yes", **state)
        undone = printed("clean", "--undo", done["backup"], **state)

    assert [problems(each) for each in (doctor, plan, done, undone)] == [[], [], [], []]
    assert (len(doctor["regions"]), len(doctor["probe_regions"])) == (2, 1)
    assert done["left_alone"]
    assert {step["kind"] for step in done["steps"]} >= {"remove_region", "remove_probe"}
    assert undone["files"]


def test_every_document_of_a_command_has_a_schema() -> None:
    """Except those that only ttmem itself reads."""
    own = {"ttmem.baseline/1", "ttmem.report/1"}
    sources = "".join(path.read_text() for path in (REPOSITORY / "src" / "ttmem").rglob("*.py"))

    printed_by_commands = set(re.findall(r'"(ttmem\.[a-z-]+/\d)"', sources)) - own

    assert printed_by_commands == {f"ttmem.{name}/1" for name in NAMES}


def test_a_key_that_the_schema_lacks_is_noticed(tmp_path: Path) -> None:
    Written(N300_LOCAL).write(tmp_path)
    snapshot = printed("ps", "--shm", str(tmp_path))
    longer, shorter = copy.deepcopy(snapshot), copy.deepcopy(snapshot)
    longer["devices"][0]["kernels"]["ring"]["colour"] = "red"
    del shorter["devices"][0]["kernels"]["ring"]["wraps"]

    assert problems(snapshot) == []
    (added,) = problems(longer)
    (removed,) = problems(shorter)
    assert added.startswith("$.devices[0].kernels.ring: ")
    assert "'wraps' is a required property" in removed


def test_what_questions_about_a_recording_answer_is_as_the_schemas_say(tmp_path: Path) -> None:
    paths = [tmp_path / "a.ttmem", tmp_path / "b.ttmem"]
    for size, path in enumerate(paths, 1):
        with Run(path) as run:
            run.circular(1, 4096, 0x20000)
            for _ in range(8):
                run.phase("step")
                run.alloc(size << 20)

    answers = [
        printed("peak", paths[0]),
        printed("leaks", paths[0]),
        printed("diff", *paths),
        printed("size", paths[0]),
        printed("info", paths[0]),
    ]

    assert [problems(each) for each in answers] == [[], [], [], [], []]
    assert answers[0]["peaks"]
    assert answers[1]["leaks"] == 1


def test_what_explain_says_is_as_its_schema_says(tmp_path: Path) -> None:
    log, recording = tmp_path / "log.txt", tmp_path / "run.ttmem"
    log.write_text(LOG)
    record(recording)

    of_a_log, of_a_recording = printed("explain", log), printed("explain", recording)
    described = printed("info", recording)

    assert [problems(each) for each in (of_a_log, of_a_recording, described)] == [[], [], []]
    assert described["processes"]
    assert {marker["kind"] for marker in described["markers"]} >= {"failure"}
    assert len(of_a_log["messages"]) == 2
    assert of_a_recording["failures"]


def test_what_a_prometheus_knows_is_as_the_schemas_say() -> None:
    with answering(fleet_of_three) as (url, _):
        fleet = printed("ps", "--prometheus", url)
        host = printed("ps", "--prometheus", url, "--host", "a")

    assert [problems(fleet), problems(host)] == [[], []]
    assert (len(fleet["hosts"]), len(host["processes"])) == (3, 1)
