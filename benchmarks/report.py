"""Reports: making one of a million events, its size, and how it opens and pans in Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.web.browser import PROGRAM, Browser, found

from benchmarks.ground import Failed, amount
from benchmarks.table import Row
from ttmem.recording import Recording
from ttmem.web.report import report

STEPS = amount(1200, 5)  # of the transformer: 880 events each
FRAMES = amount(120, 5)
PAN = """new Promise((done) => {
    const chart = document.querySelector("[data-chart] .chart");
    const box = chart.getBoundingClientRect();
    for (let at = 0; at < 3; at += 1) {
        const closer = { deltaY: -300, ctrlKey: true, clientX: box.left + 300, cancelable: true };
        chart.dispatchEvent(new WheelEvent("wheel", closer));
    }
    const times = [];
    const turn = (now) => {
        times.push(now);
        if (times.length > %d) return done(times.slice(1).map((time, at) => time - times[at]));
        const there = times.length %% 40 < 20 ? 12 : -12;
        chart.dispatchEvent(new WheelEvent("wheel", { deltaX: there, clientX: box.left + 300, cancelable: true }));
        requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
})"""


def measure() -> list[Row]:
    if not found():
        raise Failed(f"{PROGRAM} is not installed; `make tools` installs it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, page = folder / "long.ttmem", folder / "long.html"
        simulate = [
            "simulate",
            "transformer",
            "--steps",
            str(STEPS),
            "--rate",
            "0",
            "-o",
            str(file),
        ]
        subprocess.run(
            [sys.executable, "-m", "ttmem", *simulate], check=True, stdout=subprocess.DEVNULL
        )
        with Recording(str(file)) as recording:
            begun = time.process_time()
            page.write_text(report(recording), "utf-8")
            seconds = time.process_time() - begun
            events = recording.info().end
        with Browser(folder / "browser") as browser:
            opened = [_opened(browser, page) for _ in range(amount(5, 1))]
            frames = browser.run(PAN % FRAMES)
            size = page.stat().st_size
    note = f"{events:,} events"
    return [
        Row("a report is made, processor time", events / seconds, "events/s", 50_000, True, note),
        Row("its page", size / 1e6, "MB", 3, note=note),
        Row("the page opens in Chromium", median(opened), "ms", 2000, note="median of 5"),
        Row("it pans", 1000 / median(frames), "frames/s", 30, True, f"median of {FRAMES}"),
    ]


def _opened(browser: Browser, page: Path) -> float:
    """Milliseconds from the request for the page to its first picture."""
    browser.open(page)
    found: float = browser.run("performance.getEntriesByName('drawn')[0].startTime")
    return found
