"""The live page in a real browser: its figures are those of `ttmem ps --json`, and it loads nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.server.harness import RunningServer, child
from tests.sources.region_writer import N300_LOCAL, N300_REMOTE, Written, add_n300
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website
from tests.web.test_browser import middle
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind
from ttmem.procfs import user_name

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
        ("cores/1003", ["Core 0,0", "0 · p150", "9 · p150"]),
        ("programs", ["dispatches"]),
        ("events", ["alloc", "0xf4240", "device"]),
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

    assert [expected for expected in shows if expected.lower() not in text.lower()] == []


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


def redrawn(browser: Browser) -> None:
    """Until the page has been drawn twice more."""
    for _ in range(2):
        before = browser.run("document.getElementById('state').textContent")
        wait(browser, f"document.getElementById('state').textContent !== {before!r}")


def test_a_new_snapshot_does_not_disturb_its_user(browser: Browser) -> None:
    browser.resize(390, 844, phone=True)
    try:
        show(browser, "processes", "document.querySelector('th')?.textContent === 'command'")
        browser.run("void (document.querySelector('.scroll').scrollLeft = 50)")
        browser.run("void getSelection().selectAllChildren(document.querySelector('tbody td'))")
        selected = browser.run("String(getSelection())")
        redrawn(browser)
        assert selected
        assert browser.run("String(getSelection())") == selected
        assert browser.run("document.querySelector('.scroll').scrollLeft") == 50
    finally:
        browser.resize(1280, 900)

    # and a click counts, however long the button is held
    show(browser, "devices", "document.querySelectorAll('.card').length === 10")
    x, y = browser.run(
        "(() => { const { x, y } = document.querySelector('.card canvas').getBoundingClientRect();"
        " return [x + 9, y + 9]; })()"
    )
    browser.mouse("mousePressed", x, y)
    redrawn(browser)
    browser.mouse("mouseReleased", x, y)
    wait(browser, "location.hash === '#/device/1000'")


def test_arrow_keys_choose_a_core(browser: Browser) -> None:
    show(browser, "cores/1000", "document.querySelector('.grid') !== null")
    chosen = "document.querySelector('.grid [aria-pressed=true]')"
    browser.run("document.querySelector('.grid button').click()")
    browser.run(f"{chosen}.focus()")

    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp"):
        browser.key(key)

    assert "Core 1,0" in browser.run("document.getElementById('view').innerText")
    assert browser.run(f"document.activeElement === {chosen}")
    # and Tab leaves the grid at once
    assert browser.run("document.querySelectorAll('.grid [tabindex=\"0\"]').length") == 1


def test_the_token_is_neither_in_the_address_nor_readable(site: WebSite, browser: Browser) -> None:
    assert site.token not in browser.run("location.href + document.cookie")


def test_it_fits_a_phone(browser: Browser) -> None:
    browser.resize(390, 844, phone=True)
    try:
        for view in VIEWS:
            show(browser, view, "document.getElementById('view').children.length > 0")
            assert browser.run("document.documentElement.scrollWidth") <= 390, view
        # then: what a row is about can be read without scrolling
        show(browser, "processes", "document.querySelector('#view td') !== null")
        assert browser.run("document.querySelector('#view th').textContent") == "command"
    finally:
        browser.resize(1280, 900)


def test_nothing_comes_from_elsewhere_and_nothing_is_complained_about(
    site: WebSite, browser: Browser
) -> None:
    own = f"asked for http://127.0.0.1:{site.port}/"

    assert [problem for problem in browser.problems() if not problem.startswith(own)] == []


def test_pictures_can_be_taken_in_both_schemes(browser: Browser, tmp_path: Path) -> None:
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        show(browser, "devices", "document.querySelector('.card') !== null")
        browser.picture(tmp_path / f"{scheme}.png")

    light, dark = (tmp_path / f"{scheme}.png" for scheme in ("light", "dark"))
    assert light.read_bytes() != dark.read_bytes()


def test_sensors_have_values_reasons_and_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs = tmp_path / "sys"
    sysfs.mkdir()
    monkeypatch.setenv("TTMEM_SYSFS", str(sysfs))
    card = add_n300(sysfs)
    for logical_id, number in enumerate((N300_LOCAL, N300_REMOTE)):
        Written(number=number, logical_id=logical_id).write(tmp_path)
    options = ("--shm", str(tmp_path), "--telemetry", "--interval", "0.2")
    with website(*options) as site, Browser(tmp_path / "profile") as browser:
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(browser, "document.querySelectorAll('.card').length === 2")

        local = show(browser, f"device/{N300_LOCAL}", "document.querySelector('.sensor canvas')")
        remote = show(browser, f"device/{N300_REMOTE}", "document.querySelector('.sensor')")
        card.set(temp1_input="77700")
        show(browser, f"device/{N300_LOCAL}", "document.body.innerText.includes('77.7 °C')")

    assert "51.3 °C" in local
    assert "a remote chip: only the user-mode driver reaches it" in remote
    assert "°C" not in remote


AWAY = {"in the past": "devices?at=@{now}", "at another device": "cores/1001"}


@pytest.mark.parametrize("away", AWAY)
def test_charts_have_what_happened_while_the_page_looked_elsewhere(
    tmp_path: Path, away: str
) -> None:
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    try:
        with (
            closing(AllocationClient(server.path)) as client,
            website("--socket", server.path) as site,
            Browser(tmp_path / "profile") as browser,
        ):
            for number in range(2):
                client.declare_device(
                    DeviceDeclaration(number, unique_id=str(1000 + number), grid=(2, 2))
                )
                client.report_allocation(number, 1, 1 << 20, MemoryKind.DRAM)
            browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
            wait(browser, "document.querySelectorAll('.card').length === 2")
            wait_until(lambda: kept_since(site))
            show(browser, "device/1000", "document.querySelector('[data-chart=dram]')")

            show(
                browser, AWAY[away].format(now=kept_since(site)), "!location.hash.includes('1000')"
            )
            client.report_allocation(0, 2, 63 << 20, MemoryKind.DRAM)
            wait_until(lambda: recent_dram(site) == 64 << 20)
            client.report_deallocation(0, 2)
            wait_until(lambda: recent_dram(site) == 1 << 20)
            show(browser, "device/1000", "document.querySelector('[data-chart=dram]')")

            wait_until(lambda: "64.0 MiB" in "".join(told_by_the_chart(browser)))
            browser.mouse("mouseMoved", 5, 5)
            wait_until(lambda: cursor(browser) > 0.95)  # at the present
    finally:
        server.stop()


def kept_since(site: WebSite) -> int:
    past = site.ask("/api/v1/recording").document["recordings"][0]
    return past["started_ns"] or 0


def recent_dram(site: WebSite) -> int:
    devices = site.ask("/api/v1/history").document["devices"]
    held: int = devices["1000"]["dram"][-1] if "1000" in devices else 0
    return held


def told_by_the_chart(browser: Browser) -> list[str]:
    """What the chart of DRAM says all along its time."""
    texts = []
    for part in range(39, 0, -1):
        browser.mouse("mouseMoved", *middle(browser, "dram", part / 40))
        texts.append(browser.run("document.querySelector('.tooltip').innerText"))
    return texts


def cursor(browser: Browser) -> float:
    """Where its line is, as a share of the chart's width; 0 if there is none."""
    place: float = browser.run(
        """(() => {
            const { width, height } = document.querySelector("[data-chart=dram] canvas + canvas");
            const context = document.querySelector("[data-chart=dram] canvas + canvas").getContext("2d");
            const { data } = context.getImageData(0, height / 2, width, 1);
            const drawn = Array.from({ length: width }, (_, x) => data[4 * x + 3]);
            return Math.max(0, drawn.findIndex(Boolean)) / width;
        })()"""
    )
    return place


