"""The live page in a real browser: its figures are those of `ttmem ps --json`, and it loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.server.harness import RunningServer
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed"),
]
HOSTILE = '/src/<img src=x onerror="document.title=1">/model.py:7 forward'
VIEWS = ("devices", "processes", "sites", "cores", "programs", "events", "doctor")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One p150-like device with two buffers, and nine idle ones."""
    running = RunningServer(tmp_path_factory.mktemp("page"), "--no-shm").wait_ready()
    try:
        with closing(AllocationClient(running.path)) as client:
            for number in range(10):
                client.declare_device(
                    DeviceDeclaration(
                        number,
                        unique_id=str(1000 + number),
                        board="p150",
                        grid=(11, 10),
                        dram_banks=8,
                        dram_bank_size=1 << 30,
                        l1_banks=110,
                        l1_bank_size=1 << 20,
                        l1_per_core=1_499_136,
                        cb_base=100_000,
                    )
                )
                client.report_allocation(number, 9, 4096, MemoryKind.DRAM)
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM, site=HOSTILE)
            client.report_allocation(
                0, 2, 110 << 10, MemoryKind.L1, address=1_000_000, reserved=110 << 10
            )
            running.sees(lambda seen: len(seen.devices) == 10 and seen.devices[0].l1_used > 0)
            yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def site(server: RunningServer) -> Iterator[WebSite]:
    with website("--socket", server.path) as running:
        yield running


@pytest.fixture(scope="module")
def browser(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Logged in by the printed link."""
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        running.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(running, "document.querySelectorAll('.card').length === 10")
        yield running


def wait(browser: Browser, condition: str) -> None:
    """Until it holds; a page that never gets there is shown by the failure."""
    done = browser.run(
        f"""new Promise((resolve) => {{
            const until = Date.now() + 60_000;
            const look = () => ({condition}) ? resolve(true)
                : Date.now() > until ? resolve(false) : setTimeout(look, 20);
            look();
        }})"""
    )
    assert done, browser.run("document.body.innerText")


def show(browser: Browser, view: str, condition: str) -> str:
    browser.run(f"void (location.hash = '#/{view}')")
    wait(browser, condition)
    text: str = browser.run("document.getElementById('view').innerText")
    return text


def test_the_figures_are_those_of_the_snapshot(server: RunningServer, browser: Browser) -> None:
    show(browser, "devices", "document.querySelectorAll('.card').length === 10")

    for device in server.picture().devices:
        told = browser.run(
            f"[...document.querySelectorAll('[data-device=\"{device.unique_id}\"] .figure span[title]')]"
            ".map((one) => one.title.split(' of ')[0].replaceAll(',', ''))"
        )
        assert list(map(int, told))[:2] == [device.memory.dram.held, device.l1_used]


@pytest.mark.parametrize(
    ("view", "shows"),
    [
        ("device/1000", ["3.0 MiB", "8.0 GiB", "LARGEST FREE BLOCK"]),
        ("processes", ["3.0 MiB", "DRAM"]),
        ("sites", ["3.0 MiB", "model.py:7 forward"]),
        ("cores", ["Core 0,0", "between circular buffers"]),
        ("programs", ["dispatches"]),
        ("events", ["ALLOC", "0xf4240"]),
        ("doctor", ["INFO"]),
    ],
)
def test_every_view_has_its_own_address(browser: Browser, view: str, shows: list[str]) -> None:
    wanted = shows[0].lower()

    text = show(
        browser,
        view,
        f"document.getElementById('view').innerText.toLowerCase().includes({wanted!r})",
    )

    assert [one for one in shows if one.lower() not in text.lower()] == []


def test_text_of_others_is_only_text(browser: Browser) -> None:
    show(browser, "sites", "document.getElementById('view').innerText.includes('forward')")

    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title").startswith("ttmem")


def test_a_search_narrows_a_table_and_keeps_the_focus(browser: Browser) -> None:
    show(browser, "sites", "document.querySelectorAll('tbody tr').length > 1")

    browser.run("document.getElementById('search').focus()")
    for letter in "forward":
        browser.key(letter)

    wait(browser, "document.querySelectorAll('tbody tr').length === 1")
    assert browser.run("document.activeElement.id") == "search"


def test_digits_choose_a_view(browser: Browser) -> None:
    show(browser, "devices", "document.querySelector('.card') !== null")

    browser.key("2")

    wait(browser, "location.hash === '#/processes'")


def test_the_token_is_neither_in_the_address_nor_readable(site: WebSite, browser: Browser) -> None:
    assert site.token not in browser.run("location.href + document.cookie")


def test_it_fits_a_phone(browser: Browser) -> None:
    browser.resize(390, 844, phone=True)
    try:
        for view in VIEWS:
            show(browser, view, "document.getElementById('view').children.length > 0")
            assert browser.run("document.documentElement.scrollWidth") <= 390, view
    finally:
        browser.resize(1280, 900)


def test_nothing_comes_from_elsewhere_and_nothing_is_complained_about(
    site: WebSite, browser: Browser
) -> None:
    own = f"asked for http://127.0.0.1:{site.port}/"

    assert [one for one in browser.problems() if not one.startswith(own)] == []


def test_pictures_can_be_taken_in_both_schemes(browser: Browser, tmp_path: Path) -> None:
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        show(browser, "devices", "document.querySelector('.card') !== null")
        browser.picture(tmp_path / f"{scheme}.png")

    light, dark = (tmp_path / f"{scheme}.png" for scheme in ("light", "dark"))
    assert light.read_bytes() != dark.read_bytes()
