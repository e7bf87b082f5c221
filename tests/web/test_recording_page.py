"""Recordings and the past in a real browser: the page at any instant has the figures of `ttmem ps --json --at`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import printed
from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website
from tests.web.test_live_page import wait
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind
from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.events import Event, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed"),
]
FIGURES = (
    "Object.fromEntries([...document.querySelectorAll('[data-device]')].map((card) => [card.dataset.device,"
    " [...card.querySelectorAll('.figure span[title]')].map((one) =>"
    " Number(one.title.split(' of ')[0].replaceAll(',', '')))]))"
)
LABEL = "document.querySelector('#time output').textContent"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recorded") / "cnn.ttmem"
    assert main(["simulate", "cnn", "--steps", "12", "--rate", "40", "-o", str(made)]) == 0
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("live"), "--no-shm").wait_ready()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[AllocationClient]:
    with closing(AllocationClient(server.path)) as made:
        made.declare_device(
            DeviceDeclaration(
                0, unique_id="1000", board="p150", dram_banks=8, dram_bank_size=1 << 30
            )
        )
        made.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM)
        server.sees(lambda seen: any(device.memory.dram.held for device in seen.devices))
        yield made


@pytest.fixture(scope="module")
def site(server: RunningServer, client: AllocationClient, file: Path) -> Iterator[WebSite]:
    options = ("--socket", server.path, "--interval", "0.2", "--max-upload", "1MiB")
    with website(str(file), *options) as running:
        yield running


@pytest.fixture(scope="module")
def browser(site: WebSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        running.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(running, "document.querySelector('.card') !== null")
        yield running


def figures(snapshot: dict[str, Any]) -> dict[str, list[int]]:
    """DRAM and L1 of each device; the third is TRACE, where there is any."""
    return {
        device["unique_id"]: [device["memory"]["dram"]["held"], device["l1_used"]]
        for device in snapshot["devices"]
    }


def drawn(browser: Browser) -> dict[str, list[int]]:
    return {device: amounts[:2] for device, amounts in browser.run(FIGURES).items()}


def go(browser: Browser, hash: str, condition: str = "true") -> None:
    """Returns when the page shows what the address names; a hash that is there already is no change."""
    browser.run(
        f"void (document.getElementById('state').textContent = '', location.hash = {hash!r})"
    )
    wait(browser, f"document.getElementById('state').textContent !== '' && ({condition})")


def test_the_recording_of_the_command_line_is_opened_where_something_is_to_be_seen(
    browser: Browser, file: Path
) -> None:
    assert browser.run("location.hash") == "#/devices?recording=file"
    assert file.name in browser.run("document.getElementById('host').textContent")
    assert any(any(amounts) for amounts in drawn(browser).values())


@pytest.mark.parametrize("at", ["start", "0.05s", "#300", "peak:dram", "peak:l1_used", "end"])
def test_every_instant_has_the_figures_of_ps(browser: Browser, file: Path, at: str) -> None:
    go(browser, f"#/devices?recording=file&at={at.replace('#', '%23')}")

    assert drawn(browser) == figures(printed("ps", file, "--at", at))


def test_the_instant_is_kept_from_view_to_view(browser: Browser) -> None:
    go(browser, "#/devices?recording=file&at=0.05s", "document.querySelector('.card') !== null")

    for key, view in (("2", "processes"), ("3", "sites"), ("4", "cores"), ("1", "devices")):
        browser.key(key)
        wait(browser, f"location.hash === '#/{view}?recording=file&at=0.05s'")


def test_keys_step_from_event_to_event_and_to_markers(browser: Browser, file: Path) -> None:
    go(browser, "#/devices?recording=file&at=%23300", "document.querySelector('.card') !== null")

    browser.key(".")
    wait(browser, "location.hash.endsWith('at=%23301')")
    browser.key(",")
    wait(browser, "location.hash.endsWith('at=%23300')")
    expected = figures(printed("ps", file, "--at", "#300"))
    wait_until(lambda: drawn(browser) == expected)
    browser.key("<")
    wait(browser, "!location.hash.endsWith('at=%23300')")
    wait(browser, "document.querySelector('#time .said').textContent.startsWith('start')")


def test_it_plays_to_the_end_and_pauses(browser: Browser) -> None:
    go(browser, "#/devices?recording=file&at=0s")
    browser.run("void (document.querySelector('#time select').value = '2')")
    browser.run("void document.querySelector('#time select').dispatchEvent(new Event('change'))")

    browser.key(" ")

    wait(browser, "document.querySelector('#time button[aria-label=Pause]') !== null")
    wait(browser, "document.querySelector('#time button[aria-label=Play]') !== null")
    now, end = browser.run(
        "['aria-valuenow', 'aria-valuemax'].map((name) => document.querySelector('.track').getAttribute(name))"
    )
    assert now == end


def test_dragging_the_bar_changes_the_instant_and_the_address(browser: Browser, file: Path) -> None:
    go(browser, "#/devices?recording=file&at=end")
    box = browser.run(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.querySelector('.track').getBoundingClientRect())"
    )
    middle = box[1] + box[3] / 2

    browser.mouse("mousePressed", box[0] + box[2] * 0.9, middle)
    browser.mouse("mouseMoved", box[0] + box[2] * 0.5, middle, button="left", buttons=1)
    browser.mouse("mouseReleased", box[0] + box[2] * 0.5, middle)

    milliseconds = "parseFloat(location.hash.split('at=')[1]) * 1000"
    length = "Number(document.querySelector('.track').getAttribute('aria-valuemax'))"
    wait(browser, f"Math.abs({milliseconds} / {length} - 0.5) < 0.1")
    at = browser.run("location.hash.split('at=')[1]")
    expected = figures(printed("ps", file, "--at", at))
    wait_until(lambda: drawn(browser) == expected)


def test_charts_of_a_device_are_those_of_the_report_and_a_click_goes_there(
    browser: Browser,
) -> None:
    go(browser, "#/devices?recording=file&at=end")
    device = browser.run("document.querySelector('[data-device]').dataset.device")
    go(browser, f"#/device/{device}?recording=file&at=end", "document.querySelector('.chart')")

    assert browser.run("document.querySelectorAll('figure.timeline').length") >= 1
    box = browser.run(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.querySelector('.chart').getBoundingClientRect())"
    )
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        browser.mouse(kind, box[0] + box[2] / 2, box[1] + box[3] / 2)
    wait(browser, r"/at=\d+\.\d{9}s$/.test(location.hash)")


def test_a_file_can_be_dropped_and_closed(browser: Browser, site: WebSite, file: Path) -> None:
    go(browser, "#/devices", "document.getElementById('state').textContent.startsWith('live')")
    data = list(file.read_bytes())
    browser.run(f"void (window.dropped = new File([new Uint8Array({data})], 'mine.ttmem'))")

    browser.run(
        "(() => { const all = new DataTransfer(); all.items.add(window.dropped); window.dispatchEvent("
        "new DragEvent('drop', {dataTransfer: all, bubbles: true, cancelable: true})); })()"
    )

    wait(browser, r"/recording=[0-9a-f]{16}$/.test(location.hash)")
    wait(browser, "document.getElementById('host').textContent === 'mine.ttmem'")
    wait(browser, "document.querySelector('.card') !== null")
    browser.run("void [...document.querySelectorAll('#files button')].at(-1).click()")
    wait(browser, "location.hash === '#/devices'")
    listed = site.ask("/api/v1/recording").document["recordings"]
    assert [entry["kind"] for entry in listed] == ["file", "past"]


def test_a_file_that_is_too_large_is_not_sent(browser: Browser) -> None:
    go(browser, "#/devices", "document.getElementById('state').textContent.startsWith('live')")

    browser.run(
        "(() => { const all = new DataTransfer(); all.items.add(new File([new Uint8Array(2 << 20)], 'big.ttmem'));"
        " window.dispatchEvent(new DragEvent('drop', {dataTransfer: all, cancelable: true})); })()"
    )

    wait(
        browser, "document.getElementById('state').textContent.startsWith('big.ttmem has 2.0 MiB')"
    )


def test_the_live_page_goes_back_and_returns(
    browser: Browser, client: AllocationClient, server: RunningServer
) -> None:
    go(browser, "#/devices", "!document.getElementById('time').hidden")
    wait(browser, f"JSON.stringify({FIGURES}['1000'].slice(0, 1)) === '[{3 << 20}]'")
    wait_until(lambda: " ms" not in browser.run(LABEL))  # a second of past
    client.report_allocation(0, 2, 5 << 20, MemoryKind.DRAM)
    wait(browser, f"JSON.stringify({FIGURES}['1000'].slice(0, 1)) === '[{8 << 20}]'")

    browser.key("Home")

    wait(browser, r"/at=@\d+$/.test(location.hash)")
    wait(browser, f"JSON.stringify({FIGURES}['1000'].slice(0, 1)) === '[{3 << 20}]'")
    assert " ago" in browser.run(LABEL)
    browser.key("End")
    wait(browser, "location.hash === '#/devices'")
    wait(browser, f"JSON.stringify({FIGURES}['1000'].slice(0, 1)) === '[{8 << 20}]'")
    client.report_deallocation(0, 2)


def test_a_file_that_is_still_being_written_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "growing.ttmem"
    books = Books()
    process = books.open_process(ProcessFacts(pid=41, start_time_ns=41, user="u", command="model"))
    books.declare(process, DeviceDeclaration(0, unique_id="chip0", board="n300"))
    recorder = Recorder(books, FileSink(str(file)), described())

    def allocate(number: int) -> None:
        event = Event(Op.ALLOC, MemoryKind.DRAM, id=number, size=1 << 20, time=now_ns()).pack()
        before = file.stat().st_size
        books.apply(process, event, 0, len(event), now_ns())
        wait_until(lambda: is_written(before))

    def is_written(before: int) -> bool:
        recorder.tick(now_ns())
        return file.stat().st_size > before

    def shows(count: int) -> str:
        return f"({FIGURES}.chip0 ?? [])[0] === {count << 20}"

    allocate(1)
    options = ("--shm", str(tmp_path))
    with website(str(file), *options) as site, Browser(tmp_path / "profile") as browser:
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(browser, shows(1))
        allocate(2)
        wait(browser, shows(2))
    recorder.close()


def test_a_galaxy_of_32_chips_fits_a_phone(tmp_path: Path) -> None:
    file = tmp_path / "galaxy.ttmem"
    assert main(["simulate", "galaxy", "--steps", "2", "--rate", "0", "-o", str(file)]) == 0
    options = ("--shm", str(tmp_path))
    with website(str(file), *options) as site, Browser(tmp_path / "profile") as browser:
        browser.resize(390, 844, phone=True)
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
        wait(browser, "document.querySelectorAll('.card').length === 32")
        go(browser, "#/devices?recording=file&at=peak:dram")
        amounts = drawn(browser)
        first = next(iter(amounts))
        go(browser, f"#/cores/{first}?recording=file&at=peak:dram")

        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.run("document.querySelectorAll('nav[aria-label=Devices] a').length") == 32
    assert amounts == figures(printed("ps", file, "--at", "peak:dram"))


def test_it_fits_a_phone(browser: Browser) -> None:
    browser.resize(390, 844, phone=True)
    try:
        go(browser, "#/devices?recording=file&at=peak:dram", "document.querySelector('.card')")
        device = browser.run("document.querySelector('[data-device]').dataset.device")
        for view in ("devices", f"device/{device}", "cores", "sites", "events"):
            go(browser, f"#/{view}?recording=file&at=0.05s")
            assert browser.run("document.documentElement.scrollWidth") <= 390, view
    finally:
        browser.resize(1280, 900)


def test_the_focus_stays_where_it_is_while_the_page_is_drawn_anew(browser: Browser) -> None:
    go(browser, "#/devices", "document.querySelector('.card') !== null")
    browser.run("document.querySelector('.card').focus()")
    browser.run("void (window.drawn = document.querySelector('.card canvas'))")

    wait(browser, "document.querySelector('.card canvas') !== window.drawn")

    assert browser.run("document.activeElement === document.querySelector('.card')")


def test_nothing_comes_from_elsewhere_and_nothing_is_complained_about(
    browser: Browser, site: WebSite
) -> None:
    own = f"asked for http://127.0.0.1:{site.port}/"

    assert [problem for problem in browser.problems() if not problem.startswith(own)] == []
