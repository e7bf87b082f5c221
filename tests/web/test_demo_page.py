"""The page beside `ttmem demo`: its figures are those of the API at one instant, while three processes allocate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website
from tests.web.test_live_page import wait
from tests.web.test_recording_page import drawn, figures, go

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytestmark = pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed")
PAST = "/api/v1/recording/past"


def kept(site: WebSite) -> int:
    """Until when the past can be asked for; 0 before anything was kept."""
    until: int = site.ask(f"{PAST}/instant?at=end").document.get("time_ns", 0)
    return until


def test_figures_in_the_page_of_the_demo_are_those_of_the_api(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ttmem", "demo", "--seconds", "600"]
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=variables, stdout=quiet, stderr=quiet) as demo:
        try:
            server = wait_until(lambda: next(tmp_path.glob("ttmem-demo-*/*.sock"), None))
            with website("--socket", str(server)) as site, Browser(tmp_path) as browser:
                browser.ask(
                    "Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}"
                )
                wait(browser, "document.querySelectorAll('.card').length === 4")
                wait_until(lambda: len(site.ask("/api/v1/snapshot").document["processes"]) == 3)
                then = site.ask("/api/v1/snapshot").document["time_ns"]
                wait_until(lambda: kept(site) > then)
                answer = site.ask(f"{PAST}/snapshot?at=@{then}").document
                go(browser, f"#/devices?recording=past&at=@{then}")

                assert len(answer["processes"]) == 3
                assert drawn(browser) == figures(answer)
        finally:
            demo.terminate()
            demo.wait(30)
