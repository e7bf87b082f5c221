"""The page beside real ttnn: its figures are those of ps and of the runtime, live and in a recording."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import finish
from tests.ttnn.probed import Machines, by_runtime, start
from tests.web.browser import Browser, found
from tests.web.site import website
from tests.web.test_live_page import wait
from tests.web.test_recording_page import drawn, figures, go
from ttmem.feeds import LocalFeed
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import described

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytestmark = pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed")
MORE = """
kept = [
    ttnn.zeros((64, 32 * (1 + number)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
    for number in range(9)
]
kept += [ttnn.relu(kept[-1]), ttnn.zeros((512, 512), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)]
None
"""


def shown(*where: object) -> dict[str, Any]:
    code, out, error = finish("ps", "--json", *where)
    assert code == 0, error
    document: dict[str, Any] = json.loads(out)
    return document


def test_figures_in_the_page_are_those_of_ps_and_of_the_runtime(
    machine: Machines, tmp_path: Path
) -> None:
    there = machine("p150x4")
    session = start(there)
    file = tmp_path / "run.ttmem"
    with closing(LocalFeed(str(there.folder))) as feed:
        recorder = feed.record(FileSink(str(file)), described())
        feed.poll()
        before = recorder.position
        session.run(MORE)
        feed.poll()
        recorder.close()
    live = figures(shown("--shm", there.folder))
    runtime = by_runtime(session.views())

    with website(str(file), "--shm", str(there.folder)) as site, Browser(tmp_path) as browser:
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(browser, "document.querySelectorAll('.card').length === 4")
        for at in (f"#{before}", "peak:l1_used", "end"):
            go(browser, f"#/devices?recording=file&at={at.replace('#', '%23')}")
            assert drawn(browser) == figures(shown(file, "--at", at)), at
        go(browser, "#/devices", "document.getElementById('state').textContent.startsWith('live')")
        wait(browser, "document.querySelectorAll('.card').length === 4")
        assert drawn(browser) == live

    assert {amounts[0] for amounts in live.values()} == {runtime["dram"]}
    buffers = runtime["l1"] + runtime["l1_small"]
    assert all(amounts[1] >= buffers > 0 for amounts in live.values())
