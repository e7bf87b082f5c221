"""The report in a real browser: it opens, zooms, searches and explains, with the figures of `ttmem ps --at`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exporters import history
from tests.own_process import printed
from tests.web.browser import PROGRAM, Browser, found
from ttmem.commands import main

pytestmark = pytest.mark.slow
HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not found():
        pytest.skip(f"{PROGRAM} is not installed")
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def recording(folder: Path) -> Path:
    file = folder / "cnn.ttmem"
    assert main(["simulate", "cnn", "--steps", "12", "--rate", "0", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def page(recording: Path) -> Path:
    return report(recording)


def report(file: Path) -> Path:
    page = file.with_suffix(".html")
    assert main(["report", str(file), "-o", str(page), "--overwrite"]) == 0
    return page


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.events.clear()
    browser.resize(1280, 900)
    browser.open(page)
    return browser


def shown(browser: Browser) -> dict[str, int]:
    """The totals at the cursor, as the page prints them."""
    found: dict[str, int] = browser.run(
        """Object.fromEntries([...document.querySelectorAll("#readout .bytes")].map(
            (one) => [one.id.replace("total-", ""), Number(one.dataset.bytes)]))"""
    )
    return found


def ps(file: Path, position: int) -> dict[str, Any]:
    device: dict[str, Any] = printed("ps", file, "--at", f"#{position}")["devices"][0]
    return device


def assert_as_ps(browser: Browser, file: Path) -> None:
    """`command` is what the page tells people to type."""
    browser.settle()
    command = browser.run("document.querySelector('#command').textContent")
    position = int(browser.run("document.querySelector('#cursor-time').dataset.position"))
    assert command == f"ttmem ps {file.name} --at '#{position}'"
    device = ps(file, position)
    held = {kind: device["memory"][kind]["held"] for kind in ("dram", "l1_small", "trace")}
    held = {kind: bytes_ for kind, bytes_ in held.items() if bytes_ or kind == "dram"}
    assert shown(browser) == held | {"l1_used": device["l1_used"]}


def middle(browser: Browser, chart: str, part: float = 0.5) -> tuple[float, float]:
    """A place in a chart, on the screen."""
    box = browser.run(
        f"""(() => {{
            const chart = document.querySelector('[data-chart="{chart}"] .chart');
            chart.scrollIntoView({{ block: "center", behavior: "instant" }});
            const {{ left, top, width, height }} = chart.getBoundingClientRect();
            return [left, top, width, height];
        }})()"""
    )
    left, top, width, height = box
    return left + 68 + (width - 78) * part, top + height / 2


def test_it_opens_from_a_file_without_a_complaint_or_a_request(opened: Browser) -> None:
    assert opened.problems() == []
    assert opened.run("document.querySelectorAll('canvas').length") > 4
    assert opened.run("document.documentElement.scrollWidth") == 1280


def test_figures_at_the_cursor_are_those_of_ps(opened: Browser, recording: Path) -> None:
    assert_as_ps(opened, recording)  # where it begins: a peak
    for part in (0.2, 0.55, 0.9):
        opened.mouse("mouseMoved", *middle(opened, "l1_used", part))
        x, y = middle(opened, "l1_used", part)
        opened.mouse("mousePressed", x, y)
        opened.mouse("mouseReleased", x, y)
        assert_as_ps(opened, recording)


def test_arrow_keys_go_from_event_to_event(opened: Browser, recording: Path) -> None:
    opened.run("document.querySelector('[data-chart=dram] .chart').focus()")
    times = []
    for _ in range(3):
        opened.key("ArrowLeft")
        opened.settle()
        times.append(opened.run("Number(document.querySelector('#cursor-time').dataset.ns)"))

    assert times == sorted(set(times), reverse=True)
    assert_as_ps(opened, recording)


def test_hovering_lists_what_is_alive(opened: Browser) -> None:
    opened.run("document.querySelector('[data-chart=dram] .chart').focus()")
    opened.key("Escape")
    opened.mouse("mouseMoved", *middle(opened, "dram", 0.5))
    opened.settle()

    text = opened.run("document.querySelector('.tooltip').innerText")
    assert "DRAM" in text
    assert "load weights" in text


def test_dragging_zooms_and_a_double_click_shows_all(opened: Browser) -> None:
    def window() -> str:
        opened.settle()
        text: str = opened.run("document.querySelector('.overview').getAttribute('aria-valuetext')")
        return text

    opened.run("document.querySelector('[data-chart=dram] .chart').focus()")
    opened.key("0")
    whole = window()
    (left, y), (right, _) = middle(opened, "dram", 0.4), middle(opened, "dram", 0.6)
    opened.mouse("mouseMoved", left, y)
    opened.mouse("mousePressed", left, y)
    opened.mouse("mouseMoved", (left + right) / 2, y, buttons=1)
    opened.mouse("mouseMoved", right, y, buttons=1)
    opened.mouse("mouseReleased", right, y)
    closer = window()
    opened.run("document.querySelector('[data-chart=dram] .chart').focus()")
    opened.key("0")

    assert closer != whole
    assert window() == whole


def test_a_search_adds_up_what_it_finds(opened: Browser) -> None:
    opened.run(
        """(() => {
            const field = document.querySelector("#icicle-search");
            field.value = "conv";
            field.dispatchEvent(new Event("input"));
        })()"""
    )
    listed = opened.run(
        """[...document.querySelectorAll("#groups tbody tr")]
            .filter((row) => row.innerText.includes("conv"))
            .flatMap((row) => [...row.querySelectorAll(".bytes")])
            .reduce((sum, one) => sum + Number(one.dataset.bytes), 0)"""
    )

    assert listed > 0
    assert int(opened.run("document.querySelector('#icicle-summary').dataset.matched")) == listed


def test_stacking_by_another_dimension_keeps_the_total(opened: Browser) -> None:
    for dimension in ("op", "phase", "process", "site"):
        opened.run(
            f"""(() => {{
                const select = document.querySelector("#stack-by");
                select.value = "{dimension}";
                select.dispatchEvent(new Event("change"));
            }})()"""
        )
        opened.settle()
        sums = opened.run(
            """[0, 1].map((column) => [...document.querySelectorAll("#groups tbody tr")]
                .map((row) => row.cells[column].querySelector(".bytes"))
                .reduce((sum, one) => sum + Number(one?.dataset.bytes ?? 0), 0))"""
        )
        totals = shown(opened)
        assert sums == [totals["dram"], totals["l1_used"]]


@pytest.mark.parametrize(("width", "phone"), [(1280, False), (390, True)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_light_and_dark(
    opened: Browser, tmp_path: Path, width: int, phone: bool, scheme: str
) -> None:
    opened.resize(width, 844, phone=phone)
    opened.scheme(scheme)
    opened.settle()

    opened.picture(tmp_path / "screen.png")
    colour = opened.run("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (brightness > 382) == (scheme == "light")
    assert opened.run("document.documentElement.scrollWidth") <= width
    assert (tmp_path / "screen.png").stat().st_size > 10_000


def test_pictures_of_several_devices_keep_their_size(browser: Browser, folder: Path) -> None:
    file = folder / "mesh.ttmem"
    assert main(["simulate", "transformer", "--steps", "2", "--rate", "0", "-o", str(file)]) == 0
    browser.open(report(file))
    heights = "[...document.querySelectorAll('.device canvas')].map((one) => one.clientHeight)"

    first = browser.run(heights)
    for _ in range(3):
        browser.settle()

    assert len(first) == 4
    assert first == browser.run(heights) == [34] * 4


def test_it_prints_on_white_paper_from_a_dark_screen(opened: Browser) -> None:
    opened.scheme("dark")
    opened.run(
        """addEventListener("beforeprint", () =>
            (globalThis.ground = getComputedStyle(document.documentElement).getPropertyValue("--ground")))"""
    )

    pages = opened.ask("Page.printToPDF")["data"]

    assert len(pages) > 10_000
    assert opened.run("globalThis.ground") == "rgb(251, 251, 250)"
    assert opened.problems() == []


def test_what_a_recording_says_is_never_html(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(history.SITES, 12, f"/src/{HOSTILE}.py:7 load")
    monkeypatch.setitem(history.OPS, 1, HOSTILE)
    monkeypatch.setitem(history.PHASES, 21, HOSTILE)
    file = tmp_path / "hostile.ttmem"
    history.record(file)
    browser.events.clear()

    browser.open(report(file))

    assert browser.problems() == []
    assert browser.run("document.title") == "hostile.ttmem - ttmem report"
    assert browser.run("document.querySelectorAll('img, main script').length") == 0
    assert "onerror" in browser.run("document.querySelector('#sites').innerText")


def test_failures_are_explained(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "failed.ttmem"
    history.record(file)

    browser.open(report(file))

    assert "7.0 MiB" in browser.run("document.querySelector('#failures').innerText")
    assert (
        browser.run("document.querySelector('.banner').innerText").count("1 failed allocation") == 1
    )


def test_a_page_of_an_empty_recording_says_so(browser: Browser, tmp_path: Path) -> None:
    from ttmem.ledger import Books
    from ttmem.recording.files import FileSink
    from ttmem.recording.recorder import Recorder, described

    file = tmp_path / "empty.ttmem"
    Recorder(Books(), FileSink(str(file)), described("test")).close()
    browser.events.clear()

    browser.open(report(file))

    assert browser.problems() == []
    assert "No device appears" in browser.run("document.body.innerText")