UNDER = "[...document.querySelectorAll('h2')].find((one) => one.textContent.startsWith({!r}))"


def test_a_device_lists_the_processes_that_hold_it(browser: Browser) -> None:
    heading = UNDER.format("Processes")

    show(browser, "device/1003", heading)
    rows = browser.run(
        f"[...{heading}.nextElementSibling.querySelectorAll('tbody tr')]"
        ".map((row) => [...row.cells].slice(0, 7).map((cell) => cell.innerText))"
    )

    user = user_name(os.geteuid())
    assert rows == [[str(os.getpid()), user, "4.0 KiB", "0 B", "0 B", "0 B", "0 B"]]


def test_growth_and_what_is_left_behind_have_amounts(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    code = """
    from ttmem.client import AllocationClient
    client = AllocationClient(sys.argv[1])
    client.report_allocation(0, 1, 5 << 20, site="a.py:1 f")
    client.report_allocation(0, 2, 7 << 20, site="b.py:2 g")
    assert client.flush(10)
    """
    try:
        with website("--socket", server.path) as site, Browser(tmp_path / "profile") as browser:
            with child(code, server.path) as process:
                link = f"http://127.0.0.1:{site.port}/#token={site.token}"
                browser.ask("Page.navigate", url=link)
                wait(browser, "document.querySelectorAll('.card').length === 1")
                wait(browser, "performance.getEntriesByName(location.origin +"
                     " '/api/v1/snapshot?by=site').some((one) => one.responseEnd)")  # fmt: skip
                process.kill()
                server.sees(lambda seen: bool(seen.left_behind))

            heading = UNDER.format("Left behind")
            show(browser, "processes", heading)
            left = browser.run(f"{heading}.nextElementSibling.innerText")
            show(browser, "sites", "document.querySelectorAll('tbody tr').length === 2")
            wait(browser, "document.querySelector('tbody td')?.innerText === '0 B'")
            grown = browser.run(
                "[...document.querySelectorAll('tbody tr')]"
                ".map((row) => [0, 1, 6].map((at) => row.cells[at].innerText))"
            )
    finally:
        server.stop()

    assert "12.0 MiB" in left
    assert sorted(grown) == [["0 B", "-5.0 MiB", "a.py:1 f"], ["0 B", "-7.0 MiB", "b.py:2 g"]]
