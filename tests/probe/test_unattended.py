"""A process with the library in it that no `ttmem run` has started: it speaks for itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.probe.watched import Watched

Watch = Callable[..., Watched]
TOO_MUCH = 2 << 40
FAILS = (
    "exec(compile('mesh = lib.mesh_open(1)\\n"
    f"for n in range(9): lib.buffer_allocate(lib.buffer_make(mesh, n, 1, {TOO_MUCH}, 64))', "
    "'model.py', 'exec'))"
)


def test_a_failed_allocation_is_reported_with_size_kind_line_and_the_runtimes_message(
    watch: Watch, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    watch(FAILS, TTMEM_LOG=str(log)).end()

    said = [line for line in log.read_text().splitlines() if "buffer of" in line or "says" in line]
    asked = rf"ttmem: pid \d+: no space for a buffer of {TOO_MUCH} B in L1, asked by model\.py:2 .*"
    assert re.fullmatch(asked, said[0])
    assert re.fullmatch(r"ttmem: pid \d+: the runtime says: .*Out of Memory.*", said[1])


def test_a_program_that_keeps_retrying_is_reported_five_times(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log"

    watch(FAILS, TTMEM_LOG=str(log)).end()

    assert log.read_text().count("no space for a buffer") == 5


def test_without_call_sites_no_line_is_named(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log"

    watch(FAILS, TTMEM_LOG=str(log), TTMEM_SITES="0").end()

    assert f"no space for a buffer of {TOO_MUCH} B in L1\n" in log.read_text()


def test_under_a_launcher_the_launcher_speaks(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "log"

    watch(FAILS, TTMEM_LOG=str(log), TTMEM_LAUNCHER="1").end()

    assert "no space" not in log.read_text()
