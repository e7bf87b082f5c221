"""More buffers than a list has rows: sums are exact all the same, and a list that was cut says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.own_process import printed
from tests.server.harness import RunningServer
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website
from tests.web.test_live_page import show, wait
from ttmem.client import AllocationClient, MemoryKind
from ttmem.commands import main

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytestmark = pytest.mark.slow
SITES = ("embed.py:1 load", "model.py:2 forward", "cache.py:3 append")
EACH = 10_000  # buffers of a call site
SIZE = 1 << 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """30,000 buffers, from three call sites."""
    running = RunningServer(tmp_path_factory.mktemp("many"), "--no-shm").wait_ready()
    try:
        with closing(AllocationClient(running.path)) as client:
            for number in range(EACH * len(SITES)):
                site = SITES[number // EACH]
                client.report_allocation(0, number + 1, SIZE, MemoryKind.DRAM, site=site)
            whole = EACH * len(SITES) * SIZE
            running.sees(lambda seen: any(d.memory.dram.held == whole for d in seen.devices))
            yield running
    finally:
        running.stop()


@pytest.mark.parametrize("by", ["site", "op", "phase", "pid"])
def test_groups_are_those_of_ps(server: RunningServer, site: WebSite, by: str) -> None:
    expected = printed("ps", "--socket", server.path, "--by", by)

    answer = site.ask(f"/api/v1/snapshot?by={by}").document

    keys = ("by", "groups", "total")
    assert {key: answer[key] for key in keys} == {key: expected[key] for key in keys}
    assert answer["total"]["dram"] == len(SITES) * EACH * SIZE
    assert "buffers" not in answer


def test_a_list_that_was_cut_says_so(site: WebSite) -> None:
    whole = site.ask("/api/v1/snapshot?detail=buffers").document
    cut = site.ask("/api/v1/snapshot?detail=buffers,events&limit=20000").document

    assert len(whole["buffers"]) == len(SITES) * EACH
    assert "limited" not in whole
    assert len(cut["buffers"]) == 20_000
    assert cut["limited"] == ["buffers"]


@pytest.mark.parametrize("query", ["by=site&detail=buffers", "by=site&limit=5", "by=colour"])
def test_groups_are_of_everything_and_by_what_is_known(site: WebSite, query: str) -> None:
    answer = site.ask(f"/api/v1/snapshot?{query}")

    assert (answer.status, answer.document["error"].startswith("by ")) == (400, True)


def test_a_recording_has_groups_of_any_instant(tmp_path: Path) -> None:
    file = tmp_path / "cnn.ttmem"
    assert main(["simulate", "cnn", "--steps", "3", "--rate", "0", "-o", str(file)]) == 0
    expected = printed("ps", file, "--at", "peak:dram", "--by", "op")

    with website(str(file), "--shm", str(tmp_path)) as running:
        answer = running.ask("/api/v1/recording/file/snapshot?at=peak:dram&by=op").document

    assert (answer["groups"], answer["total"]) == (expected["groups"], expected["total"])


@pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed")
def test_the_page_shows_every_call_site_with_its_sum(site: WebSite, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(browser, "document.querySelectorAll('.card').length === 1")
        show(browser, "sites", "document.querySelectorAll('tbody tr').length > 0")
        rows = browser.run(
            "[...document.querySelectorAll('tbody tr')]"
            ".map((row) => [row.cells[0].innerText, row.cells[5].innerText, row.cells[6].innerText])"
        )

    assert sorted(rows, key=lambda row: SITES.index(row[2])) == [
        ["625.0 MiB", "10,000", name] for name in SITES
    ]


def test_a_large_answer_for_one_client_keeps_no_other_waiting(server: RunningServer) -> None:
    """The snapshot is read once; then only the document for the device is made."""
    with website("--socket", server.path, "--interval", "60") as running:
        size = len(running.ask("/api/v1/snapshot?detail=buffers").body)
        with ThreadPoolExecutor(1) as client:
            large = client.submit(running.ask, "/api/v1/snapshot?detail=buffers&device=0")
            meanwhile = 0
            while not large.done():
                assert running.ask("/healthz").status == 200
                meanwhile += not large.done()

    assert len(large.result().body) == size
    assert meanwhile > 2
