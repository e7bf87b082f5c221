"""A page that stays open while `ttmem web` is restarted, in a real browser, and two pages of one host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.answers import answering, fleet_of_three
from tests.patience import wait_until
from tests.sources.region_writer import Written
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed"),
]
SHOWN = "document.querySelectorAll('.card').length === 1"
SAYS = "document.getElementById('state')?.textContent.startsWith({!r})"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as running:
        yield running


@pytest.fixture
def shm(tmp_path: Path) -> str:
    """One device."""
    folder = tmp_path / "shm"
    folder.mkdir()
    Written().write(folder)
    return str(folder)


def wait(browser: Browser, condition: str) -> None:
    """Until it holds, even if the page is loaded anew meanwhile."""

    def holds() -> bool:
        try:
            return bool(browser.run(condition))
        except RuntimeError:  # between two documents
            return False

    wait_until(holds)


def link(site: WebSite, page: str = "") -> str:
    return f"http://127.0.0.1:{site.port}/{page}#token={site.token}"


def test_a_page_says_that_it_needs_a_new_link_and_takes_it(browser: Browser, shm: str) -> None:
    with website("--shm", shm) as old:
        browser.ask("Page.navigate", url=link(old))
        wait(browser, f"{SHOWN} && {SAYS.format('live')}")
        browser.run("void (location.hash = '#/processes')")
        wait(browser, "document.querySelector('table') !== null")
    wait(browser, SAYS.format("no connection"))

    with website("--shm", shm, "--http", f"127.0.0.1:{old.port}") as new:
        wait(browser, SAYS.format("a token is needed"))
        browser.run("globalThis.before = true")
        browser.ask("Page.navigate", url=link(new))  # the same document
        wait(browser, f"!globalThis.before && {SAYS.format('live')}")
        address = browser.run("location.href")

    assert address == f"http://127.0.0.1:{old.port}/#/processes"


def test_a_link_that_is_no_longer_valid_is_told_and_taken_out_of_the_address(
    browser: Browser, shm: str
) -> None:
    with website("--shm", shm) as site:
        browser.ask("Page.navigate", url=link(site))
        wait(browser, SHOWN)
        browser.run("globalThis.told = []")
        browser.run(
            "new MutationObserver(() => told.push(document.getElementById('state').textContent))"
            ".observe(document.getElementById('state'), { childList: true })"
        )
        browser.ask("Page.navigate", url=link(site._replace(token="0.1.old")))
        wait(browser, "told.some((one) => one.includes('no longer valid'))")

        assert browser.run("location.hash") == "#/devices"
        wait(browser, SAYS.format("live"))


def test_the_fleet_takes_a_new_link_too(browser: Browser) -> None:
    rows = "document.querySelectorAll('tbody tr').length === 3"
    with answering(fleet_of_three) as (url, _), website("--prometheus", url) as site:
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/fleet")
        wait(browser, SAYS.format("a token is needed"))
        browser.ask("Page.navigate", url=link(site, "fleet"))
        wait(browser, rows)

        assert "token" not in browser.run("location.href")


def test_two_pages_on_one_host_do_not_log_each_other_out(browser: Browser, shm: str) -> None:
    with website("--shm", shm) as one, website("--shm", shm) as other:
        for site in (one, other):
            browser.ask("Page.navigate", url=link(site))
            wait(browser, f"location.port === '{site.port}' && {SHOWN}")

        browser.ask("Page.navigate", url=f"http://127.0.0.1:{one.port}/#/devices")
        wait(browser, f"location.port === '{one.port}' && {SHOWN}")
