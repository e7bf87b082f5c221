"""`make pictures`: the screenshots and sample output of the docs, from real ttnn programs on mocked boards.

The programs are in docs/programs. `python -m docs.make_pictures web` makes only those of the web page.
Needs what `make test-ttnn` needs (tests/ttnn/README.md).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timezone
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.fleet import running_fleet
from tests.ttnn.bench.environment import Environment, prepare
from tests.ttnn.bench.interpreter import find_interpreter
from tests.ttnn.bench.machine import Machine
from tests.web.browser import Browser
from tests.web.site import WebSite, website

from ttmem.feeds import Feed, open_feed
from ttmem.recording import Recording
from ttmem.snapshots import Question, Snapshot, from_json, to_json
from ttmem.sources.probe.region_file import find_regions
from ttmem.text import columns
from ttmem.views.ink import Line, Style
from ttmem.views.monitor.live_data import Choice, LiveData, Poller
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.theme import Depth, Rgb, Theme
from ttmem.views.ps import render
from ttmem.web.report import report

DOCS = Path(__file__).parent
README, PROBE_PAGE = DOCS.parent / "README.md", DOCS / "probe.md"
FOLDER, PROGRAMS = DOCS / "pictures", DOCS / "programs"
SIZE = (120, 36)
SECONDS = float(os.environ.get("PICTURE_SECONDS", "75"))  # charts need history
SETTLE = 3.0  # seconds until a page has its details
WIDTH = "100"  # columns of sample output
HOST, USER, HOME = "tt-box-7", "alice", "/home/alice"  # of the example, instead of this machine's

CELL, LINE, SIGN = 8.4, 19, 14  # pixels: width and height of a cell, size of a letter
EDGE, BAR = 12, 34  # pixels around the screen, and above it for the title
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(lines: Sequence[Line], width: int, theme: Theme, title: str) -> str:
    """A screen as an SVG: a window with a title, colours and cells as in a terminal."""
    ground = _hex(theme.tone(Style.PLAIN).back)
    wide, high = round(width * CELL + 2 * EDGE), len(lines) * LINE + EDGE + BAR
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        f"<style>text{{font:{SIGN}px {FONTS};white-space:pre;fill:#dee2e6}}"
        + "".join(_rules(theme, lines))
        + "</style>",
        f'<rect width="{wide}" height="{high}" rx="8" fill="{ground}" stroke="#555b61"/>',
        *(
            f'<circle cx="{20 + 20 * at}" cy="17" r="6" fill="{colour}"/>'
            for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<text x="{wide / 2}" y="22" text-anchor="middle">{escape(title)}</text>',
    ]
    for at, line in enumerate(lines):
        parts += _line(line, BAR + at * LINE, theme)
    return "\n".join([*parts, "</svg>\n"])


def _line(line: Line, top: int, theme: Theme) -> list[str]:
    """Each span is stretched to its cells, whatever font there is."""
    out, column = [], 0
    for text, style in line:
        cells = columns(text)
        left, wide = EDGE + column * CELL, cells * CELL
        column += cells
        back = theme.tone(style).back
        if back != theme.tone(Style.PLAIN).back:
            box = f'x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{LINE}"'
            out.append(f'<rect {box} fill="{_hex(back)}"/>')
        if bare := text.strip():
            left += CELL * (len(text) - len(text.lstrip()))
            size = f'textLength="{columns(bare) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            place = f'x="{left:.1f}" y="{top + SIGN}" {size}'
            out.append(f'<text class="{style.name}" {place}>{escape(bare)}</text>')
    return out


def _rules(theme: Theme, lines: Sequence[Line]) -> list[str]:
    used = {style for line in lines for _, style in line}
    return [
        f".{style.name}{{fill:{_hex(theme.tone(style).fore)}"
        + (";font-weight:bold}" if theme.tone(style).bold else "}")
        for style in Style
        if style in used
    ]


def _hex(colour: Rgb | int | None) -> str:
    assert isinstance(colour, tuple), "pictures are in true colour"
    return "#{:02x}{:02x}{:02x}".format(*colour)


def command(there: Machine, environment: Environment, program: str, *arguments: str) -> list[str]:
    """`ttmem run` on a copy of the program; whatever the runtime writes stays in the folder of the machine."""
    shutil.copy(PROGRAMS / program, there.folder)
    run = [sys.executable, "-m", "ttmem", "run", "--shm", str(there.folder), "--"]
    return [*run, str(environment.python), program, *arguments]


def explained(environment: Environment) -> str:
    """What `ttmem run` says about generate.py when it runs out of memory."""
    return _said(environment, "p150", r"pid \d+: no space", "generate.py")


def summary(environment: Environment) -> str:
    """The summary of serve.py with 20 requests."""
    return _said(environment, "p150x4", r"pid \d+: devices", "serve.py", "20")


def _said(environment: Environment, board: str, begin: str, program: str, *arguments: str) -> str:
    """The paragraph of `ttmem run` that begins so."""
    with Machine(environment, board) as there:
        done = subprocess.run(
            command(there, environment, program, *arguments),
            cwd=there.folder,
            env=there.variables(there.folder) | {"COLUMNS": WIDTH},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(rf"^ttmem: {begin}.*\n(?:  .*\n)+", done.stderr, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{program} did not end as the docs say:\n{done.stderr}")
    return found[0].rstrip("\n")


@contextmanager
def serving(environment: Environment) -> Iterator[Machine]:
    """serve.py on four chips, watched by the probe."""
    with Machine(environment, "p150x4") as there:
        child = subprocess.Popen(
            command(there, environment, "serve.py", "100000"),
            cwd=there.folder,
            env=there.variables(there.folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield there
        finally:
            child.terminate()
            child.wait()


class ExampleFeed(Feed):
    """Another feed, with the names of the example instead of those of this machine."""

    def __init__(self, feed: Feed, folder: Path) -> None:
        self._feed, self._folder = feed, folder

    @property
    def name(self) -> str:
        return "this host"

    def answer(self, question: Question) -> Snapshot:
        snapshot = self._feed.answer(question)
        text = json.dumps(to_json(snapshot)).replace(str(self._folder), HOME)
        return from_json(_as_example(json.loads(text)))

    def close(self) -> None:
        self._feed.close()


def _as_example(document: dict[str, Any]) -> dict[str, Any]:
    document["host"] |= {"name": HOST, "shared_memory": "/dev/shm"}
    for process in document["processes"]:
        process |= {"user": USER, "command": "python serve.py 100000"}
    return document


def _take(monitor: Monitor, watch: LiveData, poller: Poller[Question, Snapshot]) -> None:
    def settle(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            poller.wait(0.2)
            watch.take(poller.readings())
            monitor.screen(*SIZE)

    settle(SECONDS)
    for digit, page in enumerate(PAGES, start=1):
        monitor.press(str(digit))
        poller.hurry()
        settle(SETTLE)
        picture = svg(monitor.screen(*SIZE), SIZE[0], Theme(Depth.TRUE), f"ttmem top: {page.name}")
        file = FOLDER / f"top-{page.name.lower()}.svg"
        file.write_text(picture, encoding="utf-8")
        print(f"{file.relative_to(DOCS.parent)}  {len(picture) // 1024} KiB", flush=True)


def _snapshot(there: Machine) -> str:
    """`ttmem ps --json`, with the names of the example."""
    ps = [sys.executable, "-m", "ttmem", "ps", "--json", "--shm", str(there.folder)]
    done = subprocess.run(ps, capture_output=True, text=True, check=True)
    return json.dumps(_as_example(json.loads(done.stdout)), indent=1)


def _update_readme(failure: str, snapshot: str) -> None:
    """Replaces the sample output after `ttmem run -- python generate.py` and `ttmem ps`."""
    table = render(from_json(json.loads(snapshot)), width=100, color=False, zone=timezone.utc)
    text = README.read_text("utf-8")
    for command, output in (("ttmem run -- python generate.py", failure), ("ttmem ps", table)):
        before, block, rest = text.partition(f"```console\n$ {command}\n")
        text = before + block + output + rest[rest.index("\n```") :]
    README.write_text(text, "utf-8")


def sample_summary() -> str:
    """The summary in docs/probe.md."""
    return PROBE_PAGE.read_text("utf-8").partition("```\nttmem: pid ")[2].partition("\n```")[0]


def _update_probe_page(said: str) -> None:
    text = PROBE_PAGE.read_text("utf-8")
    PROBE_PAGE.write_text(text.replace(sample_summary(), said.removeprefix("ttmem: pid ")), "utf-8")


def _recorded(there: Machine, environment: Environment) -> Path:
    """A recording of generate.py."""
    recorded = there.folder / "generate.ttmem"
    run = command(there, environment, "generate.py")
    run[run.index("--") : run.index("--")] = ["--stacks", "-o", str(recorded)]
    subprocess.run(
        run, cwd=there.folder, env=there.variables(there.folder), capture_output=True, check=False
    )
    return recorded


def _await_region(there: Machine) -> None:
    """Until the program uses a device."""
    while not any(find_regions(str(there.folder))):
        time.sleep(0.2)


def _report(environment: Environment) -> None:
    """A report of generate.py, as Chromium shows it."""
    with Machine(environment, "p150") as there, tempfile.TemporaryDirectory() as profile:
        recorded, page = _recorded(there, environment), there.folder / "generate.html"
        with Recording(str(recorded)) as recording:
            page.write_text(report(recording), "utf-8")
        with Browser(Path(profile), 1280, 1000) as browser:
            browser.open(page)
            browser.run(
                """(() => {
                    document.querySelector(".command").textContent = "python generate.py";
                    document.querySelector(".facts dd").textContent = "tt-box-7";
                })()"""
            )
            browser.picture(FOLDER / "report.png")


WEB_SIZE = (1180, 760)


@contextmanager
def _page(there: Machine, file: Path | None = None) -> Iterator[tuple[WebSite, Browser]]:
    """`ttmem web` on a machine, in Chromium; names are those of the example."""
    with tempfile.TemporaryDirectory() as profile:
        given = [str(file)] if file else []
        with (
            website(*given, "--shm", str(there.folder)) as site,
            Browser(Path(profile), *WEB_SIZE) as browser,
        ):
            browser.ask("Page.navigate", url=f"http://127.0.0.1:{site.port}/#token={site.token}")
            _until(browser, "document.querySelector('.card') !== null")
            yield site, browser


def _until(browser: Browser, condition: str) -> None:
    browser.run(
        f"new Promise((done) => {{ const look = () => ({condition}) ? done(1) : setTimeout(look, 50); look(); }})"
    )


def _shoot(browser: Browser, name: str, view: str, scheme: str = "light") -> None:
    browser.scheme(scheme)
    browser.run(f"void (location.hash = {view!r})")
    time.sleep(SETTLE)
    browser.run(
        f"""(() => {{
            const host = document.getElementById("host");
            if (!host.textContent.endsWith(".ttmem")) host.textContent = {HOST!r};
        }})()"""
    )
    file = FOLDER / f"web-{name}.png"
    browser.picture(file)
    print(f"{file.relative_to(DOCS.parent)}  {file.stat().st_size // 1024} KiB", flush=True)


def _web_live(browser: Browser) -> None:
    """After the page has been open for a while."""
    device = browser.run("document.querySelector('[data-device]').dataset.device")
    _shoot(browser, "devices", "#/devices")
    _shoot(browser, "cores", f"#/cores/{device}", "dark")


def _web_recording(environment: Environment) -> None:
    """A recording of generate.py in the page, at the peak of L1."""
    with Machine(environment, "p150") as there:
        recorded = _recorded(there, environment)
        with _page(there, recorded) as (_, browser):
            device = browser.run("document.querySelector('[data-device]').dataset.device")
            _shoot(browser, "recording", f"#/device/{device}?recording=file&at=peak:l1_used")


def _web_fleet() -> None:
    """Galaxies in a Prometheus, which scraped what `ttmem metrics` prints of the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            running_fleet(folder, 12, 1) as (url, _, _),
            website("--prometheus", url, "--shm", name) as site,
            Browser(folder / "profile", *WEB_SIZE) as browser,
        ):
            link = f"http://127.0.0.1:{site.port}/fleet#token={site.token}"
            browser.ask("Page.navigate", url=link)
            _until(browser, "document.querySelectorAll('tbody tr').length >= 12")
            browser.run(
                "void (document.getElementById('source').textContent = 'http://prometheus:9090')"
            )
            browser.picture(FOLDER / "web-fleet.png")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    environment = prepare(find_interpreter(), lambda what: print(what, flush=True))
    _web_recording(environment)
    _web_fleet()
    if sys.argv[1:] == ["web"]:
        with serving(environment) as there:
            _await_region(there)
            with _page(there) as (_, browser):
                time.sleep(SECONDS)
                _web_live(browser)
        return
    _report(environment)
    failure = explained(environment)
    (FOLDER / "out-of-memory.txt").write_text(failure + "\n", encoding="utf-8")
    print(f"letting serve.py run for {SECONDS:g} s, to have a history to show", flush=True)
    with serving(environment) as there, ExitStack() as stack:
        _await_region(there)
        _, browser = stack.enter_context(_page(there))
        watch = LiveData(Choice())
        monitor = Monitor(lambda: "this host", watch, PAGES)
        monitor.state.span = 60
        feed = ExampleFeed(open_feed(shm=str(there.folder)), there.folder)
        poller = Poller(
            feed.answer, monitor.question, lambda: monitor.interval, lambda: feed.name, feed.close
        )
        poller.start()
        try:
            _take(monitor, watch, poller)
        finally:
            poller.stop()
        _web_live(browser)
        snapshot = _snapshot(there)
    (FOLDER / "snapshot.json").write_text(snapshot + "\n", encoding="utf-8")
    _update_readme(failure, snapshot)
    _update_probe_page(summary(environment))


if __name__ == "__main__":
    main()
