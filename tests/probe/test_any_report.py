"""Whatever a region holds, the questions asked of it have answers, and never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from ttmem.analysis.failures import explain
from ttmem.probe.layout import HEADER_SIZE
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion
from ttmem.sources.probe.report import ReportReader
from ttmem.views.analysis.failures import render_failure
from ttmem.views.summary import render_summary

SCRIPT = """
mesh = lib.mesh_open(3)
kept = [buffer(mesh, i, i % 5, 4096, 512) for i in range(40)]
buffer(mesh, 99, 1, 2 << 40)
lib.buffer_free(kept[0]); lib.mesh_close(mesh); say('done')
"""


def everything(path: Path) -> str:
    with closing(ProbeRegion(str(path))) as region:
        reading = ReportReader(region)
        told = [
            render_failure(1, explain(failure), width=80, color=False)
            for failure in reading.failures(0)
        ]
        return "\n".join([*told, render_summary([reading.report()], width=80, color=False)])


def test_a_region_of_damaged_bytes_is_read_or_refused(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    process = watch(SCRIPT, TTMEM_EVENTS="1024", TTMEM_LIVE="256")
    process.wait_for("done")
    whole = Path(process.region().path).read_bytes()
    assert "no space for" in everything(Path(process.region().path))
    used = [at for at in range(0, len(whole), 8) if any(whole[at : at + 8])]
    random = Random(7)

    damaged = tmp_path / "damaged"
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(random.choice((1, 8, 200))):
            at = random.choice(used) if random.random() < 0.8 else random.randrange(HEADER_SIZE)
            data[at : at + 8] = random.randbytes(8)
        damaged.write_bytes(data)
        with suppress(BadRegion):
            assert all(line.isprintable() for line in everything(damaged).splitlines())
