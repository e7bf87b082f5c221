"""Regions that only their owner may read are mentioned wherever a number lacks their contents."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.doctor.hosts import write_probe_region
from tests.other_user import OTHER, as_plain_user, give_away, needs_root, plain_python
from tests.sources.region_writer import Slot, Written

pytestmark = needs_root
NO_PROCESS = (1 << 22) - 1
COUNTERS = f"3 regions of user {OTHER} cannot be read (tt_device_*_memory)"
PROBES = f"2 regions of user {OTHER} cannot be read (ttmem_*)"


@pytest.fixture
def closed(tmp_path: Path) -> str:
    """A folder in which nobody but us may read anything."""
    made = [Written(number, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]) for number in (1, 2, 3)]
    paths = [
        *(each.write(tmp_path) for each in made),
        *(write_probe_region(tmp_path, NO_PROCESS - n, ticks=n + 1) for n in range(2)),
    ]
    give_away(*paths)
    return str(tmp_path)


@pytest.mark.parametrize("verb", [("ps",), ("ps", "--by", "site"), ("dump",)])
def test_a_table_tells_of_closed_regions_in_one_line_for_each_user(
    closed: str, verb: tuple[str, ...]
) -> None:
    said = " ".join(as_plain_user(*verb, "--shm", closed).stdout.split())

    assert COUNTERS in said
    assert PROBES in said


@pytest.mark.parametrize("verb", [("ps",), ("ps", "--by", "site"), ("dump",)])
def test_json_tells_of_closed_regions(closed: str, verb: tuple[str, ...]) -> None:
    document = json.loads(as_plain_user(*verb, "--json", "--shm", closed).stdout)

    assert [remark["kind"] for remark in document["remarks"]] == ["other_user", "other_user_probe"]


def test_a_leak_check_that_may_read_nothing_does_not_pass(closed: str) -> None:
    done = as_plain_user("dump", "--exit-code", "--shm", closed)

    assert done.returncode == 1
    assert "nothing is allocated, as far as you may read" in done.stdout
    assert "it is unknown whether anything is allocated" in done.stderr


def test_a_leak_check_of_ones_own_regions_passes_beside_closed_ones(
    closed: str, tmp_path: Path
) -> None:
    Written(7).write(tmp_path)

    done = as_plain_user("dump", "--exit-code", "--shm", closed)

    assert (done.returncode, done.stderr) == (0, "")
    assert COUNTERS in " ".join(done.stdout.split())


def test_regions_that_are_there_are_not_denied(closed: str) -> None:
    said = " ".join(as_plain_user("ps", "--shm", closed).stdout.split())

    assert "no process publishes counters that you may read" in said
    assert "no process that you may see uses a device" in said


def test_what_the_dump_may_not_read_of_ended_processes_is_its_own_remark(closed: str) -> None:
    """A server knows the live ones only; the regions of the ended are read by the dump itself."""
    found = (
        "from ttmem.feeds.ended import never_freed\nprint(never_freed().snapshot.remarks[0].text)"
    )

    assert PROBES in plain_python(found, TTMEM_SHM=closed).stdout


def test_doctor_names_the_user_whose_probe_regions_are_closed(closed: str) -> None:
    done = as_plain_user("doctor", "--json", "--shm", closed)

    findings = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
    assert findings["other_user"]["text"].startswith(COUNTERS)
    assert findings["other_user_probe"]["text"] == PROBES
    assert findings["other_user_probe"]["advice"] == "run ttmem as that user, or as root"
    assert "bad_probe_region" not in findings


def test_doctor_lists_closed_regions_by_user(closed: str) -> None:
    here = as_plain_user("doctor", "--shm", closed).stdout.split("FINDINGS")[0]

    assert COUNTERS in here
    assert PROBES in here
