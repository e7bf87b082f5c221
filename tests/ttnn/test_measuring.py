"""`ttmem.watch` and the pytest plugin beside the real runtime; the runtime's own memory view is the truth."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import Machine

ROOT = Path(__file__).parents[2]
# Pure Python, so that the interpreter of ttnn can use those of this one.
PYTEST = (
    "pytest",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "xdist",
    "execnet",
)

HELPERS = """\
import ttnn

L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG


def tensor(device, where, rows=1024):
    return ttnn.empty((1, 1, rows, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, where)


def view(device, kind):
    found = ttnn.get_memory_view(device, kind)
    return found.total_bytes_allocated_per_bank * found.num_banks
"""

BLOCKS = """\
import gc, itertools, json, sys
import ttnn, ttmem
from helpers import *

before = [ttmem.memory_allocated(0), ttmem.max_memory_allocated(0)]
device = ttnn.open_device(device_id=0)
refused = []
for ask, nowhere in itertools.product((ttmem.memory_allocated, ttmem.max_memory_allocated), (7, -1)):
    try:
        ask(nowhere)
    except ttmem.TtmemError as problem:
        refused.append(str(problem))
big = tensor(device, DRAM, 8192)
highest = view(device, ttnn.BufferType.DRAM)
del big
gc.collect()
weights = tensor(device, DRAM)
now = view(device, ttnn.BufferType.DRAM)
held = [ttmem.memory_allocated(device, "DRAM"), now, ttmem.max_memory_allocated(device), highest]
ttmem.reset_peak()
reset = [ttmem.max_memory_allocated(0), held[1]]
kept = []
with ttmem.watch() as w:
    a = tensor(device, L1)
    b = ttnn.add(a, a, memory_config=L1)
    most = view(device, ttnn.BufferType.L1)
    del a, b
    kept.append(tensor(device, DRAM))
    most_dram = view(device, ttnn.BufferType.DRAM)
with ttmem.watch() as quiet:
    ttnn.add(weights, weights)
print(json.dumps({
    "before": before, "refused": refused, "held": held, "reset": reset, "why": w.why,
    "l1": [w.peak.l1, most], "dram": [w.peak.dram, most_dram],
    "used": [w.peak.l1_used, w.peak.l1 + w.peak.l1_small + w.peak.cb],
    "leaked": [[one.op, one.bytes, one.site] for one in w.leaked],
    "by": [[one.kind, one.op, one.number, one.bytes] for one in w.by("op")],
    "quiet": [len(quiet.leaked), quiet.peak.l1],
    "page": w._repr_html_(),
}))
"""

TESTS = """\
import subprocess, sys
import pytest, ttnn
from helpers import *


@pytest.fixture(scope="module")
def device():
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


@pytest.fixture(scope="module")
def weights(device):
    return tensor(device, DRAM, 4096)


kept = {}


def test_clean(device, weights, record_property):
    a = tensor(device, L1)
    b = ttnn.add(a, a, memory_config=L1)
    record_property("l1", view(device, ttnn.BufferType.L1))
    record_property("dram", view(device, ttnn.BufferType.DRAM))


@pytest.mark.ttmem(l1="4 MiB")
def test_too_much(device):
    a = tensor(device, L1)
    b = ttnn.add(a, a, memory_config=L1)


def test_cache(device):
    kept.setdefault("first", tensor(device, DRAM))


def test_leak(device):
    kept[len(kept)] = tensor(device, DRAM)


@pytest.mark.ttmem(dram="1 MiB")
def test_child():
    code = "import ttnn; from helpers import *; t = tensor(ttnn.open_device(device_id=0), DRAM)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.fixture
def there(machine: Callable[[str], Machine], tmp_path: Path) -> Machine:
    found = machine("p150")
    (found.folder / "helpers.py").write_text(HELPERS)
    (found.folder / "test_it.py").write_text(TESTS)
    (found.folder / "blocks.py").write_text(BLOCKS)
    packages = found.folder / "packages"
    packages.mkdir()
    for name in PYTEST:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (packages / source.name).symlink_to(source)
    return found


def variables(there: Machine) -> dict[str, str]:
    paths = f"{ROOT / 'src'}:{there.folder / 'packages'}"
    region = {"TTMEM_REGION_DIR": str(there.folder), "PYTHONPATH": paths, "COLUMNS": "160"}
    return there.variables(there.folder) | region | {"PYTHONDONTWRITEBYTECODE": "1"}


def run_pytest(
    there: Machine, environment: Environment, *options: str
) -> subprocess.CompletedProcess[str]:
    plugin = () if (ROOT / "src" / "ttmem.egg-info").exists() else ("-p", "ttmem.pytest_plugin")
    command = [str(environment.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    return subprocess.run(
        [*command, "test_it.py", *options],
        cwd=there.folder,
        env=variables(there),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_block_has_the_peaks_that_the_runtime_had(
    there: Machine, environment: Environment
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ttmem",
            "run",
            "--quiet",
            "--",
            str(environment.python),
            "blocks.py",
        ],
        cwd=there.folder,
        env=variables(there),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(line)

    held, seen, peak, highest = found["held"]
    assert found["before"] == [0, 0]
    assert [text.split(";")[0] for text in found["refused"]] == [
        f"no device has the logical id {number}" for number in (7, -1, 7, -1)
    ]
    assert (held, peak) == (seen, highest)
    assert found["reset"][0] == found["reset"][1]
    assert found["why"] is None
    for name in ("l1", "dram", "used"):
        assert found[name][0] == found[name][1]
    ((op, size, site),) = found["leaked"]
    assert (op, size) == ("ttnn.empty", 1024 * 1024 * 2)
    assert "helpers.py:7 tensor" in site
    assert {(kind, op, number) for kind, op, number, _ in found["by"]} == {
        ("L1", "ttnn.empty", 1),
        ("L1", "ttnn.add", 1),
        ("CB", None, 1),
    }
    assert found["quiet"] == [0, 0]
    assert "<td>ttnn.add</td>" in found["page"]


def test_limits_leaks_children_and_junit(there: Machine, environment: Environment) -> None:
    done = run_pytest(
        there, environment, "--ttmem", "--ttmem-default", "leaks=0", "--ttmem-record", "kept",
        "--junitxml", "junit.xml",
    )  # fmt: skip

    told = done.stdout
    assert "ttmem: pytest starts again, under the probe" in done.stderr
    assert "4 failed, 1 passed" in told
    assert "test_too_much - Failed: ttmem: l1: the peak was 4.3 MiB, 4.0 MiB are allowed" in told
    assert "test_leak - Failed: ttmem: leaks: 2.0 MiB were not freed, 0 B are allowed" in told
    assert "test_child - Failed: ttmem: dram: the peak was" in told
    assert "2.0 MiB  DRAM      ttnn.empty" in told
    assert len(list((there.folder / "kept").glob("*.ttmem"))) == 4
    cases = ElementTree.parse(there.folder / "junit.xml").iter("testcase")
    clean = next(case for case in cases if case.get("name") == "test_clean")
    figures = {entry.get("name"): entry.get("value") for entry in clean.iter("property")}
    assert (figures["ttmem.l1"], figures["ttmem.dram"]) == (figures["l1"], figures["dram"])


def test_a_loop_tells_a_cache_from_a_leak(there: Machine, environment: Environment) -> None:
    done = run_pytest(
        there, environment, "--ttmem-loop", "3", "--ttmem-default", "leaks=0", "-k", "cache or leak"
    )

    assert "1 failed, 1 passed" in done.stdout
    assert "test_leak - Failed: ttmem: leaks: 4.0 MiB were not freed" in done.stdout


def test_workers_of_xdist_write_a_baseline_that_a_later_run_is_compared_with(
    there: Machine, environment: Environment
) -> None:
    file = there.folder / "base.json"
    chosen = ("--ttmem-baseline", "base.json", "-k", "clean or cache")

    made = run_pytest(
        there, environment, *chosen, "--ttmem-update-baseline", "-p", "xdist.plugin", "-n", "2"
    )
    same = run_pytest(there, environment, *chosen, "-p", "xdist.plugin", "-n", "2")
    baseline = json.loads(file.read_text())
    baseline["tests"]["test_it.py::test_clean"]["l1"] -= 110 * 4096
    baseline["tests"]["test_it.py::test_cache"]["board"] = "1 x n150, 8x7"
    file.write_text(json.dumps(baseline))
    more = run_pytest(there, environment, *chosen, "--ttmem-fail-on-increase", "2%")

    assert "has the peaks of 2 tests" in made.stdout
    assert same.returncode == 0, same.stdout
    assert "test_clean - Failed: ttmem: l1: the peak was 4.3 MiB (+" in more.stdout
    assert (
        "not compared: test_it.py::test_cache: its baseline was measured on 1 x n150" in more.stdout
    )
